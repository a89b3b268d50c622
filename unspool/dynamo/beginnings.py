"""What cells do before the first step of a loop, where it is no more than what every cell does."""

from __future__ import annotations

from typing import Any

from torch import nn

from unspool.cells.adapter import StepCell
from unspool.cells.cell import RNNCell
from unspool.cells.stack import MultiRNNCell
from unspool.cells.wrappers.wrapper import RNNCellWrapper

_KINDS: tuple[Any, ...] = (RNNCell, RNNCellWrapper, MultiRNNCell, StepCell)
_PLAIN = {
    name: {getattr(kind, name) for kind in _KINDS} for name in ("start_sequence", "zero_state", "get_initial_state")
}
"""Methods that do nothing, or make zeros, or have the cells inside do so."""


def does_nothing(cell: Any) -> bool:
    """Whether nothing happens when a sequence begins."""
    return _is_plain(cell, "start_sequence") and not any(
        isinstance(module, StepCell) and module.starts for module in _modules(cell)
    )


def is_zero(cell: Any) -> bool:
    """Whether the initial state is nothing but zeros.

    >>> from unspool import GRUCell
    >>> is_zero(GRUCell(4)), does_nothing(GRUCell(4))
    (True, True)
    """
    return isinstance(cell, RNNCell) and _is_plain(cell, "zero_state") and _is_plain(cell, "get_initial_state")


def _is_plain(cell: Any, name: str) -> bool:
    for module in _modules(cell):
        kind: Any = module.__class__
        method = getattr(kind, name, None)
        if method is not None and method not in _PLAIN[name]:
            return False
        inner = [module.cell] if isinstance(module, RNNCellWrapper) else getattr(module, "cells", ())
        if not all(isinstance(each, nn.Module) for each in inner):  # which the walk does not find
            return False
    return True


def _modules(cell: Any) -> list[Any]:
    return list(cell.modules()) if isinstance(cell, nn.Module) else [cell]
