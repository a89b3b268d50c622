"""Nested structures: the tuples, lists, dicts and namedtuples that inputs, states and outputs are made of.

A leaf is whatever is not one of those containers: a tensor, a size, a `TensorArray`, None. A `torch.Size` is a leaf,
although it is a tuple: it is one shape, not several sizes. Dicts are walked in the order of their sorted keys.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast, overload

import optree
from torch import Tensor

Structure: TypeAlias = Any
"""A leaf or a nested tuple, list, dict or namedtuple of leaves."""

_SIMPLE = (Tensor, int)
"""The leaves of most structures, which are quicker to see than to ask optree about."""


def flatten(structure: Structure) -> list[Any]:
    """The leaves of `structure`, in order."""
    if isinstance(structure, _SIMPLE):
        return [structure]
    if is_flat(structure):
        return list(structure)
    parts = optree.tree_leaves(structure, _is_ordered, none_is_leaf=True)
    return [leaf for part in parts for leaf in (flatten(dict(part)) if _is_ordered(part) else [part])]


def unflatten_as(structure: Structure, leaves: Iterable[Any]) -> Structure:
    """Puts `leaves` into the containers of `structure`."""
    if isinstance(structure, _SIMPLE):
        (leaf,) = leaves
        return leaf
    if is_flat(structure):
        made = tuple(leaves)
        if len(made) == len(structure):
            kind: Any = structure.__class__
            return made if kind is tuple else kind._make(made)
        leaves = made
    remaining = iter(leaves)
    parts, containers = optree.tree_flatten(structure, _is_ordered, none_is_leaf=True)
    return optree.tree_unflatten(containers, [_fill(part, remaining) for part in parts])


class Containers:
    """The containers of a structure, looked at once, for whoever puts many leaves into them and takes them out.

    >>> pair = Containers((1, {"a": 2}))
    >>> pair.fill([3, 4]), pair.leaves((5, {"a": 6}))
    ((3, {'a': 4}), [5, 6])
    """

    def __init__(self, structure: Structure) -> None:
        self._like = structure
        parts, spec = optree.tree_flatten(structure, _is_ordered, none_is_leaf=True)
        self._spec = None if any(map(_is_ordered, parts)) else spec

    def fill(self, leaves: Iterable[Any]) -> Structure:
        """`unflatten_as` the structure."""
        return unflatten_as(self._like, leaves) if self._spec is None else optree.tree_unflatten(self._spec, leaves)

    def leaves(self, structure: Structure) -> list[Any]:
        """`flatten` of a structure that has these containers, or others."""
        try:
            found: list[Any] = [] if self._spec is None else self._spec.flatten_up_to(structure)
        except (ValueError, TypeError):
            found = []
        others = not found or any(isinstance(leaf, tuple | list | dict) for leaf in found)
        return flatten(structure) if others else found


def is_flat(structure: Structure) -> bool:
    """Whether it is a tuple or namedtuple of tensors, or of sizes: what most states are, and quicker to see here."""
    if not _is_plain(structure.__class__):
        return False
    leaves: Iterable[Any] = structure
    for each in leaves:  # noqa: SIM110 (all() is slower)
        if not isinstance(each, _SIMPLE):
            return False
    return True


def _is_plain(kind: type[Any]) -> bool:
    """Whether it is tuple or the type of a namedtuple."""
    # Not cached: Dynamo, which cells may be compiled by, warns of caches.
    return kind is tuple or (issubclass(kind, tuple) and hasattr(cast(Any, kind), "_make"))


def _is_ordered(part: Structure) -> bool:
    # optree walks an OrderedDict as it was written and a dict by its keys; a leaf must not depend on which it is in.
    return type(part) is OrderedDict


def _fill(part: Structure, remaining: Iterator[Any]) -> Structure:
    if not _is_ordered(part):
        return next(remaining)
    filled = unflatten_as(dict(part), remaining)
    return OrderedDict((key, filled[key]) for key in part)


@overload
def map_structure(function: Callable[[Any], Any], structure: Structure, /) -> Structure: ...
@overload
def map_structure(function: Callable[[Any, Any], Any], structure: Structure, other: Structure, /) -> Structure: ...
def map_structure(function: Callable[..., Any], structure: Structure, *others: Structure) -> Structure:
    """Applies `function` leaf by leaf, in the containers of `structure`."""
    if not others and isinstance(structure, _SIMPLE):
        return function(structure)
    leaves = [function(*each) for each in zip(flatten(structure), *map(flatten, others), strict=True)]
    return unflatten_as(structure, leaves)


def map_tensors(function: Callable[[Any], Any], structure: Structure) -> Structure:
    """`map_structure` of outputs, which may have None where there is nothing."""
    return map_structure(lambda leaf: None if leaf is None else function(leaf), structure)


def is_leaf(structure: Structure) -> bool:
    """Whether `structure` is a single leaf."""
    return optree.tree_is_leaf(structure, none_is_leaf=True)


def same_structure(expected: Structure, given: Structure) -> bool:
    """Whether both have the same containers around the same number of leaves; a fast yes or no."""
    simple = isinstance(expected, _SIMPLE), isinstance(given, _SIMPLE)
    if any(simple):
        return all(simple) or is_leaf(expected) == is_leaf(given)
    if expected.__class__ is given.__class__ and is_flat(expected) and is_flat(given):
        return len(expected) == len(given)
    spec = optree.tree_structure(expected, none_is_leaf=True)
    return spec == optree.tree_structure(given, none_is_leaf=True)


def check_same_structure(expected: Structure, given: Structure, *, name: str, like: str, opaque: bool = False) -> None:
    """Raises unless `given` (called `name`) has the containers of `expected` (called `like`).

    As in TensorFlow, a container of another type is a `TypeError`; a leaf where a container should be, or the
    reverse, or another number of elements is a `ValueError`. Any kind of dict will do for a dict. With `opaque`, an
    empty tuple in `expected` stands for anything: it is how a cell declares a part of its state that has no size, such
    as a `TensorArray`.

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
        raise TypeError(f"{name} is {with_article(type(given).__name__)}, but {like} is {describe(expected)}{hint}")
    want, have = children(expected), children(given)
    if want.keys() != have.keys():
        raise ValueError(f"{name} is {describe(given)}, but {like} is {describe(expected)}")
    for key, child in want.items():
        step = f".{key}" if _fields(expected) else f"[{key!r}]"
        check_same_structure(child, have[key], name=name + step, like=like + step, opaque=opaque)


