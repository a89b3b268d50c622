"""Objects of C, which show little or nothing of what is in them, and objects that move when they are read."""

from __future__ import annotations

import ctypes
import datetime
import decimal
import fractions
import io
import itertools
import pathlib
import random
import re
import threading
import uuid
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.cell_changes.table import Stage, Stages, change, made, unseen

SWAPPED: dict[str, tuple[Any, Any, Any]] = {
    "pattern": (lambda p: 0.5 if p.match("a") else 0.7, re.compile("a"), re.compile("b")),
    "decimal": (float, decimal.Decimal("0.5"), decimal.Decimal("0.7")),
    "negative zero decimal": (lambda d: 0.5 if d.is_signed() else 0.7, decimal.Decimal("0"), decimal.Decimal("-0")),
    "fraction": (float, fractions.Fraction(1, 2), fractions.Fraction(1, 3)),
    "date": (lambda d: d.year / 2000, datetime.date(2020, 1, 1), datetime.date(2030, 1, 1)),
    "time": (lambda d: 1 + d.hour, datetime.datetime(2020, 1, 1, 1), datetime.datetime(2020, 1, 1, 2)),
    "duration": (lambda d: d.total_seconds(), datetime.timedelta(seconds=1), datetime.timedelta(seconds=2)),
    "range": (sum, range(3), range(4)),
    "slice": (lambda s: sum((0.1, 0.2, 0.3)[s]), slice(1), slice(2)),
    "path": (lambda p: len(p.name), pathlib.Path("a/b"), pathlib.Path("a/bcd")),
    "uuid": (lambda u: 1 + u.int % 7, uuid.UUID(int=1), uuid.UUID(int=2)),
    "numpy dtype": (lambda d: d.itemsize, np.dtype("f4"), np.dtype("f8")),
    "ellipsis and not implemented": (lambda e: 0.5 if e is ... else 0.7, ..., NotImplemented),
    "numpy ufunc": (lambda f: float(f(2.0)), np.sqrt, np.square),
    "torch operator": (lambda f: float(f(torch.tensor(2.0))), torch.ops.aten.sqrt, torch.ops.aten.square),
    "finfo": (lambda f: f.bits, torch.finfo(torch.float32), torch.finfo(torch.float64)),
}
"""How a step reads a number from it, an object, and another."""


def _swapped(kind: str) -> Any:
    def story(patch: pytest.MonkeyPatch) -> Stages:
        """A C object may be one that is not known to stay what it is."""
        read, one, other = SWAPPED[kind]
        yield (cell := made(lambda self, t: t * read(self.held), held=one))
        cell.held = other
        yield cell
        cell.held = one
        yield cell

    story.__name__ = f"{kind.replace(' ', '_')}_is_swapped"
    return (unseen if kind in ("torch operator", "finfo") else change)(story)


for _kind in SWAPPED:
    _swapped(_kind)


class Gain:
    gain = 0.5


@change
def weak_reference(patch: pytest.MonkeyPatch) -> Stages:
    options = Gain()
    yield (cell := made(lambda self, t: t * self.options().gain, options=weakref.ref(options)))
    options.gain = 0.7
    yield cell


@unseen
def weak_reference_dies(patch: pytest.MonkeyPatch) -> Stages:
    """Nothing on the cell changes when it does."""
    held = [Gain()]
    yield (cell := made(lambda self, t: t * (0.5 if self.options() is None else 0.7), options=weakref.ref(held[0])))
    held.clear()
    yield cell


@unseen
def weak_proxy(patch: pytest.MonkeyPatch) -> Stages:
    """It pretends to be the object, and shows its attributes as its own."""
    options = Gain()
    yield (cell := made(lambda self, t: t * self.options.gain, options=weakref.proxy(options)))
    options.gain = 0.7
    yield cell


@unseen
def weak_dictionary(patch: pytest.MonkeyPatch) -> Stages:
    """Its entries go when their keys do."""
    key = Gain()
    levels: Any = weakref.WeakKeyDictionary({key: 0.5})
    yield (cell := made(lambda self, t: t * (1 + sum(self.levels.values())), levels=levels))
    levels[key] = 0.7
    yield cell
    del key
    yield cell


@unseen
def ctypes_number(patch: pytest.MonkeyPatch) -> Stages:
    """Memory outside of Python."""
    yield (cell := made(lambda self, t: t * self.level.value, level=ctypes.c_double(0.5)))
    cell.level.value = 0.7
    yield cell


