"""Containers on the cell that are changed in place, and what is inside them."""

from __future__ import annotations

import array
import collections
import dataclasses
import types
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.cell_changes.table import Stages, change, made, unseen


def first_of(self: Any, t: Tensor) -> Tensor:
    return torch.tanh(t) * float(self.levels[0])


def gain_of(self: Any, t: Tensor) -> Tensor:
    return torch.tanh(t) * self.options.gain


class Gain:
    def __init__(self, gain: float) -> None:
        self.gain = gain


@change
def list_in_place(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * sum(self.levels), levels=[0.5, 0.2]))
    cell.levels[0] = 0.7
    yield cell
    cell.levels.append(0.7)
    yield cell
    cell.levels.clear()
    yield cell


@change
def list_in_a_list(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * self.levels[1][0][0], levels=[0.5, [(0.5,)]]))
    cell.levels[1][0] = (0.7,)
    yield cell


@change
def list_that_holds_itself(patch: pytest.MonkeyPatch) -> Stages:
    levels: list[Any] = [0.5]
    levels.append(levels)
    yield (cell := made(lambda self, t: t * self.levels[1][1][0], levels=levels))
    levels[0] = 0.7
    yield cell


@change
def two_lists_become_one(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * (0.5 if self.a is self.b else 0.7), a=[1], b=[1]))
    cell.b = cell.a
    yield cell


@change
def dict_in_place(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * self.options["gain"], options={"gain": 0.5}))
    cell.options["gain"] = 0.7
    yield cell


@change
def dict_in_a_dict(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * self.options["a"]["b"], options={"a": {"b": 0.5}}))
    cell.options["a"]["b"] = 0.7
    yield cell


@change
def key_of_a_dict(patch: pytest.MonkeyPatch) -> Stages:
    """1, True and 1.0 are one key; which of them stands there is another matter."""
    yield (cell := made(lambda self, t: t * (0.5 if next(iter(self.options)) is True else 0.7), options={1: 0}))
    cell.options = {True: 0}
    yield cell


@change
def order_of_a_dict(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * next(iter(self.options.values())), options={"a": 0.5, "b": 0.7}))
    cell.options["a"] = cell.options.pop("a")
    yield cell


@change
def set_in_place(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: torch.tanh(t) if "squash" in self.flags else t, flags={"squash"}))
    cell.flags.discard("squash")
    yield cell


@change
def set_of_equal_length(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: torch.tanh(t) if "squash" in self.flags else t, flags={"squash"}))
    cell.flags.remove("squash")
    cell.flags.add("other")
    yield cell


@change
def frozenset_is_replaced(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * sum(self.levels), levels=frozenset({0.5})))
    cell.levels = frozenset({0.7})
    yield cell


@change
def defaultdict(patch: pytest.MonkeyPatch) -> Stages:
    levels = collections.defaultdict(lambda: 0.5, gain=0.6)
    yield (cell := made(lambda self, t: t * self.levels["gain"], levels=levels))
    levels["gain"] = 0.7
    yield cell


@change
def default_of_a_defaultdict(patch: pytest.MonkeyPatch) -> Stages:
    levels: Any = collections.defaultdict(lambda: 0.5)
    yield (cell := made(lambda self, t: t * self.levels.default_factory(), levels=levels))
    levels.default_factory = lambda: 0.7
    yield cell


@change
def ordered_dict(patch: pytest.MonkeyPatch) -> Stages:
    levels = collections.OrderedDict(a=0.5, b=0.7)
    yield (cell := made(lambda self, t: t * next(iter(self.levels.values())), levels=levels))
    levels.move_to_end("a")
    yield cell


@change
def counter(patch: pytest.MonkeyPatch) -> Stages:
    levels = collections.Counter(a=2)
    yield (cell := made(lambda self, t: t * self.levels["a"], levels=levels))
    levels["a"] += 1
    yield cell