def check_namedtuples(expected: Structure, given: Structure, *, name: str, like: str) -> None:
    """`check_same_structure`, but only of the namedtuples in `expected`: their fields have an order to be mistaken."""
    if is_flat(expected) and same_structure(expected, given):
        return
    if _fields(expected):
        check_same_structure(expected, given, name=name, like=like)
    elif not is_leaf(expected) and not is_leaf(given):
        have = children(given)
        for key, child in children(expected).items():
            if key in have:
                check_namedtuples(child, have[key], name=f"{name}[{key!r}]", like=f"{like}[{key!r}]")


def describe(structure: Structure) -> str:
    """A structure in a few words, for error messages.

    >>> describe({"a": 1, "b": 2})
    "a dict with keys 'a', 'b'"
    """
    kind = with_article(type(structure).__name__)
    if is_leaf(structure):
        return kind
    if issubclass(type(structure), Mapping):
        return f"{kind} with keys {', '.join(map(repr, structure))}"
    if fields := _fields(structure):
        return f"{kind}({', '.join(fields)})"
    return f"{kind} of {len(structure)}"


def shown(value: Any) -> str:
    """A value in error messages: what it prints as, but of arrays, however large, only the shape.

    >>> import torch
    >>> shown(torch.zeros(2, 3)), shown([torch.zeros(2), 4])
    ('a Tensor of shape [2, 3]', '[a Tensor of shape [2], 4]')
    """
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{with_article(type(value).__name__)} of shape {list(value.shape)}"
    if type(value) in (list, tuple):
        each = ", ".join(map(shown, value[:8])) + (", ..." if len(value) > 8 else "")
        return f"[{each}]" if type(value) is list else f"({each})"
    return repr(value)


def with_article(word: str) -> str:
    """`word` after "a" or "an".

    >>> with_article("tuple"), with_article("LSTMStateTuple"), with_article("int")
    ('a tuple', 'an LSTMStateTuple', 'an int')
    """
    return f"an {word}" if word[0] in "aeiouAEIO" or word.startswith("LSTM") else f"a {word}"


def children(container: Structure) -> dict[Any, Structure]:
    """The parts of a container, one level down, by key, field or index; dicts by sorted key."""
    if issubclass(type(container), Mapping):
        return {key: container[key] for key in sorted(container, key=lambda key: (type(key).__name__, key))}
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
