"""States whose rows are on another axis than the first: in their own layout outside, rows first in the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from unspool.cells.like import is_built
from unspool.cells.torch_cells import as_cell
from unspool.cells.wrappers.wrapper import RNNCellWrapper
from unspool.sizes import UNKNOWN
from unspool.structure import Structure, children, describe, flatten, is_leaf, unflatten_as


class RowsFirst(RNNCellWrapper):
    """A cell whose state has its rows on the first axis, made of one that has a `batch_axis`."""

    def __init__(self, cell: Any) -> None:
        super().__init__(cell)
        if is_built(cell):
            self.has_nothing_to_build()

    @property
    def batch_axis(self) -> Any:
        """The first."""
        return 0

    @property
    def plan_owner(self) -> Any:
        """Who keeps the plans: the cell, or whoever keeps its."""
        return plan_owner_of(self.cell) or self.cell

    def forward(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step of the cell, in its own layout."""
        axes = self.cell.batch_axis
        output, new_state = self.cell(inputs, own_layout(state, axes))
        return output, rows_first(new_state, axes)


def has_rows_first(cell: Any) -> bool:
    """Whether all tensors of a cell's state have their rows on the first axis."""
    axes = getattr(cell, "batch_axis", 0)
    return (axes.__class__ is int and axes == 0) or not any(flatten(axes))


def as_decoded_cell(name: str, cell: Any) -> Any:
    """A cell (the argument `name`) for whoever works on the rows of its states.

    Raises:
        TypeError: if it is none.
        ValueError: if its rows are elsewhere than on the first axis, or if it does not know the size of its output.
    """
    cell = as_cell(name, cell)
    if not has_rows_first(cell):
        raise ValueError(f"{name} has batch_axis={cell.batch_axis!r}, but decoding needs rows on the first axis")
    if cell.output_size is UNKNOWN:
        raise ValueError(f"{name} does not know the size of its output, which decoding needs: give it an output_size")
    return cell


def plan_owner_of(cell: Any) -> Any:
    """Who keeps the plans of a cell that was made for the occasion; None if it does so itself."""
    return cell.plan_owner if hasattr(cell.__class__, "plan_owner") else None


def check_axes(axes: Structure) -> None:
    """Raises `ValueError` unless `batch_axis` is an int or a structure of ints."""
    for axis in flatten(axes):
        if not isinstance(axis, int) or isinstance(axis, bool):
            raise ValueError(f"batch_axis must be an int or a structure of ints, but has {axis!r}")


def rows_first(state: Structure, axes: Structure, name: str = "the state") -> Structure:
    """A state in its own layout, with all rows moved to the first axis.

    >>> import torch
    >>> rows_first((torch.zeros(2, 5, 3), torch.zeros(5)), (1, 0))[0].shape
    torch.Size([5, 2, 3])
    """
    return _moved(state, axes, name, lambda leaf, axis: leaf.movedim(axis, 0))


def own_layout(state: Structure, axes: Structure) -> Structure:
    """The inverse of `rows_first`."""
    return _moved(state, axes, "the state", lambda leaf, axis: leaf.movedim(0, axis))


def _moved(state: Structure, axes: Structure, name: str, move: Callable[[Tensor, int], Tensor]) -> Structure:
    if axes.__class__ is int and axes == 0:
        return state
    leaves: list[Any] = []
    for leaf, axis in zip(flatten(state), _beside(state, axes, name), strict=True):
        if not isinstance(leaf, Tensor) or not axis:
            leaves.append(leaf)
        elif not -leaf.dim() <= axis < leaf.dim():
            raise ValueError(f"batch_axis is {axis}, but {name} has shape {list(leaf.shape)}")
        else:
            leaves.append(move(leaf, axis))
    return unflatten_as(state, leaves)


def _beside(state: Structure, axes: Structure, name: str) -> list[int]:
    """The axis of each tensor of a state; one int may stand for all tensors of a part."""
    if is_leaf(axes):
        return [axes] * len(flatten(state))
    parts = {} if is_leaf(state) else children(state)
    own = children(axes)
    if parts.keys() != own.keys():
        raise ValueError(f"{name} is {describe(state)}, but batch_axis is {describe(axes)}")
    return [axis for key, part in parts.items() for axis in _beside(part, own[key], name)]
