"""The containers of inputs, outputs and states, by name, so that a spec in JSON can ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Pair(NamedTuple):
    """A container of two."""

    first: Any
    second: Any


class Triple(NamedTuple):
    """A container of three."""

    first: Any
    second: Any
    third: Any


CONTAINERS = ("tuple", "list", "dict", "namedtuple", "tree")


def pack(container: str, leaves: Sequence[Any]) -> Any:
    """Two or three `leaves` in a container, which flattens to them in order; "leaf" for a single one.

    >>> pack("dict", [1, 2]), pack("tree", [1, 2, 3])
    ({'second': 2, 'first': 1}, (1, {'rest': [2, 3]}))
    """
    if container == "leaf":
        (leaf,) = leaves
        return leaf
    if container == "tuple":
        return tuple(leaves)
    if container == "list":
        return list(leaves)
    named = (Pair if len(leaves) == 2 else Triple)(*leaves)
    if container == "namedtuple":
        return named
    if container == "dict":
        # The wrong way round on purpose: dicts are flattened by sorted key, not by insertion.
        return dict(reversed(list(named._asdict().items())))
    if container == "tree":
        return (leaves[0], {"rest": list(leaves[1:])})
    raise ValueError(f"unknown container {container!r}")


def outline(structure: Any) -> str:
    """A structure of tensors in a line, each leaf a star: two structures have one outline if all containers agree.

    >>> outline([(1.0, {"b": 2.0, "a": Pair(3.0, 4.0)})])
    '[(*, {a: Pair(first=*, second=*), b: *})]'
    """
    if isinstance(structure, Mapping):
        return "{" + ", ".join(f"{key}: {outline(structure[key])}" for key in sorted(structure)) + "}"
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        fields = zip(structure._fields, structure, strict=True)
        return f"{type(structure).__name__}({', '.join(f'{name}={outline(value)}' for name, value in fields)})"
    if isinstance(structure, list):
        return f"[{', '.join(map(outline, structure))}]"
    if isinstance(structure, tuple):
        return f"({', '.join(map(outline, structure))})"
    return "*"
