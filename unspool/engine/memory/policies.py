"""Rematerialisation policies: what a loop keeps for backward.

A new one is a subclass of `Memory`: segments, what of a plan's schedules it runs, and the bytes that this takes.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import torch

from unspool.engine.explain.units import counted

if TYPE_CHECKING:
    from torch import fx

    from unspool.engine.execute.layout import Layout
    from unspool.engine.plans.plan import Plan, Schedule


@dataclass(frozen=True)
class Usage:
    """What a policy keeps of a call.

    Args:
        what: in words, one kind of tensors each.
        row_bytes: bytes a row and step.
        total: bytes of the whole call.
        again: bytes that backward holds besides, while it runs steps again.
    """

    what: Sequence[str]
    row_bytes: float
    total: int
    again: int = 0


class Memory(ABC):
    """A policy: what the forward pass keeps, and how the backward pass gets the rest."""

    @classmethod
    def example(cls) -> Memory:
        """What `explain` compares other policies with."""
        return cls()

    @abstractmethod
    def schedule(self, plan: Plan) -> Schedule:
        """The phases: the adjoint takes what the forward phase keeps."""

    @property
    def reruns(self) -> bool:
        """Whether only states at the start of each segment are kept, and backward runs its steps forward once more."""
        return False

    def forward(self, plan: Plan) -> Schedule:
        """The schedule of the forward pass."""
        return plan.inference if self.reruns else self.schedule(plan)

    def residuals(self, plan: Plan) -> Sequence[fx.Node]:
        """What the forward pass keeps of every row and step."""
        # Steps that run again do so with the same draws, whether or not the adjoint needs them.
        return plan.draws.outputs if self.reruns else self.schedule(plan).kept

    def segments(self, steps: int) -> list[tuple[int, int]]:
        """The steps that backward works through as one, from the last segment to the first."""
        return [(0, steps)]

    def usage(self, plan: Plan, layout: Layout) -> Usage:
        """What it keeps of a call."""
        schedule, trace = self.schedule(plan), plan.trace
        draws = [node for node in schedule.kept if node in plan.draws.outputs]
        states = [node for node in schedule.kept if node in trace.state]
        read = f" ({len(schedule.from_outputs)} more in the outputs)" if schedule.from_outputs else ""
        activations = counted(len(schedule.kept) - len(draws) - len(states), "activation")
        what = [counted(len(states), "state") + read, activations, counted(len(draws), "draw")]
        row_bytes = plan.row_bytes(schedule.kept)
        return Usage(what, row_bytes, layout.rows(0, layout.steps) * row_bytes)


@dataclass(frozen=True)
class Keep(Memory):
    """Keeps the states and the results of the step's matrix products and large sums: backward repeats none of them.

    The fastest where memory is plentiful, and what TensorFlow does. For an LSTM, 6 N numbers a row and step.

    >>> Keep()
    Keep()
    """

    def schedule(self, plan: Plan) -> Schedule:
        """As the plan chooses residuals."""
        return plan.keep


@dataclass(frozen=True)
class Recompute(Memory):
    """Keeps the states alone; backward computes the rest of a chunk again, for all its steps at once.

    One more large matrix product a chunk. A state that is also an output, such as an LSTM's `h`, is not kept twice:
    in return, the outputs must not be changed in place before `backward()`. For an LSTM, N numbers a row and step.

    >>> Recompute()
    Recompute()
    """

    def schedule(self, plan: Plan) -> Schedule:
        """The adjoint begins with the forward computation from the states."""
        return plan.recompute


@dataclass(frozen=True)
class Checkpoint(Memory):
    """Keeps every N-th state; backward runs the loop again between them, N steps at a time.

    For `T` steps, `ceil(T / N)` states are kept, and N steps are held as `Keep` holds them while backward is there.

    Args:
        every: N, at least 1.

    >>> Checkpoint(every=50)
    Checkpoint(every=50)
    """

    every: int

    def __post_init__(self) -> None:
        try:
            every = operator.index(self.every)
        except TypeError:
            raise TypeError(f"every must be an int, but is {self.every!r}") from None
        if every < 1:
            raise ValueError(f"every must be at least 1, but is {every}")

    @classmethod
    def example(cls) -> Checkpoint:
        """Segments as long as a chunk."""
        return cls(every=32)

    @property
    def reruns(self) -> bool:
        """From each state that is kept."""
        return True

    def schedule(self, plan: Plan) -> Schedule:
        """That of `Keep`, for one segment after another."""
        return plan.keep

    def segments(self, steps: int) -> list[tuple[int, int]]:
        """From one state that is kept to the next."""
        return ranges(0, steps, self.every)

    def usage(self, plan: Plan, layout: Layout) -> Usage:
        """States at the start of each segment, and all draws; while backward runs, one segment as `Keep` keeps it."""
        segments, draws = self.segments(layout.steps), plan.draws.outputs
        rows = layout.rows(0, layout.steps)
        states = sum(layout.counts[start] for start, _ in segments) * plan.row_bytes(plan.trace.state)
        total = states + rows * plan.row_bytes(draws)
        longest = max(layout.rows(start, stop) for start, stop in segments)
        what = [f"all states at {counted(len(segments), 'step')}", counted(len(draws), "draw")]
        return Usage(what, total / rows, total, longest * plan.row_bytes(self.schedule(plan).kept))


def ranges(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    """Steps from `start` to `stop`, so many at a time."""
    return [(begin, min(begin + size, stop)) for begin in range(start, stop, size)]


def check_memory(memory: Any) -> None:
    """Raises `TypeError` unless `memory` is a policy or None."""
    if memory is not None and not isinstance(memory, Memory):
        hint = " (write it with parentheses)" if memory in (Keep, Recompute) else ""
        raise TypeError(f"memory must be Keep(), Recompute(), Checkpoint(every=N) or None, but is {memory!r}{hint}")


KEPT_PART = 64
"""What `Keep()` may take of a GPU's memory, as a part of it, before it is not what a loop does by itself."""


def default_memory(device: torch.device, kept: float | None = None) -> Memory:
    """What a loop keeps unless it is told: everything, unless that would be a large part of a GPU's memory.

    Args:
        device: where it runs.
        kept: the bytes that `Keep()` would keep, if they are known.
    """
    if device.type != "cuda":
        return Keep()
    return Keep() if kept is not None and kept * KEPT_PART <= device_bytes(device) else Recompute()


@cache
def device_bytes(device: torch.device) -> int:
    """The memory of a GPU."""
    return int(cast(Any, torch.cuda).get_device_properties(device).total_memory)