@unseen
def ctypes_structure(patch: pytest.MonkeyPatch) -> Stages:
    """Memory outside of Python."""
    kind: Any = type("Options", (ctypes.Structure,), {"_fields_": [("gain", ctypes.c_double)]})
    yield (cell := made(lambda self, t: t * self.options.gain, options=kind(0.5)))
    cell.options.gain = 0.7
    yield cell


@unseen
def text_in_memory(patch: pytest.MonkeyPatch) -> Stages:
    """A C object whose contents are read by a method."""
    yield (cell := made(lambda self, t: t * len(self.text.getvalue()), text=io.StringIO("a")))
    cell.text.write("abc")
    yield cell


@unseen
def lock(patch: pytest.MonkeyPatch) -> Stages:
    """A C object with nothing but a method to ask; it cannot be copied either."""
    yield (cell := made(lambda self, t: t * (0.5 if self.lock.locked() else 0.7), lock=threading.Lock()))
    with cell.lock:
        yield cell


@unseen
def generator_object(patch: pytest.MonkeyPatch) -> Stages:
    """It moves when it is read, and cannot be copied."""
    cell = made(lambda self, t: t * next(self.levels))

    def levels(start: float) -> Iterator[float]:
        while True:
            yield start
            start += 1

    yield Stage(cell, reset=lambda: setattr(cell, "levels", levels(1)))
    yield Stage(cell, reset=lambda: setattr(cell, "levels", levels(2)))


@unseen
def count(patch: pytest.MonkeyPatch) -> Stages:
    """It moves when it is read."""
    cell = made(lambda self, t: t * next(self.levels))
    yield Stage(cell, reset=lambda: setattr(cell, "levels", itertools.count(1)))
    yield Stage(cell, reset=lambda: setattr(cell, "levels", itertools.count(2)))


@unseen
def cycle(patch: pytest.MonkeyPatch) -> Stages:
    """It moves when it is read."""
    cell = made(lambda self, t: t * next(self.levels))
    yield Stage(cell, reset=lambda: setattr(cell, "levels", itertools.cycle([0.5, 0.7])))
    yield Stage(cell, reset=lambda: setattr(cell, "levels", itertools.cycle([0.7, 0.5])))


@unseen
def iterator_of_a_list(patch: pytest.MonkeyPatch) -> Stages:
    """It moves when it is read."""
    cell = made(lambda self, t: t * next(self.levels, 1.0))
    yield Stage(cell, reset=lambda: setattr(cell, "levels", iter([0.5, 0.7])))
    yield Stage(cell, reset=lambda: setattr(cell, "levels", iter([0.7, 0.5])))


@unseen
def generator_of_torch(patch: pytest.MonkeyPatch) -> Stages:
    """It moves when it is drawn from; a draw ahead of the loop has to move it as the loop would."""
    generator = torch.Generator()
    cell = made(lambda self, t: t * torch.rand(3, dtype=t.dtype, generator=self.generator), generator=generator)
    yield Stage(cell, reset=lambda: generator.manual_seed(3))
    yield Stage(cell, reset=lambda: generator.manual_seed(4))


@unseen
def generator_of_numpy(patch: pytest.MonkeyPatch) -> Stages:
    """It moves when it is drawn from."""
    cell = made(lambda self, t: t * self.generator.random())
    yield Stage(cell, reset=lambda: setattr(cell, "generator", np.random.default_rng(3)))
    yield Stage(cell, reset=lambda: setattr(cell, "generator", np.random.default_rng(4)))


@unseen
def generator_of_python(patch: pytest.MonkeyPatch) -> Stages:
    """It moves when it is drawn from."""
    generator = random.Random()
    cell = made(lambda self, t: t * self.generator.random(), generator=generator)
    yield Stage(cell, reset=lambda: generator.seed(3))
    yield Stage(cell, reset=lambda: generator.seed(4))


@unseen
def hash_of_an_object(patch: pytest.MonkeyPatch) -> Stages:
    """Where an object is in memory is a number that the step can see, and a copy of the cell has others."""

    def act(self: Any, t: Tensor) -> Tensor:
        return t * (0.5 if id(self.held) == self.number else 0.7)

    held = [Gain(), Gain()]
    yield (cell := made(act, held=held[0], number=id(held[0])))
    cell.held = held[1]
    yield cell
