"""Functions: what they close over, their defaults, their code, and what holds them."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.cell_changes.table import Stage, Stages, change, made, unseen


def held(function: Any) -> Any:
    """A cell with that function in an attribute."""
    return made(lambda self, t: self.squash(t), squash=function)


@change
def closure(patch: pytest.MonkeyPatch) -> Stages:
    gain = 0.5
    yield (cell := made(lambda self, t: t * gain))
    gain = 0.7
    yield cell
    gain = 0.5
    yield cell


@change
def closure_of_a_held_function(patch: pytest.MonkeyPatch) -> Stages:
    gain = 0.5

    def moved() -> None:
        nonlocal gain
        gain = 0.7

    yield (cell := held(lambda t: t * gain))
    moved()
    yield cell


@change
def list_in_a_closure(patch: pytest.MonkeyPatch) -> Stages:
    levels = [0.5]
    yield (cell := made(lambda self, t: t * levels[0]))
    levels[0] = 0.7
    yield cell


@change
def object_in_a_closure(patch: pytest.MonkeyPatch) -> Stages:
    class Options:
        gain = 0.5

    options = Options()
    yield (cell := made(lambda self, t: t * options.gain))
    options.gain = 0.7
    yield cell


@change
def closure_in_a_closure(patch: pytest.MonkeyPatch) -> Stages:
    gain = 0.5

    def inner(t: Tensor) -> Tensor:
        return t * gain

    def outer(t: Tensor) -> Tensor:
        return inner(t) + 1

    yield (cell := held(outer))
    gain = 0.7
    yield cell


@change
def function_within_the_step(patch: pytest.MonkeyPatch) -> Stages:
    """The name is read by a function that exists only while the step runs."""
    gain = 0.5

    def act(self: Any, t: Tensor) -> Tensor:
        def inner(t: Tensor) -> Tensor:
            return (lambda t: t * gain)(t)

        return inner(t)

    yield (cell := made(act))
    gain = 0.7
    yield cell


@change
def comprehension_within_the_step(patch: pytest.MonkeyPatch) -> Stages:
    gain = 0.5
    yield (cell := made(lambda self, t: t * sum(gain * k for k in range(2)) + sum([gain for _ in range(2)])))
    gain = 0.7
    yield cell


@change
def cell_of_a_closure_from_outside(patch: pytest.MonkeyPatch) -> Stages:
    def closed(gain: float) -> Any:
        return lambda self, t: t * gain

    yield (cell := made(closed(0.5)))
    type(cell).act.__closure__[0].cell_contents = 0.7
    yield cell


@change
def default(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t, k=0.5: t * k))
    type(cell).act.__defaults__ = (0.7,)
    yield cell


@change
def default_in_place(patch: pytest.MonkeyPatch) -> Stages:
    levels = {"gain": 0.5}

    def act(self: Any, t: Tensor, levels: Any = levels) -> Tensor:
        return t * levels["gain"]

    yield (cell := made(act))
    levels["gain"] = 0.7
    yield cell


@change
def keyword_default(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t, *, k=0.5: t * k))
    type(cell).act.__kwdefaults__["k"] = 0.7
    yield cell
    type(cell).act.__kwdefaults__ = {"k": 0.9}
    yield cell


@change
def keyword_default_of_a_held_function(patch: pytest.MonkeyPatch) -> Stages:
    """One line makes two functions, which differ in nothing but their keyword defaults."""

    def squash(k: float) -> Any:
        def act(t: Tensor, *, k: float = k) -> Tensor:
            return t * k

        return act

    yield (cell := held(squash(0.5)))
    cell.squash = squash(0.7)
    yield cell


@change
def default_of_a_helper(patch: pytest.MonkeyPatch) -> Stages:
    def helper(t: Tensor, k: float = 0.5) -> Tensor:
        return t * k

    yield (cell := made(lambda self, t: helper(t)))
    helper.__defaults__ = (0.7,)
    yield cell


@change
def code(patch: pytest.MonkeyPatch) -> Stages:
    def squash(t: Tensor) -> Tensor:
        return torch.tanh(t)

    before = squash.__code__
    yield (cell := held(squash))
    squash.__code__ = (lambda t: torch.sigmoid(t)).__code__
    yield cell
    squash.__code__ = before
    yield cell


@change
def code_of_the_forward(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: torch.tanh(t)))
    type(cell).act.__code__ = (lambda self, t: torch.sigmoid(t)).__code__
    yield cell


@change
def attribute_of_a_function(patch: pytest.MonkeyPatch) -> Stages:
    def squash(t: Tensor) -> Tensor:
        return t * squash.gain  # type: ignore[attr-defined]

    squash.gain = 0.5  # type: ignore[attr-defined]
    yield (cell := held(squash))
    squash.gain = 0.7  # type: ignore[attr-defined]
    yield cell


@change
def function_is_replaced(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := held(torch.tanh))
    cell.squash = torch.sigmoid
    yield cell
    cell.squash = lambda t: t * 0.5
    yield cell
    cell.squash = lambda t: t * 0.7
    yield cell


@change
def partial_is_replaced(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := held(functools.partial(torch.clamp, min=-0.1, max=0.1)))
    cell.squash = functools.partial(torch.clamp, min=-0.1, max=0.2)
    yield cell
    cell.squash = functools.partial(torch.mul, torch.full((), 0.5, dtype=torch.float64))
    yield cell


@change
def keywords_of_a_partial(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := held(functools.partial(torch.clamp, min=-0.1, max=0.1)))
    cell.squash.keywords["max"] = 0.2
    yield cell


@change
def partial_of_a_partial_around_an_object(patch: pytest.MonkeyPatch) -> Stages:
    levels = [0.5]
    inner = functools.partial(lambda levels, shift, t: t * levels[0] + shift, levels)
    yield (cell := held(functools.partial(inner, 0.1)))
    levels[0] = 0.7
    yield cell


@change
def partial_of_a_class_of_its_own(patch: pytest.MonkeyPatch) -> Stages:
    class Shifted(functools.partial[Tensor]):
        def __call__(self, *args: Any) -> Tensor:
            return super().__call__(*args) + self.keywords["max"] * self.shift

    shifted = Shifted(torch.clamp, min=-0.1, max=0.1)
    shifted.shift = 1.0
    yield (cell := held(shifted))
    cell.squash.shift = 2.0
    yield cell
    cell.squash.keywords["max"] = 0.2
    yield cell


@change
def partial_method(patch: pytest.MonkeyPatch) -> Stages:
    def squash(self: Any, t: Tensor, gain: float) -> Tensor:
        return t * gain

    yield (cell := made(functools.partialmethod(squash, gain=0.5)))
    type(cell).act = functools.partialmethod(squash, gain=0.7)
    yield cell


@change
def function_in_a_list(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: self.ways[0](t), ways=[lambda t: t * 0.5]))
    cell.ways[0] = lambda t: t * 0.7
    yield cell


@change
def function_in_a_dict(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: self.ways["a"](t), ways={"a": torch.tanh}))
    cell.ways["a"] = torch.sigmoid
    yield cell


@change
def functions_of_one_loop(patch: pytest.MonkeyPatch) -> Stages:
    ways = [lambda t, k=k: t * k for k in (0.5, 0.7, 0.9)]
    yield (cell := made(lambda self, t: self.ways[0](t), ways=ways))
    ways.reverse()
    yield cell


@change
def decorated_function(patch: pytest.MonkeyPatch) -> Stages:
    levels = {"gain": 0.5}

    def scaled(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args) * levels["gain"]

        return wrapper

    yield (cell := made(scaled(lambda self, t: torch.tanh(t))))
    levels["gain"] = 0.7
    yield cell


@change
def context_manager_within_the_step(patch: pytest.MonkeyPatch) -> Stages:
    levels = [0.5]

    @contextlib.contextmanager
    def gain() -> Iterator[float]:
        yield levels[0]

    def act(self: Any, t: Tensor) -> Tensor:
        with gain() as now:
            return t * now

    yield (cell := made(act))
    levels[0] = 0.7
    yield cell


@change
def generator_within_the_step(patch: pytest.MonkeyPatch) -> Stages:
    levels = [0.5]

    def gains() -> Iterator[float]:
        yield from levels

    yield (cell := made(lambda self, t: t * sum(gains())))
    levels.append(0.7)
    yield cell


@change
def item_getter(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * self.get((0.5, 0.7)), get=operator.itemgetter(0)))
    cell.get = operator.itemgetter(1)
    yield cell


@change
def attribute_getter(patch: pytest.MonkeyPatch) -> Stages:
    yield (cell := made(lambda self, t: t * self.get(self), get=operator.attrgetter("a"), a=0.5, b=0.7))
    cell.a = 0.9
    yield cell
    cell.get = operator.attrgetter("b")
    yield cell


@unseen
def cache_of_a_function(patch: pytest.MonkeyPatch) -> Stages:
    """What a cached function returns is what it once computed; its cache cannot be looked into."""
    levels = [0.5]

    @functools.lru_cache
    def gain() -> float:
        return levels[0]

    gain()
    yield (cell := made(lambda self, t: t * gain()))
    levels[0] = 0.7
    yield Stage(cell, alike=True)
    gain.cache_clear()
    gain()
    yield cell


@unseen
def function_is_registered(patch: pytest.MonkeyPatch) -> Stages:
    """The functions of a `singledispatch` are found through a cache and a proxy."""

    @functools.singledispatch
    def gain(kind: Any) -> float:
        return 0.5

    yield (cell := made(lambda self, t: t * gain(self.state_size)))
    gain.register(int, lambda kind: 0.7)
    yield cell


@change
def callable_object(patch: pytest.MonkeyPatch) -> Stages:
    class Squash:
        gain = 0.5

        def __call__(self, t: Tensor) -> Tensor:
            return t * self.gain

    yield (cell := held(Squash()))
    cell.squash.gain = 0.7
    yield cell
    Squash.__call__ = lambda self, t: torch.sigmoid(t)
    yield cell


@change
def callable_in_a_closure_twice_around(patch: pytest.MonkeyPatch) -> Stages:
    """Equal code, equal numbers at first sight, and a difference three functions down."""

    def made_of(levels: list[float]) -> Any:
        inner = functools.partial(lambda levels, t: t * levels[-1], levels)
        return lambda t: (lambda t: inner(t))(t)

    yield (cell := held(made_of([0.5, 0.5])))
    cell.squash = made_of([0.5, 0.7])
    yield cell


@change
def builtin_method_of_a_list(patch: pytest.MonkeyPatch) -> Stages:
    """A bound method of C, around a list that is changed in place."""
    levels = [0.5, 0.7]
    yield (cell := made(lambda self, t: t * self.at(0), at=levels.__getitem__))
    levels[0] = 0.9
    yield cell


@change
def builtin_method_of_a_dict(patch: pytest.MonkeyPatch) -> Stages:
    options = {"gain": 0.5}
    yield (cell := made(lambda self, t: t * self.get("gain", 1.0), get=options.get))
    options["gain"] = 0.7
    yield cell
