"""What the two stacked bidirectional loops share: cells and initial states layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unspool.cells.like import assert_like_rnncell
from unspool.structure import Structure


def bidirectional_layers(
    cells_fw: Any, cells_bw: Any, initial_states_fw: Any, initial_states_bw: Any
) -> Iterator[tuple[Any, Any, Structure, Structure]]:
    """For each layer its two cells and their initial states; everything is checked before the first."""
    for name, cells in [("cells_fw", cells_fw), ("cells_bw", cells_bw)]:
        if not isinstance(cells, list):
            raise ValueError(f"{name} must be a list of cells, one a layer, but is a {type(cells).__name__}")
        if not cells:
            raise ValueError(f"{name} is empty: there must be at least one layer")
    if len(cells_fw) != len(cells_bw):
        raise ValueError(f"cells_fw has {len(cells_fw)} layers, but cells_bw has {len(cells_bw)}")
    for name, states in [("initial_states_fw", initial_states_fw), ("initial_states_bw", initial_states_bw)]:
        if states is None:
            continue
        if not isinstance(states, list) or len(states) != len(cells_fw):  # pyright: ignore[reportUnknownArgumentType]
            raise ValueError(f"{name} must be a list of {len(cells_fw)} states, one a layer, but is {states!r}")
    for name, cells in [("cells_fw", cells_fw), ("cells_bw", cells_bw)]:
        for k, cell in enumerate(cells):
            assert_like_rnncell(f"{name}[{k}]", cell)
    none = [None] * len(cells_fw)
    return zip(cells_fw, cells_bw, initial_states_fw or none, initial_states_bw or none, strict=True)
