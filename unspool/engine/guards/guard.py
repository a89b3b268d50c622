"""A guard: whether everything that a step reads is as it was, told in a few microseconds.

Each object that the step reaches has a probe, which lists what its slots hold and compares identities. If every probe
finds what it found before, nothing has changed: an object that was replaced is missed by the probe of the one that
held it. Objects are referred to weakly, or through the one that holds them, so that a guard keeps no cell alive;
what cannot be referred to either way is compared by value.
"""

from __future__ import annotations

import abc
import operator
import types
import weakref
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from torch import Tensor

from unspool.engine.guards.fingerprint import Fingerprint
from unspool.engine.guards.libraries import is_fixed_class
from unspool.engine.guards.names import is_fixed_module
from unspool.engine.guards.nodes import Reached
from unspool.engine.guards.slots import Absent, Reader, atom, globals_of

Place = tuple[int, int]
"""The number of a probe, and a place among what it lists."""


@dataclass(frozen=True)
class Probe:
    """What the slots of one object held.

    Args:
        target: the object; None if it is found at `parent`.
        parent: where it is among what an earlier probe lists.
        kind: its class.
        read: lists the values of its slots.
        keys: the names of its attributes, if it has a `__dict__`.
        expected: their identities, or the values themselves, if they are `by_content`.
        atoms: those of the values that never change, for values that are equal without being the same.
    """

    target: weakref.ref[Any] | None
    parent: Place
    kind: type
    read: Reader
    keys: tuple[str, ...] | None
    expected: list[Any]
    atoms: list[Any]
    by_content: bool


class Guard:
    """Tells whether a cell, or one made like it, is as it was.

    >>> from torch import nn
    >>> linear = nn.Linear(2, 3)
    >>> guard = Guard(Fingerprint(linear))
    >>> guard.check(linear) is None
    False
    >>> _ = linear.eval()
    >>> guard.check(linear) is None
    True

    Args:
        fingerprint: what the step reaches.
        passing: tensors whose place matters, not their identity.
    """

    def __init__(self, fingerprint: Fingerprint, passing: Collection[Tensor] = ()) -> None:
        self._probes: list[Probe] = []
        self._numbers: dict[int, int] = {}
        """The number of the probe of each node."""
        self.places: dict[int, Place] = {}
        """Where each tensor is listed, by its identity."""
        ignored = {id(each) for each in passing}
        self._any: dict[int, list[int]] = {}
        self._loose: set[int] = set()
        """Places of containers in the cell: it may be made for the occasion, with other ones of the same contents."""
        self._classes: list[tuple[type, type, tuple[type, ...], Mapping[str, Any]]] = []
        """Classes of libraries, which may be kept alive, with what they had: quicker to compare than by a probe."""
        found_through = {node.parent[0] for node in fingerprint.nodes if _weak(node.value) is None}
        for number, node in enumerate(fingerprint.nodes):
            if number not in found_through and _is_plain_library_class(node.value):
                self._classes.append((node.value, node.value.__class__, node.value.__mro__, dict(node.value.__dict__)))
                continue
            read = _reader(node, fingerprint.read.get(number, ()))
            if read is not None:
                self._add(number, node, read, ignored)
        self._tensors = [weakref.ref(each) for each in fingerprint.tensors if id(each) not in ignored]
        self._checks = [
            (probe, probe.target, probe.read, probe.keys, probe.expected, probe.by_content) for probe in self._probes
        ]

    def _add(self, number: int, node: Reached, read: Reader, ignored: Collection[int]) -> None:
        values = read(node.value)
        probe = self._numbers[number] = len(self._probes)
        for place, value in enumerate(values):
            if isinstance(value, Tensor):
                self.places.setdefault(id(value), (probe, place))
                if id(value) in ignored:
                    self._any.setdefault(probe, []).append(place)
        above, place = node.parent
        # Comparing lists is quicker than comparing identities, where values may be kept alive: those of a library are.
        by_content = node.by_content or is_fixed(node.value)
        expected = values if by_content else self._identities(probe, values)
        atoms = [] if by_content else [value if atom(value) is not None else Absent for value in values]
        target = None if number == 0 else _weak(node.value)
        parent = (self._numbers.get(above, -1), place)
        if target is None and number and parent[0] == 0:
            self._loose.add(place)
        keys = (
            tuple(node.value.__dict__) if node.names[:1] == ["__class__"] and hasattr(node.value, "__dict__") else None
        )
        self._probes.append(Probe(target, parent, node.value.__class__, read, keys, expected, atoms, by_content))

    def _identities(self, probe: int, values: list[Any]) -> list[int]:
        found = list(map(id, values))
        for place in self._any.get(probe, ()):
            found[place] = 0
        return found

    def check(self, cell: Any) -> list[list[Any]] | None:
        """What each probe lists, if everything is as it was; else None."""
        found: list[list[Any]] = []
        for tensor in self._tensors:
            if tensor() is None:  # and something else has its identity now
                return None
        for kind, meta, mro, own in self._classes:
            if kind.__dict__ != own or kind.__mro__ is not mro or kind.__class__ is not meta:
                return None
        for number, (probe, target, read, keys, expected, by_content) in enumerate(self._checks):
            if target is not None:
                value = target()
                if value is None:
                    return None
            elif number == 0:
                value = cell
            else:
                above, place = probe.parent
                value = found[above][place]
                if value.__class__ is not probe.kind:
                    return None
            try:
                values = read(value)
            except (AttributeError, KeyError, TypeError, ValueError, RuntimeError):  # it is something else now
                return None
            if keys is not None and tuple(value.__dict__) != keys:
                return None
            if by_content:
                if values != expected:
                    return None
            else:
                now = list(map(id, values))
                for place in self._any.get(number, ()):
                    now[place] = 0
                if now != expected and not _equal(values, now, probe, self._loose if number == 0 else ()):
                    return None
            found.append(values)
        return found


