"""Classes: of the cell, of its bases, of its modules, and of what it holds."""

from __future__ import annotations

import abc
import types
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.cell_changes.table import Leaky, Stage, Stages, change, made, unseen
from unspool import RNNCell


def classed(*bases: type, **members: Any) -> Any:
    """A class of a cell that multiplies by `self.gain`."""
    return type("Cell", (*bases, Leaky), {"act": lambda self, t: torch.tanh(t) * self.gain, **members})


@change
def class_attribute(patch: pytest.MonkeyPatch) -> Stages:
    kind = classed(gain=0.5)
    yield (cell := kind())
    kind.gain = 0.7
    yield cell
    kind.gain = 0.5
    yield cell


@change
def class_attribute_of_a_base(patch: pytest.MonkeyPatch) -> Stages:
    base = classed(gain=0.5)
    yield (cell := type("Below", (base,), {})())
    base.gain = 0.7
    yield cell


@change
def class_attribute_of_a_mixin(patch: pytest.MonkeyPatch) -> Stages:
    mixin: Any = type("Mixin", (), {"gain": 0.5})
    yield (cell := classed(mixin)())
    mixin.gain = 0.7
    yield cell


@change
def class_attribute_is_added_below(patch: pytest.MonkeyPatch) -> Stages:
    """A class nearer to the cell hides the one that was read."""
    base = classed(gain=0.5)
    below: Any = type("Below", (base,), {})
    yield (cell := below())
    below.gain = 0.7
    yield cell
    del below.gain
    yield cell


@change
def class_attribute_is_hidden_by_the_cell(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := classed(gain=0.5)())
    cell.gain = 0.7
    yield cell
    del cell.gain
    yield cell


@change
def class_attribute_in_place(patch: pytest.MonkeyPatch) -> Stages:
    class Cell(Leaky):
        levels = [0.5]

        def act(self, t: Tensor) -> Tensor:
            return t * self.levels[0]

    yield (cell := Cell())
    Cell.levels[0] = 0.7
    yield cell


@change
def attribute_of_a_metaclass(patch: pytest.MonkeyPatch) -> Stages:
    class Meta(type):
        gain = 0.5

    class Cell(Leaky, metaclass=Meta):
        def act(self, t: Tensor) -> Tensor:
            return t * type(self).gain

    yield (cell := Cell())
    Meta.gain = 0.7
    yield cell


@change
def property_of_a_metaclass(patch: pytest.MonkeyPatch) -> Stages:
    levels = [0.5]

    class Meta(type):
        gain = property(lambda cls: levels[0])

    class Cell(Leaky, metaclass=Meta):
        def act(self, t: Tensor) -> Tensor:
            return t * type(self).gain

    yield (cell := Cell())
    levels[0] = 0.7
    yield cell


@change
def forward_of_the_class(patch: pytest.MonkeyPatch) -> Stages:
    kind: Any = type("Cell", (Leaky,), {})
    yield (cell := kind())
    kind.forward = lambda self, x, h: (x + h, torch.tanh(x + h))
    yield cell
    del kind.forward
    yield cell


@change
def forward_of_a_base(patch: pytest.MonkeyPatch) -> Stages:
    base: Any = type("Base", (Leaky,), {})
    yield (cell := type("Cell", (base,), {})())
    base.forward = lambda self, x, h: (x + h, torch.tanh(x + h))
    yield cell


@change
def method_of_the_class(patch: pytest.MonkeyPatch) -> Stages:
    kind: Any = type("Cell", (Leaky,), {"act": lambda self, t: torch.tanh(t)})
    yield (cell := kind())
    kind.act = lambda self, t: torch.sigmoid(t)
    yield cell


@change
def method_of_the_same_code(patch: pytest.MonkeyPatch) -> Stages:
    """Made twice by one line, around different numbers."""

    def act(gain: float) -> Any:
        return lambda self, t: t * gain

    kind: Any = type("Cell", (Leaky,), {"act": act(0.5)})
    yield (cell := kind())
    kind.act = act(0.7)
    yield cell


