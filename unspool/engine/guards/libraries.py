"""Classes of Python and of installed packages: compared as a whole, since they hardly ever change."""

from __future__ import annotations

import sys
from typing import Any

from unspool.engine.guards.names import is_fixed_module


class Same:
    """An object as a part of a key, compared by identity and kept alive."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value


def is_fixed_class(kind: type) -> bool:
    """Whether a class is part of Python or of an installed package."""
    found: Any = sys.modules.get(kind.__module__)
    if found is None or not is_fixed_module(found):
        return False
    for name in kind.__qualname__.split("."):  # a class may say that it is from anywhere
        found = found.__dict__.get(name)
        if not isinstance(found, type):
            return False
    return found is kind


Others = list[tuple[int, str, Any]]
_known: dict[type, tuple[list[Any], tuple[Same, ...], Others]] = {}
"""What the classes of libraries have, which hardly ever changes."""


def methods_of(kind: type) -> tuple[tuple[Same, ...], Others]:
    """The special methods of a library's class as a mark, and its other attributes, with their places."""
    values = list(kind.__dict__.values())
    known = _known.get(kind)
    if known is None or known[0] != values:
        items = list(enumerate(kind.__dict__.items()))
        special = [value for _, (name, value) in items if name.startswith("__") and callable(value)]
        others = [(place, name, value) for place, (name, value) in items if not name.startswith("__")]
        known = _known[kind] = (values, tuple(map(Same, special)), others)
    return known[1], known[2]
