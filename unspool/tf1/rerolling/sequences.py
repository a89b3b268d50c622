"""Steps as one tensor, and one tensor as steps: views and copies around a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from unspool.tf1.operation import Operation


def stacked(*steps: torch.Tensor) -> Any:
    """One tensor of all steps; where they have different shapes, the steps as they are."""
    return torch.stack(steps) if all(each.shape == steps[0].shape for each in steps) else list(steps)


def one_step(place: int) -> Callable[..., Any]:
    """Takes a step out of a sequence."""
    return lambda steps: steps[place]


def some_steps(places: Sequence[int]) -> Callable[..., Any]:
    """Takes steps out of a sequence."""

    def compute(steps: Any) -> list[Any]:
        each = steps.unbind(0) if isinstance(steps, torch.Tensor) else steps
        return [each[place] for place in places]

    return compute


@dataclass(frozen=True)
class Cut:
    """Slices of a tensor along an axis, as a sequence, and the others one by one: what backward puts together at once.

    Args:
        axis: the axis.
        first, length: the first slice of the sequence, and of how many it is.
        count: how many slices there are.
    """

    axis: int
    first: int
    length: int
    count: int

    def __call__(self, x: torch.Tensor) -> Any:
        """The sequence, the slices before it, and those after it."""
        steps = self._steps(x)
        if self.length == self.count:
            return steps
        rest = self.count - self.first - self.length
        before, sequence, after = steps.split([self.first, self.length, rest])
        return [sequence, *before.unbind(0), *after.unbind(0)]

    def part(self, x: torch.Tensor) -> torch.Tensor:
        """The sequence alone."""
        steps = self._steps(x)
        return steps if self.length == self.count else steps[self.first : self.first + self.length]

    def one(self, x: torch.Tensor) -> torch.Tensor:
        """The first slice of the sequence."""
        return self._steps(x)[self.first]

    def _steps(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[self.axis] != self.count:
            raise ValueError(f"there are {x.shape[self.axis]} slices along axis {self.axis}, but num is {self.count}")
        return x.movedim(self.axis, 0)


@dataclass(frozen=True)
class Together:
    """Puts steps together along an axis, `tf.stack` or `tf.concat`, some of which come as sequences.

    Args:
        stacks: whether the axis is a new one.
        axis: the axis.
        sequences: whether each input is a sequence of steps, or one step.
    """

    stacks: bool
    axis: int
    sequences: tuple[bool, ...]

    @staticmethod
    def is_done_by(operation: Operation) -> bool:
        """Whether an operation puts its inputs together."""
        return isinstance(operation.function, Together) or operation.type in _TOGETHER

    @staticmethod
    def of(operation: Operation) -> Together:
        """What an operation does."""
        function: Any = operation.function
        if isinstance(function, Together):
            return function
        return Together(_TOGETHER[operation.type], operation.attributes["axis"], (False,) * len(operation.inputs))

    def with_sequence(self, first: int, last: int) -> Together:
        """The same with a sequence in the place of steps."""
        return Together(self.stacks, self.axis, (*self.sequences[:first], True, *self.sequences[last:]))

    def __call__(self, *parts: Any) -> torch.Tensor:
        """All steps together."""
        given = list(zip(parts, self.sequences, strict=True))
        whole = [part if sequence else part[None] for part, sequence in given if isinstance(part, torch.Tensor)]
        if len(whole) < len(parts) or any(each.shape[1:] != whole[0].shape[1:] for each in whole):
            steps = [each for part, sequence in given for each in (part if sequence else [part])]
            return torch.stack(steps, self.axis) if self.stacks else torch.cat(steps, self.axis)
        where = self.axis % (whole[0].dim() if self.stacks else whole[0].dim() - 1)
        moved = [each.movedim(0, where) for each in whole]
        steps = moved[0] if len(moved) == 1 else torch.cat(moved, where)
        return steps if self.stacks else steps.flatten(where, where + 1)


_TOGETHER = {"Pack": True, "ConcatV2": False}
"""What puts steps together, and whether along a new axis."""
