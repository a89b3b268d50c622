"""`tensorflow.python.util.nest`: nested structures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from unspool import structure as nested

__all__ = ["assert_same_structure", "flatten", "is_nested", "is_sequence", "map_structure", "pack_sequence_as"]

flatten = nested.flatten


def is_sequence(seq: Any) -> bool:
    """Whether it is a tuple, list, dict or namedtuple.

    >>> is_sequence((1, 2)), is_sequence("text")
    (True, False)
    """
    return not nested.is_leaf(seq)


is_nested = is_sequence


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any]) -> Any:
    """Puts the elements of a flat sequence into the containers of a structure; `ValueError` if it has more or fewer.

    >>> pack_sequence_as((1, [2]), ["a", "b"])
    ('a', ['b'])
    """
    if not is_sequence(flat_sequence):
        raise TypeError("flat_sequence must be a sequence")
    count = len(flatten(structure))
    if count != len(flat_sequence):
        raise ValueError(
            f"Structure had {count} elements, but flat_sequence had {len(flat_sequence)} elements. "
            f"Structure: {structure}, flat_sequence: {flat_sequence}."
        )
    return nested.unflatten_as(structure, flat_sequence)


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Raises unless both have the same containers: `ValueError` for other numbers of leaves, `TypeError` for types."""
    if check_types:
        nested.check_same_structure(nest1, nest2, name="nest2", like="nest1")
    elif len(flatten(nest1)) != len(flatten(nest2)):
        raise ValueError(f"nest1 has {len(flatten(nest1))} elements, but nest2 has {len(flatten(nest2))}")


def map_structure(func: Callable[..., Any], *structure: Any, check_types: bool = True) -> Any:
    """Applies a function leaf by leaf, in the containers of the first structure.

    >>> map_structure(lambda a, b: a + b, (1, 2), (10, 20))
    (11, 22)
    """
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}")
    if not structure:
        raise ValueError("Must provide at least one structure")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types)
    leaves: Iterable[Any] = [func(*each) for each in zip(*map(flatten, structure), strict=True)]
    return nested.unflatten_as(structure[0], leaves)
