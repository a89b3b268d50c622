"""Adding a cell's inputs to its outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unspool.cells.wrappers.wrapper import RNNCellWrapper
from unspool.structure import Structure, check_same_structure, flatten, map_structure
from unspool.tracers import static_shape


class ResidualWrapper(RNNCellWrapper):
    """`output = cell's output + inputs`; the state is the cell's own.

    Args:
        cell: the cell to wrap.
        residual_fn: `residual_fn(inputs, outputs)`, to combine them otherwise than by adding leaf by leaf.

    >>> import torch
    >>> from unspool import BasicRNNCell
    >>> cell = ResidualWrapper(BasicRNNCell(3))
    >>> output, state = cell(torch.ones(2, 3), cell.zero_state(2, torch.float32))
    >>> bool((output == state + 1).all())
    True
    """

    def __init__(self, cell: Any, residual_fn: Callable[[Any, Any], Any] | None = None) -> None:
        super().__init__(cell)
        if residual_fn is not None and not callable(residual_fn):
            raise TypeError(f"residual_fn must be callable, but got {residual_fn!r}")
        self.residual_fn = residual_fn

    def forward(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step of the cell, and the inputs on top."""
        outputs, new_state = self.cell(inputs, state)
        return (self.residual_fn or _add)(inputs, outputs), new_state


def _add(inputs: Structure, outputs: Structure) -> Structure:
    check_same_structure(inputs, outputs, name="the cell's output", like="inputs")
    for one, other in zip(flatten(inputs), flatten(outputs), strict=True):
        if static_shape(one) != static_shape(other):
            raise ValueError(
                f"ResidualWrapper: inputs have shape {list(one.shape)}, but the cell's output {list(other.shape)}; "
                "give a residual_fn to combine them"
            )
    return map_structure(lambda one, other: one + other, inputs, outputs)