@change
def method_that_super_finds(patch: pytest.MonkeyPatch) -> Stages:
    class Base(Leaky):
        def act(self, t: Tensor) -> Tensor:
            return torch.tanh(t)

    class Cell(Base):
        def act(self, t: Tensor) -> Tensor:
            return super().act(t) * 0.5

    yield (cell := Cell())
    Base.act = lambda self, t: torch.sigmoid(t)
    yield cell


@change
def static_method(patch: pytest.MonkeyPatch) -> Stages:
    class Cell(Leaky):
        @staticmethod
        def squash(t: Tensor) -> Tensor:
            return torch.tanh(t)

        def act(self, t: Tensor) -> Tensor:
            return self.squash(t)

    yield (cell := Cell())
    Cell.squash = staticmethod(torch.sigmoid)
    yield cell


@change
def class_method(patch: pytest.MonkeyPatch) -> Stages:
    class Cell(Leaky):
        levels = [0.5]

        @classmethod
        def gain(cls) -> float:
            return cls.levels[0]

        def act(self, t: Tensor) -> Tensor:
            return t * self.gain()

    yield (cell := Cell())
    Cell.levels = [0.7]
    yield cell
    Cell.gain = classmethod(lambda cls: 0.9)
    yield cell


@change
def call_of_the_class(patch: pytest.MonkeyPatch) -> Stages:
    kind: Any = type("Cell", (Leaky,), {})
    yield (cell := kind())
    kind.__call__ = lambda self, x, h, scope=None: (x + h, torch.tanh(x + h))
    yield cell


@change
def call_of_all_cells(patch: pytest.MonkeyPatch) -> Stages:
    call = RNNCell.__call__
    yield (cell := made(lambda self, t: torch.tanh(t)))
    patch.setattr(RNNCell, "__call__", lambda self, x, h, scope=None: call(self, x * 2, h, scope))
    yield cell


@change
def class_of_a_module(patch: pytest.MonkeyPatch) -> Stages:
    class Squash(nn.Module):
        def forward(self, t: Tensor) -> Tensor:
            return torch.tanh(t)

    yield (cell := made(lambda self, t: self.squash(t), squash=Squash()))
    Squash.forward = lambda self, t: torch.sigmoid(t)
    yield cell


@change
def forward_of_linear(patch: pytest.MonkeyPatch) -> Stages:
    forward = nn.Linear.forward
    yield (cell := made(lambda self, t: torch.tanh(t)))
    patch.setattr(nn.Linear, "forward", lambda self, t: 2 * forward(self, t))
    yield cell
    patch.undo()
    yield cell


@change
def call_of_all_modules(patch: pytest.MonkeyPatch) -> Stages:
    call = nn.Module.__call__
    yield (cell := made(lambda self, t: self.norm(t), norm=nn.LayerNorm(3, dtype=torch.float64)))

    def doubled(self: Any, *args: Any) -> Any:
        found = call(self, *args)
        return found * 2 if isinstance(found, Tensor) else found

    patch.setattr(nn.Module, "__call__", doubled)
    yield cell


@change
def method_of_the_cell_itself(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: torch.tanh(t)))
    cell.act = lambda t: torch.sigmoid(t)
    yield cell
    cell.act = types.MethodType(lambda self, t: t * self.state_size, cell)
    yield cell
    del cell.act
    yield cell


@change
def forward_of_the_cell_itself(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    cell.forward = lambda x, h: (x + h, torch.tanh(x + h))
    yield cell


@change
def forward_of_a_module_itself(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := Leaky())
    forward = cell.mix.forward
    cell.mix.forward = lambda t: 2 * forward(t)
    yield cell


@change
def bound_method_of_another_object(patch: pytest.MonkeyPatch) -> Stages:
    class Schedule:
        gain = 0.5

        def act(self, t: Tensor) -> Tensor:
            return t * self.gain

    schedule = Schedule()
    yield (cell := made(lambda self, t: self.squash(t), squash=schedule.act))
    schedule.gain = 0.7
    yield cell
    Schedule.act = lambda self, t: t  # the cell has the one that was
    yield Stage(cell, alike=True)


@change
def class_is_assigned(patch: pytest.MonkeyPatch) -> Stages:
    first, second = (made(act).__class__ for act in (lambda self, t: torch.tanh(t), lambda self, t: torch.sigmoid(t)))
    yield (cell := first())
    cell.__class__ = second
    yield cell
    cell.__class__ = first
    yield cell


@change
def class_of_a_module_is_assigned(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: self.squash(t), squash=nn.Tanh()))
    cell.squash.__class__ = nn.Sigmoid
    yield cell


