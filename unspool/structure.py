"""Nested structures: the tuples, lists, dicts and namedtuples that inputs, states and outputs are made of.

A leaf is whatever is not one of those containers: a tensor, a size, a `TensorArray`, None. A `torch.Size` is a leaf,
although it is a tuple: it is one shape, not several sizes. Dicts are walked in the order of their sorted keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, overload

import optree

Structure: TypeAlias = Any
"""A leaf or a nested tuple, list, dict or namedtuple of leaves."""


def flatten(structure: Structure) -> list[Any]:
    """The leaves of `structure`, in order."""
    return optree.tree_leaves(structure, none_is_leaf=True)


def unflatten_as(structure: Structure, leaves: list[Any]) -> Structure:
    """Puts `leaves` into the containers of `structure`."""
    return optree.tree_unflatten(optree.tree_structure(structure, none_is_leaf=True), leaves)


@overload
def map_structure(function: Callable[[Any], Any], structure: Structure, /) -> Structure: ...
@overload
def map_structure(function: Callable[[Any, Any], Any], structure: Structure, other: Structure, /) -> Structure: ...
def map_structure(function: Callable[..., Any], structure: Structure, *others: Structure) -> Structure:
    """Applies `function` leaf by leaf, in the containers of `structure`."""
    leaves = [function(*each) for each in zip(flatten(structure), *map(flatten, others), strict=True)]
    return unflatten_as(structure, leaves)


def is_leaf(structure: Structure) -> bool:
    """Whether `structure` is a single leaf."""
    return optree.tree_is_leaf(structure, none_is_leaf=True)


def same_structure(expected: Structure, given: Structure) -> bool:
    """Whether both have the same containers around the same number of leaves; a fast yes or no."""
    spec = optree.tree_structure(expected, none_is_leaf=True)
    return spec == optree.tree_structure(given, none_is_leaf=True)


def check_same_structure(expected: Structure, given: Structure, *, name: str, like: str, opaque: bool = False) -> None:
    """Raises unless `given` (called `name`) has the containers of `expected` (called `like`).

    As in TensorFlow, a container of another type is a `TypeError`; a leaf where a container should be, or the
    reverse, or another number of elements is a `ValueError`. With `opaque`, an empty tuple in `expected` stands for
    anything: it is how a cell declares a part of its state that has no size, such as a `TensorArray`.

    >>> check_same_structure((1, 2), [1, 2], name="initial_state", like="cell.state_size")
    Traceback (most recent call last):
    TypeError: initial_state is a list, but cell.state_size is a tuple of 2
    """
    if (opaque and expected == () and type(expected) is tuple) or same_structure(expected, given):
        return
    if is_leaf(expected) != is_leaf(given):
        raise ValueError(f"{name} is {describe(given)}, but {like} is {describe(expected)}")
    if is_leaf(expected):
        return
    if not _same_container(expected, given):
        hint = ""
        if fields := _fields(expected):
            hint = f"; write {type(expected).__name__}({', '.join(f'{field}=...' for field in fields)})"
        raise TypeError(f"{name} is a {type(given).__name__}, but {like} is {describe(expected)}{hint}")
    want, have = children(expected), children(given)
    if want.keys() != have.keys():
        raise ValueError(f"{name} is {describe(given)}, but {like} is {describe(expected)}")
    for key, child in want.items():
        step = f".{key}" if _fields(expected) else f"[{key!r}]"
        check_same_structure(child, have[key], name=name + step, like=like + step, opaque=opaque)


def describe(structure: Structure) -> str:
    """A structure in a few words, for error messages.

    >>> describe({"a": 1, "b": 2})
    "a dict with keys 'a', 'b'"
    """
    if is_leaf(structure):
        return f"a leaf ({type(structure).__name__})"
    kind = type(structure).__name__
    if issubclass(type(structure), Mapping):
        return f"a {kind} with keys {', '.join(map(repr, structure))}"
    if fields := _fields(structure):
        return f"a {kind}({', '.join(fields)})"
    return f"a {kind} of {len(structure)}"


def children(container: Structure) -> dict[Any, Structure]:
    """The parts of a container, one level down, by key, field or index; dicts by sorted key."""
    if issubclass(type(container), Mapping):
        return {key: container[key] for key in sorted(container)}
    return dict(zip(_fields(container) or range(len(container)), container, strict=True))


def _same_container(one: Structure, other: Structure) -> bool:
    if issubclass(type(one), Mapping) and issubclass(type(other), Mapping):
        return True
    if _fields(one) and _fields(other):
        return type(one).__name__ == type(other).__name__ and _fields(one) == _fields(other)
    return type(one) is type(other)


def _fields(container: Structure) -> tuple[str, ...]:
    """The fields of a namedtuple; none for other containers."""
    return optree.namedtuple_fields(container) if optree.is_namedtuple(container) else ()