@change
def chain_map(patch: pytest.MonkeyPatch) -> Stages:
    under = {"gain": 0.5}
    yield (cell := made(lambda self, t: t * self.levels["gain"], levels=collections.ChainMap({}, under)))
    under["gain"] = 0.7
    yield cell


@change
def user_dict(patch: pytest.MonkeyPatch) -> Stages:
    levels = collections.UserDict(gain=0.5)
    yield (cell := made(lambda self, t: t * self.levels["gain"], levels=levels))
    levels["gain"] = 0.7
    yield cell


@change
def attribute_of_a_list(patch: pytest.MonkeyPatch) -> Stages:
    class Levels(list):  # type: ignore[type-arg]
        gain = 1.0

    levels = Levels([0.5])
    yield (cell := made(lambda self, t: t * self.levels[0] * self.levels.gain, levels=levels))
    levels.gain = 0.3
    yield cell


@unseen
def view_of_a_dict(patch: pytest.MonkeyPatch) -> Stages:
    """A C object that shows only copies of what is behind it."""
    options = {"gain": 0.5}
    yield (cell := made(lambda self, t: t * sum(self.levels), levels=options.values()))
    options["gain"] = 0.7
    yield cell


@unseen
def mapping_proxy(patch: pytest.MonkeyPatch) -> Stages:
    """A C object around a dict that nothing else shows."""
    options = {"gain": 0.5}
    yield (cell := made(lambda self, t: t * self.levels["gain"], levels=types.MappingProxyType(options)))
    options["gain"] = 0.7
    yield cell


@change
def deque(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(first_of, levels=collections.deque([0.5, 0.7], maxlen=2)))
    cell.levels.append(0.9)
    yield cell
    cell.levels.rotate()
    yield cell


@change
def numpy_array_in_place(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(first_of, levels=np.array([0.5, 0.7])))
    cell.levels[0] = 0.9
    yield cell


@change
def numpy_array_in_place_as_a_whole(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * torch.from_numpy(self.levels), levels=np.array([0.5, 0.7, 0.9])))
    cell.levels *= 2
    yield cell


@change
def numpy_view(patch: pytest.MonkeyPatch) -> Stages:
    base = np.array([0.5, 0.7])
    yield (cell := made(first_of, levels=base[:1]))
    base[0] = 0.9
    yield cell


@change
def numpy_array_of_objects(patch: pytest.MonkeyPatch) -> Stages:
    levels = np.empty(1, dtype=object)
    levels[0] = [0.5]
    yield (cell := made(lambda self, t: t * self.levels[0][0], levels=levels))
    levels[0][0] = 0.7
    yield cell


@change
def structured_numpy_array(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * float(self.table["gain"][0]), table=np.array([(0.5,)], [("gain", "f8")])))
    cell.table["gain"] = 0.7
    yield cell


@change
def array_array(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(first_of, levels=array.array("d", [0.5])))
    cell.levels[0] = 0.7
    yield cell


@change
def byte_array(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(first_of, levels=bytearray(b"\x01")))
    cell.levels[0] = 2
    yield cell


@unseen
def memory_view(patch: pytest.MonkeyPatch) -> Stages:
    """It cannot be copied, so that a copy to trace cannot be made."""
    behind = bytearray(b"\x01")
    yield (cell := made(first_of, levels=memoryview(behind)))
    behind[0] = 2
    yield cell


@change
def simple_namespace(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(gain_of, options=types.SimpleNamespace(gain=0.5)))
    cell.options.gain = 0.7
    yield cell


@change
def dataclass(patch: pytest.MonkeyPatch) -> Stages:
    options = dataclasses.make_dataclass("Options", [("gain", float)])
    yield (cell := made(gain_of, options=options(0.5)))
    cell.options.gain = 0.7
    yield cell


@change
def dataclass_with_slots(patch: pytest.MonkeyPatch) -> Stages:
    options = dataclasses.make_dataclass("Options", [("gain", float)], slots=True)
    yield (cell := made(gain_of, options=options(0.5)))
    cell.options.gain = 0.7
    yield cell


