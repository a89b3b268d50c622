"""What compiled loops compute beside what the interpreter does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from unspool import explain
from unspool.engine.emit.cpp import emitter
from unspool.engine.emit.cpp.libraries.kernels import Kernels
from unspool.engine.emit.cpp.libraries.module import Module
from unspool.engine.ir.program import Value


class Joined(Module):
    """A module whose functions are compiled with those of others, under names of their own."""

    def __init__(self, together: Module, number: int, *, rounds: bool) -> None:
        super().__init__(rounds=rounds)
        self._together, self._prefix = together, f"module_{number}_"

    def add(self, name: str, body: str) -> str:
        return self._together.add(self._prefix + name, body)

    def need(self, *kernels: Kernels) -> None:
        self._together.need(*kernels)

    def start(self) -> None:
        """All start together."""

    def function(self, name: str) -> int:
        return self._together.function(self._prefix + name)


@contextmanager
def compiled_together(near: int = emitter.NEAR) -> Iterator[None]:
    """Loops that are planned in here are compiled together at its end: far faster than one after another.

    Args:
        near: bytes of weights up to which products of inputs are in the loops, with few rows too.
    """
    together, number = Module(), itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emitter, "NEAR", near)
        patch.setattr(emitter, "Module", lambda *, rounds: Joined(together, next(number), rounds=rounds))
        yield
    together.start()


LIMITS = {torch.float64: 1e-10, torch.float32: 2e-6}
"""How much results may differ, by `difference`. In float32 that is some ten roundings."""


@contextmanager
def interpreter() -> Iterator[None]:
    """Cores are interpreted in here, those of plans that there are already too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSPOOL_EMIT", "interpreted")
        yield


def difference(found: Tensor, expected: Tensor, least: float = 0.0) -> float:
    """The largest difference of two elements, relative to the largest element there is.

    Not to each element: a small one may be what is left of large terms that cancel, and has their rounding. For the
    same reason, the largest counts as `least` at least. Infinities and NaN must be in the same places.
    """
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    if not expected.is_floating_point():
        return 0.0 if torch.equal(found, expected) else torch.inf
    found, expected = found.detach().double(), expected.detach().double()
    same = (found == expected) | (found.isnan() & expected.isnan())
    ordinary = found.isfinite() & expected.isfinite()
    if not (same | ordinary).all():
        return torch.inf
    apart = torch.where(ordinary, found - expected, 0).abs()
    return apart.max().item() / max(largest(expected), least) if apart.any() else 0.0


def largest(tensor: Tensor) -> float:
    """The size of the largest number in it that is finite."""
    finite = tensor[tensor.isfinite()].double().abs()
    return finite.max().item() if finite.numel() else 0.0


def assert_equals_interpreter(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Asserts that the results of `tests.comparison.results` are the same, up to rounding.

    A gradient may cancel altogether, as that of a bias in front of a softmax does, and an output may: what is left of
    it is measured by the other gradients, or outputs.
    """
    assert found.keys() == expected.keys()
    # A cell that carries something in float32 computes through it, forwards and backwards: its rounding is everywhere.
    single = any(value.dtype == torch.float32 for value in expected.values())
    limit = LIMITS[torch.float32 if single else torch.float64]
    sizes = {True: 0.0, False: 0.0}
    for name, value in expected.items():
        sizes[name.startswith("gradient")] = max(sizes[name.startswith("gradient")], largest(value))
    for name, value in expected.items():
        off = difference(found[name], value, sizes[name.startswith("gradient")] / 100)
        assert off <= limit, f"{name} differs by {off}"


def assert_compiled(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype, **options: Any) -> None:
    """Asserts that compiled loops would run a cell, forwards and backwards."""
    explanation = explain(cell, inputs, lengths, state, dtype, **options)
    assert explanation.planned, explanation.reason
    for direction in (explanation.forward, explanation.again, explanation.backward):
        assert direction is None or direction.emitter == "c++", dict(direction.passed_over).get("c++")
    assert explanation.emitter == "c++"


def drawn(value: Value, rows: int) -> Tensor:
    """Random numbers for a value with so many rows: any floating-point numbers, or small whole ones."""
    shape = list(value.shape)
    if not value.shared:
        shape.insert(value.axis, rows * value.times)
    if value.dtype is torch.bool:
        return torch.rand(shape) < 0.5
    if not value.dtype.is_floating_point:
        return torch.randint(-3, 4, shape, dtype=value.dtype)
    return torch.randn(shape, dtype=torch.float64).to(value.dtype)
