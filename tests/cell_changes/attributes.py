"""Plain attributes of the cell, by value and by type."""

from __future__ import annotations

import enum
import functools
import math
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.cell_changes.table import Leaky, Stage, Stages, change, made, unseen
from tests.cells import Duck


def scaled(self: Any, t: Tensor) -> Tensor:
    return torch.tanh(t) * self.scale


@change
def float_attribute(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(scaled, scale=0.5))
    for value in (0.7, 0.5, 0.7000000000000001):
        cell.scale = value
        yield cell


@change
def int_attribute(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(scaled, scale=2))
    cell.scale = 3
    yield cell


@change
def large_int_attribute(patch: pytest.MonkeyPatch) -> Stages:
    """Beyond 64 bits, and the same in the lowest of them."""
    yield (cell := made(lambda self, t: t * (self.seed % 7 + 1), seed=2**70))
    cell.seed = 2**71
    yield cell


@change
def bool_attribute(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: torch.tanh(t) if self.squash else t, squash=True))
    cell.squash = False
    yield cell


@change
def str_attribute(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: getattr(torch, self.name_of_it)(t), name_of_it="tanh"))
    cell.name_of_it = "".join(["sig", "moid"])
    yield cell


@change
def bytes_attribute(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * self.code[0], code=b"\x01"))
    cell.code = b"\x02"
    yield cell


@change
def none_becomes_a_number(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t if self.clip is None else t.clamp(-self.clip, self.clip), clip=None))
    cell.clip = 0.01
    yield cell
    cell.clip = None
    yield cell


@change
def negative_zero(patch: pytest.MonkeyPatch) -> Stages:
    """Equal numbers, and no equal steps."""
    yield (cell := made(lambda self, t: t * math.copysign(1.0, self.shift), shift=0.0))
    cell.shift = -0.0
    yield cell
    cell.shift = 0.0
    yield cell


@change
def negative_zero_in_a_tuple(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * math.copysign(1.0, self.shift[0]), shift=(0.0,)))
    cell.shift = (-0.0,)
    yield cell


@change
def one_and_true_and_one_point_zero(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * {int: 0.5, bool: 0.7, float: 0.9}[type(self.level)], level=1))
    for value in (True, 1.0, 1):
        cell.level = value
        yield cell


@change
def one_and_true_in_a_tuple(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * (0.5 if self.levels[0] is True else 0.7), levels=(1,)))
    cell.levels = (True,)
    yield cell


@change
def not_a_number(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(scaled, scale=0.5))
    cell.scale = math.nan
    yield cell
    cell.scale = float("nan")  # another object, and no other step
    yield Stage(cell, alike=True)
    cell.scale = 0.5
    yield cell


@change
def complex_attribute(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * math.copysign(self.level.real, self.level.imag), level=complex(0.5, 0.0)))
    cell.level = complex(0.7, 0.0)
    yield cell
    cell.level = complex(0.7, -0.0)
    yield cell


@change
def attribute_is_added_and_deleted(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * getattr(self, "gain", 1.0)))
    cell.gain = 0.5
    yield cell
    del cell.gain
    yield cell


@change
def tuple_attribute(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * self.range[1] + self.range[0], range=(0.0, 1.0)))
    cell.range = (0.0, 0.5)
    yield cell


@change
def dtype_attribute(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t.to(self.work).to(t.dtype), work=torch.float64))
    cell.work = torch.float16
    yield Stage(cell, tolerance=2e-3)


@change
def enum_attribute(patch: pytest.MonkeyPatch) -> Stages:
    class Mode(enum.Enum):
        SOFT = 0.5
        HARD = 0.7

    yield (cell := made(lambda self, t: t * self.mode.value, mode=Mode.SOFT))
    cell.mode = Mode.HARD
    yield cell


@change
def attribute_of_an_enum_member(patch: pytest.MonkeyPatch) -> Stages:
    class Mode(enum.Enum):
        SOFT = "soft"

    Mode.SOFT.gain = 0.5
    yield (cell := made(lambda self, t: t * self.mode.gain, mode=Mode.SOFT))
    Mode.SOFT.gain = 0.7
    yield cell


@change
def attribute_of_a_number(patch: pytest.MonkeyPatch) -> Stages:
    """A subclass of float has a dict of its own."""

    class Level(float):
        unit = 1.0

    level = Level(0.5)
    yield (cell := made(lambda self, t: t * self.level * self.level.unit, level=level))
    level.unit = 0.3
    yield cell


@change
def operator_of_a_number(patch: pytest.MonkeyPatch) -> Stages:
    """A subclass of int computes as it likes."""

    class Halved(int):
        def __mod__(self, other: Any) -> float:
            return 0.5

    yield (cell := made(lambda self, t: t * (self.level % 4), level=3))
    cell.level = Halved(3)
    yield cell


@change
def numpy_scalar(patch: pytest.MonkeyPatch) -> Stages:
    """Made again and again, so that a new one has the address of one that is gone."""
    yield (cell := made(lambda self, t: t * float(self.scale), scale=np.float32(0.5)))
    for value in (0.7, 0.9, 1.1, 0.5):
        del cell.scale
        cell.scale = np.float32(value)
        yield cell


@change
def numpy_scalar_in_the_step(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * self.scale, scale=np.float64(0.5)))
    cell.scale = np.float64(0.7)
    yield cell


@change
def numpy_bool(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: torch.tanh(t) if self.squash else t, squash=np.bool_(True)))
    cell.squash = np.bool_(False)
    yield cell