def _equal(values: list[Any], now: list[int], probe: Probe, loose: Collection[int]) -> bool:
    """Whether what is not the same is at least equal to the bit, and of a kind that never changes.

    Containers are told apart by their own probes; here, two must not have become one, nor one two.
    """
    if len(now) != len(probe.expected):
        return False
    pairs = {(now[place], probe.expected[place]) for place in loose}
    if len(pairs) != len({one for one, _ in pairs}) or len(pairs) != len({other for _, other in pairs}):
        return False
    for place, (value, one, other, old) in enumerate(zip(values, now, probe.expected, probe.atoms, strict=True)):
        if one != other and place not in loose and (old is Absent or atom(value) != atom(old)):
            return False
    return True


def _is_plain_library_class(value: Any) -> bool:
    """Whether a value is a class of a library that no `register` changes, and that holds no tensor or array."""
    if not isinstance(value, type) or isinstance(value, abc.ABCMeta) or not is_fixed_class(value):
        return False
    return not any(isinstance(each, Tensor | np.ndarray) for each in value.__dict__.values())


def is_fixed(value: Any) -> bool:
    """Whether a class or module is a library's, so that what it holds may be kept alive."""
    if isinstance(value, types.ModuleType):
        return is_fixed_module(value)
    return isinstance(value, type) and is_fixed_class(value)


def _reader(node: Reached, names: tuple[str, ...]) -> Reader | None:
    if isinstance(node.value, types.FunctionType):
        read = node.read
        return read if read is None or not names else lambda function: [*read(function), *globals_of(function, names)]
    if isinstance(node.value, types.ModuleType):
        if not names:
            return None
        get = cast(Any, operator.itemgetter)(*names, *names[:1])  # of one name it would return no tuple
        return lambda module: list(get(module.__dict__))
    return node.read


def _weak(value: Any) -> weakref.ref[Any] | None:
    try:
        return weakref.ref(value)
    except TypeError:
        return None