@change
def bases_are_assigned(patch: pytest.MonkeyPatch) -> Stages:
    one, other = (type(name, (Leaky,), {"gain": gain}) for name, gain in (("One", 0.5), ("Other", 0.7)))
    kind: Any = type("Cell", (one,), {"act": lambda self, t: t * self.gain})
    yield (cell := kind())
    kind.__bases__ = (other,)
    yield cell


@change
def class_held_by_the_cell(patch: pytest.MonkeyPatch) -> Stages:
    class Options:
        gain = 0.5

    yield (cell := made(lambda self, t: t * self.options.gain, options=Options))
    Options.gain = 0.7
    yield cell


@change
def class_of_an_object_is_patched(patch: pytest.MonkeyPatch) -> Stages:
    class Options:
        def gain(self) -> float:
            return 0.5

    yield (cell := made(lambda self, t: t * self.options.gain(), options=Options()))
    Options.gain = lambda self: 0.7
    yield cell


@change
def operator_of_a_class(patch: pytest.MonkeyPatch) -> Stages:
    class Level:
        def __rmul__(self, other: Any) -> Any:
            return other.__mul__(0.5)

        def __float__(self) -> float:
            return 0.5

    yield (cell := made(lambda self, t: t.mul(float(self.level)) * 1.0, level=Level()))
    Level.__float__ = lambda self: 0.7
    yield cell


@unseen
def class_is_registered(patch: pytest.MonkeyPatch) -> Stages:
    """Whether an object is an instance is kept in C by `abc`."""

    class Marked(abc.ABC):  # noqa: B024
        pass

    class Options:
        pass

    yield (cell := made(lambda self, t: t * (0.5 if isinstance(self.options, Marked) else 0.7), options=Options()))
    Marked.register(Options)
    yield cell


@change
def autograd_function(patch: pytest.MonkeyPatch) -> Stages:
    class Scaled(torch.autograd.Function):
        gain = 0.5

        @staticmethod
        def forward(ctx: Any, t: Tensor) -> Tensor:
            return t * Scaled.gain

        @staticmethod
        def backward(ctx: Any, d: Tensor) -> Tensor:
            return d * Scaled.gain

    yield (cell := made(lambda self, t: Scaled.apply(t)))
    Scaled.gain = 0.7
    yield cell
    Scaled.backward = staticmethod(lambda ctx, d: d * 100)  # the outputs stay
    yield cell


@change
def initialisation_by_a_base_of_what_a_step_makes(patch: pytest.MonkeyPatch) -> Stages:
    class Base:
        def __init__(self, gain: float) -> None:
            self.gain = gain

    class Made(Base):
        pass

    kind = classed(act=lambda self, t: torch.tanh(t) * Made(0.5).gain)
    yield (cell := kind())

    def doubled(self: Any, gain: float) -> None:
        self.gain = 2 * gain

    patch.setattr(Base, "__init__", doubled)
    yield cell


@change
def initialisation_by_a_base_that_the_step_had_hold_of(patch: pytest.MonkeyPatch) -> Stages:
    """The base is reached twice: as that of an object, whose `__init__` has run, and of a class."""

    class Base:
        def __init__(self) -> None:
            self.gain = 0.5

    class Kept(Base):
        pass

    class Made(Base):
        pass

    kept = Kept()
    kind = classed(act=lambda self, t: torch.tanh(t) * kept.gain * Made().gain)
    yield (cell := kind())

    def larger(self: Any) -> None:
        self.gain = 0.8

    patch.setattr(Base, "__init__", larger)
    yield cell