@change
def property_of_a_private_attribute(patch: pytest.MonkeyPatch) -> Stages:
    class Cell(Leaky):
        gain = property(lambda self: self._gain * 2)

        def act(self, t: Tensor) -> Tensor:
            return t * self.gain

    yield (cell := Cell(_gain=0.5))
    cell._gain = 0.7
    yield cell


@change
def property_of_a_closure(patch: pytest.MonkeyPatch) -> Stages:
    gain = 0.5

    class Cell(Leaky):
        gain_of_it = property(lambda self: gain)

        def act(self, t: Tensor) -> Tensor:
            return t * self.gain_of_it

    yield (cell := Cell())
    gain = 0.7
    yield cell


@change
def property_is_replaced(patch: pytest.MonkeyPatch) -> Stages:
    class Cell(Leaky):
        gain = property(lambda self: 0.5)

        def act(self, t: Tensor) -> Tensor:
            return t * self.gain

    yield (cell := Cell())
    Cell.gain = property(lambda self: 0.7)
    yield cell


@change
def property_of_a_class_of_its_own(patch: pytest.MonkeyPatch) -> Stages:
    class Scaled(property):
        def __init__(self, read: Any, scale: float) -> None:
            super().__init__(read)
            self.scale = scale

        def __get__(self, owner: Any, kind: Any = None) -> Any:
            return self if owner is None else super().__get__(owner, kind) * self.scale

    class Cell(Leaky):
        gain = Scaled(lambda self: self.base, 2.0)

        def act(self, t: Tensor) -> Tensor:
            return t * self.gain

    yield (cell := Cell(base=0.5))
    cell.base = 0.7
    yield cell
    Cell.gain.scale = 3.0
    yield cell
    Cell.gain = Scaled(lambda self: -self.base, 3.0)
    yield cell


@change
def cached_property(patch: pytest.MonkeyPatch) -> Stages:
    """The first step puts it into the cell's dict; it stays what it was until it is deleted."""

    class Cell(Leaky):
        @functools.cached_property
        def gain(self) -> float:
            return self.base * 2

        def act(self, t: Tensor) -> Tensor:
            return t * self.gain

    cell = Cell(base=0.5)
    assert cell.gain == 1.0
    yield cell
    cell.base = 0.7
    yield Stage(cell, alike=True)
    del cell.gain
    assert cell.gain == 1.4
    yield cell


@change
def getattr_of_the_class(patch: pytest.MonkeyPatch) -> Stages:
    class Cell(Leaky):
        def __getattr__(self, name: str) -> Any:
            return self.options["gain"] if name == "gain" else super().__getattr__(name)

        def act(self, t: Tensor) -> Tensor:
            return t * self.gain

    yield (cell := Cell(options={"gain": 0.5}))
    cell.options["gain"] = 0.7
    yield cell


@change
def getattribute_of_the_class(patch: pytest.MonkeyPatch) -> Stages:
    levels = {"gain": 0.5}

    class Cell(Leaky):
        def __getattribute__(self, name: str) -> Any:
            return levels[name] if name in levels else super().__getattribute__(name)

        def act(self, t: Tensor) -> Tensor:
            return t * self.gain

    yield (cell := Cell())
    levels["gain"] = 0.7
    yield cell


@unseen
def descriptor(patch: pytest.MonkeyPatch) -> Stages:
    """Keeps the values of all cells beside them, found by the identity of a cell, which a copy does not have."""

    class Kept:
        def __init__(self) -> None:
            self.values: Any = weakref.WeakKeyDictionary()

        def __get__(self, cell: Any, owner: Any) -> Any:
            return self if cell is None else self.values.get(cell, 0.5)

        def __set__(self, cell: Any, value: float) -> None:
            self.values[cell] = value

    class Cell(Leaky):
        gain = Kept()

        def act(self, t: Tensor) -> Tensor:
            return t * self.gain

    yield (cell := Cell())
    cell.gain = 0.7
    yield cell


@change
def descriptor_with_a_number(patch: pytest.MonkeyPatch) -> Stages:
    class Fixed:
        value = 0.5

        def __get__(self, cell: Any, owner: Any) -> float:
            return self.value

    class Cell(Leaky):
        gain = Fixed()

        def act(self, t: Tensor) -> Tensor:
            return t * self.gain

    yield (cell := Cell())
    vars(Cell)["gain"].value = 0.7
    yield cell


@unseen
def slot_of_the_cell(patch: pytest.MonkeyPatch) -> Stages:
    """Not in the cell's dict, which a module has besides; copies of modules are made without slots."""

    class Cell(Leaky):
        __slots__ = ("gain",)

        def act(self, t: Tensor) -> Tensor:
            return t * self.gain

    yield (cell := Cell(gain=0.5))
    assert "gain" not in vars(cell)
    cell.gain = 0.7
    yield cell


@change
def attribute_of_a_cell_that_is_no_module(patch: pytest.MonkeyPatch) -> Stages:
    class Cell(Duck):
        gain = 0.5

        def __call__(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            return x * self.gain, torch.tanh(x + h * self.gain)

    yield (cell := Cell())
    cell.gain = 0.7
    yield cell


@change
def slot_of_a_cell_that_is_no_module(patch: pytest.MonkeyPatch) -> Stages:
    class Cell:
        __slots__ = ("__weakref__", "gain")
        state_size = output_size = 3

        def zero_state(self, batch_size: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(batch_size, 3, dtype=dtype)

        def __call__(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            return x * self.gain, torch.tanh(x + h * self.gain)

    cell: Any = Cell()
    cell.gain = 0.5
    yield cell
    cell.gain = 0.7
    yield cell
