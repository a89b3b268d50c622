"""Steps around a cell's step, for what a layer does at every step: all inside the loop that the engine compiles.

What such a step reads besides stands beside the inputs of its cell, as `(inputs, other, ...)`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.cells.like import is_built
from unspool.cells.wrappers.wrapper import RNNCellWrapper
from unspool.layers.states import LearnedState
from unspool.structure import Structure, map_structure


class _Around(RNNCellWrapper):
    """A wrapper without weights: there is nothing to build where its cell is built."""

    def __init__(self, cell: Any) -> None:
        super().__init__(cell)
        if is_built(cell):
            self.has_nothing_to_build()


class _Beside(_Around):
    """A wrapper that reads something beside the inputs of its cell."""

    def build(self, input_size: Any, **where: Any) -> None:
        """Builds the wrapped cell."""
        self.build_cell(input_size[0], **where)

    def check_inputs(self, inputs: Structure, state: Structure) -> None:
        """The wrapped cell's check."""
        super().check_inputs(inputs[0], state)


class Resetting(_Beside):
    """Starts a row anew at the steps whose flag is set: `cell(inputs, start if flag else state)`.

    Args:
        cell: the cell.
        start: what rows start from; None for zeros.
        direction: which of the flags that stand beside the inputs it reads.
    """

    def __init__(self, cell: Any, start: LearnedState | None, direction: int) -> None:
        super().__init__(cell)
        self.start, self.direction = start, direction

    def forward(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step, from where each row is or from the start."""
        given, *flags = inputs
        flag = flags[self.direction]
        start = map_structure(torch.zeros_like, state) if self.start is None else self.start.rows_like(state)
        return self.cell(given, map_structure(lambda old, new: torch.where(_each(flag, old), new, old), state, start))


class Truncating(_Beside):
    """Cuts gradients through the state off, every so many steps; the number of the step stands beside the inputs."""

    def __init__(self, cell: Any, every: int) -> None:
        super().__init__(cell)
        self.every = every

    def forward(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step, from a state that is detached at the first step of a segment, but for the first of all."""
        given, step = inputs
        cut = (step % self.every == 0) & (step > 0)
        return self.cell(given, map_structure(lambda leaf: torch.where(_each(cut, leaf), leaf.detach(), leaf), state))


class Showing(_Around):
    """Puts out the new state beside the output."""

    @property
    def output_size(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The output's, and the state's."""
        return self.cell.output_size, self.cell.state_size

    def forward(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step of the cell."""
        output, state = self.cell(inputs, state)
        return (output, state), state


def _each(flag: Tensor, leaf: Tensor) -> Tensor:
    """A flag for each row, for all elements of the row."""
    return flag.reshape(flag.shape + (1,) * (leaf.dim() - 1))
