"""Call cache: calls that look like an earlier one are neither checked nor prepared again, if its guard holds.

Whoever calls the engine says what its calls look like: two that look alike, of one cell in which nothing has changed,
differ in the values of tensors alone. This module is imported before the engine is.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

from torch import Tensor

from unspool.identity_map import IdentityMap
from unspool.structure import Structure

MOST = 64
"""How many calls of a cell are known; those that were found out first make room."""


class KnownCall(Protocol):
    """What a call has found out that others like it would find again."""

    def __call__(
        self, cell: Any, inputs: Tensor, lengths: Tensor | None, state: Structure, *, time_major: bool
    ) -> tuple[Structure, Structure] | None:
        """Outputs, time-major, and the final state of a call that looks like it; None if it has to be made anew."""
        ...


_known: IdentityMap[dict[Hashable, KnownCall]] = IdentityMap(dict)


def find(cell: Any, look: Hashable) -> KnownCall | None:
    """What is known of calls that look so, if something is."""
    calls = _known.find(cell)
    return None if calls is None else calls.get(look)


def remember(cell: Any, look: Hashable, known: KnownCall) -> None:
    """Keeps it for other calls."""
    calls = _known.of(cell)
    calls.pop(look, None)
    calls[look] = known
    for old in list(calls)[:-MOST]:
        calls.pop(old, None)
