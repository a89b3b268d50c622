"""What compiled loops compute beside what the interpreter does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from unspool import explain

LIMITS = {torch.float64: 1e-10, torch.float32: 2e-6}
"""How much results may differ, by `difference`: some ten to some thousand roundings."""


@contextmanager
def interpreter() -> Iterator[None]:
    """Cores that are chosen in here are interpreted."""
    before = os.environ.get("UNSPOOL_EMIT")
    os.environ["UNSPOOL_EMIT"] = "interpreted"
    try:
        yield
    finally:
        del os.environ["UNSPOOL_EMIT"]
        if before is not None:
            os.environ["UNSPOOL_EMIT"] = before


def difference(found: Tensor, expected: Tensor, least: float = 0.0) -> float:
    """The largest difference of two elements, relative to the largest element there is.

    Not to each element: a small one may be what is left of large terms that cancel, and has their rounding. For the same
    reason, elements count as being of size `least` at least. Infinities and NaN must be in the same places.
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
    size = torch.where(ordinary, expected, 0).abs()
    largest = max(size.max().item() if size.numel() else 0.0, least)
    return apart.max().item() / largest if apart.any() else 0.0


def assert_equals_interpreter(found: dict[str, Any], expected: dict[str, Any], limit: float | None = None) -> None:
    """Asserts that results are the same by name, up to rounding.

    Gradients may cancel altogether, as one of a bias in front of a softmax does; then what they are left with is measured
    by the other gradients.
    """
    assert found.keys() == expected.keys()
    # A cell that carries something in float32 computes through it, forwards and backwards: its rounding is everywhere.
    single = any(leaf.dtype == torch.float32 for leaf in expected.values())
    limit = limit or LIMITS[torch.float32 if single else torch.float64]
    gradients = [value for name, value in expected.items() if name.startswith("gradient")]
    largest = max((value[value.isfinite()].abs().max().item() for value in gradients if value.isfinite().any()), default=0)
    for name, value in expected.items():
        least = 1e-2 * largest if name.startswith("gradient") else 0.0
        off = difference(found[name], value, least)
        assert off <= limit, f"{name} differs by {off}"


def assert_compiled(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype, **options: Any) -> None:
    """Asserts that a run would be by compiled loops, forwards and backwards."""
    explanation = explain(cell, inputs, lengths, state, dtype, **options)
    assert explanation.planned, explanation.reason
    assert explanation.forward is not None
    for direction in (explanation.forward, explanation.again, explanation.backward):
        assert direction is None or direction.emitter == "c++", dict(direction.passed_over).get("c++")
    assert explanation.emitter == "c++"
