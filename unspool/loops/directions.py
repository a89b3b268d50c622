"""What the bidirectional loops share: two directions, and layers of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from unspool.cells.torch_cells import as_cell
from unspool.engine import entry
from unspool.sizes import UNKNOWN, shape_of
from unspool.structure import Structure, check_same_structure, describe, flatten, map_structure

Call = TypeVar("Call")
Made = TypeVar("Made")


def both_directions(
    make: Callable[..., Call], fw: tuple[Any, Structure], bw: tuple[Any, Structure]
) -> tuple[Call, Call]:
    """`make(cell, initial_state, ...)` of both directions, told the names of their arguments; neither is run yet."""
    for name, (cell, initial_state) in (("cell_fw", fw), ("cell_bw", bw)):
        as_cell(name, cell, starts=initial_state is None)
    forwards = make(*fw, cell_name="cell_fw", state_name="initial_state_fw")
    backwards = make(*bw, cell_name="cell_bw", state_name="initial_state_bw")
    return forwards, backwards


def at_once(first: Callable[[], Made], second: Callable[[], Made], like: Tensor) -> tuple[Made, Made]:
    """What two functions that run loops return; on a device like that of `like`, maybe at the same time."""
    return entry.both(first, second, like.device) if like.is_cuda else (first(), second())


def check_can_be_joined(cell_fw: Any, cell_bw: Any) -> None:
    """Raises unless the outputs of both cells have the same containers, and an axis to be joined along.

    Outputs of unknown size are checked when they are there.
    """
    if UNKNOWN in (cell_fw.output_size, cell_bw.output_size):
        return
    check_same_structure(
        cell_fw.output_size, cell_bw.output_size, name="cell_bw.output_size", like="cell_fw.output_size"
    )
    for size in flatten((cell_fw.output_size, cell_bw.output_size)):
        if not shape_of(size, "output_size"):
            raise ValueError("outputs of size torch.Size([]) have no axis along which two directions could be joined")


def join(fw: Structure, bw: Structure, axis: int) -> Structure:
    """The outputs of both directions side by side, leaf by leaf."""
    check_same_structure(fw, bw, name="the output of cell_bw", like="that of cell_fw")

    def joined(forward: Any, backward: Any) -> Any:
        if forward is None and backward is None:
            return None
        if forward is None or backward is None or min(forward.dim(), backward.dim()) <= axis:
            raise ValueError("the outputs of the two directions have no axis along which they could be joined")
        return torch.cat([forward, backward], axis)

    return map_structure(joined, fw, bw)


def bidirectional_layers(
    cells_fw: Any, cells_bw: Any, initial_states_fw: Any, initial_states_bw: Any
) -> Iterator[tuple[Any, Any, Structure, Structure]]:
    """For each layer its two cells and their initial states; everything is checked before the first."""
    cells_fw, cells_bw = (list(each) if isinstance(each, nn.ModuleList) else each for each in (cells_fw, cells_bw))
    for name, cells in [("cells_fw", cells_fw), ("cells_bw", cells_bw)]:
        if not isinstance(cells, list):
            raise ValueError(f"{name} must be a list of cells, one per layer, but is {describe(cells)}")
        if not cells:
            raise ValueError(f"{name} is empty: there must be at least one layer")
    if len(cells_fw) != len(cells_bw):
        raise ValueError(f"cells_fw has {len(cells_fw)} layers, but cells_bw has {len(cells_bw)}")
    for name, states in [("initial_states_fw", initial_states_fw), ("initial_states_bw", initial_states_bw)]:
        if states is None:
            continue
        if not isinstance(states, list) or len(states) != len(cells_fw):  # pyright: ignore[reportUnknownArgumentType]
            raise ValueError(f"{name} must be a list of {len(cells_fw)} states, one per layer, but is {states!r}")
    fw, bw = initial_states_fw is None, initial_states_bw is None
    cells_fw = [as_cell(f"cells_fw[{k}]", cell, starts=fw) for k, cell in enumerate(cells_fw)]
    cells_bw = [as_cell(f"cells_bw[{k}]", cell, starts=bw) for k, cell in enumerate(cells_bw)]
    for cell_fw, cell_bw in zip(cells_fw, cells_bw, strict=True):
        check_can_be_joined(cell_fw, cell_bw)
    none = [None] * len(cells_fw)
    return zip(cells_fw, cells_bw, initial_states_fw or none, initial_states_bw or none, strict=True)