@change
def frozen_dataclass_is_forced(patch: pytest.MonkeyPatch) -> Stages:
    options = dataclasses.make_dataclass("Options", [("gain", float)], frozen=True)
    yield (cell := made(gain_of, options=options(0.5)))
    object.__setattr__(cell.options, "gain", 0.7)
    yield cell


@change
def object_with_slots(patch: pytest.MonkeyPatch) -> Stages:
    class Base:
        __slots__ = ("gain",)

    class Options(Base):
        __slots__ = ("other",)

    options: Any = Options()
    options.gain = 0.5
    yield (cell := made(gain_of, options=options))
    options.gain = 0.7
    yield cell


@change
def slot_is_deleted(patch: pytest.MonkeyPatch) -> Stages:
    class Options:
        __slots__ = ("gain",)

    options: Any = Options()
    options.gain = 0.5
    yield (cell := made(lambda self, t: t * getattr(self.options, "gain", 1.0), options=options))
    del options.gain
    yield cell


@change
def object_in_a_list(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * self.options[0].gain, options=[Gain(0.5)]))
    cell.options[0].gain = 0.7
    yield cell


@change
def object_in_a_dict_in_a_tuple(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * self.options[0]["a"].gain, options=({"a": Gain(0.5)},)))
    cell.options[0]["a"].gain = 0.7
    yield cell


@change
def object_in_an_object(patch: pytest.MonkeyPatch) -> Stages:
    options: Any = Gain(0.0)
    options.inner = Gain(0.5)
    yield (cell := made(lambda self, t: t * self.options.inner.gain, options=options))
    options.inner.gain = 0.7
    yield cell


@change
def object_is_replaced_by_one_at_its_address(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * self.options[0].gain, options=[Gain(0.5)]))
    for gain in (0.7, 0.9, 0.5):
        cell.options.clear()
        cell.options.append(Gain(gain))
        yield cell


@change
def class_of_an_object(patch: pytest.MonkeyPatch) -> Stages:
    class Half:
        def gain(self) -> float:
            return 0.5

    class Whole(Half):
        def gain(self) -> float:
            return 1.0

    options = Half()
    yield (cell := made(lambda self, t: t * self.options.gain(), options=options))
    options.__class__ = Whole
    yield cell


@change
def namedtuple_with_a_list(patch: pytest.MonkeyPatch) -> Stages:
    class Options(NamedTuple):
        levels: list[float]

    yield (cell := made(lambda self, t: t * self.options.levels[0], options=Options([0.5])))
    cell.options.levels[0] = 0.7
    yield cell


@change
def namedtuple_becomes_a_tuple(patch: pytest.MonkeyPatch) -> Stages:
    class Options(NamedTuple):
        gain: float

    yield (cell := made(lambda self, t: t * (0.5 if hasattr(self.options, "gain") else 0.7), options=Options(0.5)))
    cell.options = (0.5,)
    yield cell


@change
def operators_of_an_object(patch: pytest.MonkeyPatch) -> Stages:
    """A step that never names the attribute: Python calls the class."""

    class Schedule:
        def __init__(self) -> None:
            self.levels = [0.5, 0.7]

        def __len__(self) -> int:
            return len(self.levels)

        def __getitem__(self, k: int) -> float:
            return self.levels[k]

        def __call__(self) -> float:
            return self.levels[0]

        def __bool__(self) -> bool:
            return self.levels[0] > 0.4

    def act(self: Any, t: Tensor) -> Tensor:
        return t * len(self.schedule) * self.schedule[0] * self.schedule() if self.schedule else t

    yield (cell := made(act, schedule=Schedule()))
    cell.schedule.levels.append(0.9)
    yield cell
    cell.schedule.levels[0] = 0.45
    yield cell
    cell.schedule.levels[0] = 0.1
    yield cell
