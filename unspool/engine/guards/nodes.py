"""Nodes of the walk, objects that a step reaches, those that cannot be guarded, and the key that tells them all."""

from __future__ import annotations

import contextvars
import random
import threading
import warnings
import weakref
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unspool.engine.guards.libraries import Same
from unspool.engine.guards.scripted import obstacle
from unspool.engine.guards.slots import BYTES, Reader
from unspool.once import repeats_warnings

MOST_BYTES = 1 << 16
"""Bytes of an array that is compared by content at every call."""
UNSEEN: tuple[type, ...] = (
    *(random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator, torch.Generator),
    *(type(lru_cache(len)), contextvars.ContextVar, threading.local),
)
"""Objects with something inside that no slot shows: the state of a generator, a cache."""


Key = tuple[tuple[int, str, Hashable], ...]
"""For each slot of each object, by the number of the object: what tells its value from others."""


class CannotGuardError(Exception):
    """The step reads something of which it cannot be told whether it has changed. The text names it."""


@dataclass(frozen=True)
class Reached:
    """An object that the step reaches.

    Args:
        value: the object.
        path: how people refer to it.
        read: lists the values of its slots; None if it has none to be compared.
        names: the names of the slots.
        parent: the number of the node through which it was reached, and its place among that one's slots.
        by_content: whether what `read` returns is compared by value, not by identity.
    """

    value: Any
    path: str
    read: Reader | None
    names: list[str]
    parent: tuple[int, int]
    by_content: bool = False

    def slots(self) -> list[Any]:
        """What it holds now."""
        return [] if self.read is None else self.read(self.value)


def differing(before: Key, now: Key) -> list[tuple[int, str]]:
    """What two keys of one walk do not agree on: objects, by number, and slots of theirs."""
    old = {(number, slot): mark for number, slot, mark in before}
    new = {(number, slot): mark for number, slot, mark in now}
    known = 1 + max(number for number, _, _ in before)
    # Numbers follow the order of discovery: what is new has a number that nothing had, or that of something else.
    return [place for place in {**old, **new} if place[0] < known and old.get(place) != new.get(place)]


def check_keys(node: Reached, cell: Any) -> None:
    """Refuses a container with a module, or the cell itself, for a key: a step is traced on a copy, not found there.

    Raises:
        CannotGuardError: if it has one.
    """
    keys: list[Any] = list(node.value)
    for each in keys:
        key: Any = each() if isinstance(each, weakref.ref) else each  # pyright: ignore[reportUnknownVariableType]  # of what
        if isinstance(key, nn.Module) or key is cell:
            raise CannotGuardError(f"{node.path}, which has a {kind_name(key)} for a key, found by its identity")


def read_attributes(value: Any) -> list[Any]:
    """Those of a tensor."""
    return list(value.__dict__.values())


def content_of(value: Any, path: str) -> Reader | None:
    """How to read a value that is compared by its bytes; None if it is not.

    Raises:
        CannotGuardError: if there are too many, or if it is code that cannot be seen.
    """
    if isinstance(value, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        if (what := obstacle(value)) is not None:
            raise CannotGuardError(f"{path}, a {kind_name(value)}, {what}")
        return None if isinstance(value, torch.jit.ScriptModule) else lambda each: [Same(each), repeats_warnings()]
    if value is warnings.warn:
        return lambda _: [repeats_warnings()]
    kind = next((each for each in BYTES if isinstance(value, each)), None)
    if kind is None or (kind is np.ndarray and value.dtype == object):
        return None
    size: int = value.nbytes if hasattr(value, "nbytes") else memoryview(value).nbytes
    if size > MOST_BYTES:
        raise CannotGuardError(f"{path}, an array of {size} bytes, too many to be compared at every call")
    read = BYTES[kind]
    return lambda each: [read(each)]


def bytes_of(tensor: Tensor) -> bytes:
    """The values of a tensor, to the bit."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def joined(path: str, slot: str) -> str:
    """How people refer to a slot of what they refer to by a path."""
    if not slot or slot.startswith(("[", ".", "(", " ")):
        return f"{path}{slot}"
    return f"{path}.{slot}" if path else slot


def kind_name(value: Any) -> str:
    """The class of a value, as people write it."""
    return f"{value.__class__.__module__}.{value.__class__.__qualname__}".removeprefix("builtins.")
