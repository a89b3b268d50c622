"""Steps as people write them: planned, and equal to the plain loop with every gradient, with and without lengths."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import unspool
from tests.comparison import check, wanting_gradients
from tests.idioms import IDIOMS, REFUSED
from tests.idioms.table import DEPTH, UNITS, Step
from unspool.engine.reasons import Code
from unspool.structure import map_structure

BATCH, STEPS = 4, 5
LENGTHS = [5, 0, 3, 1]

EACH = [(name, dtype) for name, entry in IDIOMS.items() for dtype in entry.dtypes]


@functools.cache
def made(name: str, dtype: torch.dtype) -> tuple[Any, Any]:
    """A cell and inputs for it, once for all tests."""
    torch.manual_seed(0)
    entry = IDIOMS[name]
    return entry.make().to(dtype), entry.inputs(BATCH, STEPS).to(dtype)


def state_of(cell: Any, dtype: torch.dtype) -> Any:
    torch.manual_seed(1)
    return map_structure(lambda zeros: zeros + torch.randn_like(zeros), cell.zero_state(BATCH, dtype))


@pytest.mark.parametrize(("name", "dtype"), EACH)
def test_it_is_planned(name: str, dtype: torch.dtype) -> None:
    cell, inputs = made(name, dtype)
    explanation = unspool.explain(cell, inputs, dtype=dtype)
    assert explanation.planned, explanation.reason


WITHOUT_FORM = ("avg_pool2d", "max_pool2d", "_fft_r2c", "view_as_complex", "complex128")
"""What keeps a step from being compiled."""


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "dtype"), EACH)
def test_it_is_compiled(name: str, dtype: torch.dtype) -> None:
    cell, inputs = made(name, dtype)
    explanation = unspool.explain(cell, inputs, dtype=dtype)
    for direction in (explanation.forward, explanation.backward):
        if direction is not None and direction.emitter != "c++":
            assert any(each in dict(direction.passed_over)["c++"] for each in WITHOUT_FORM), direction.passed_over


@pytest.mark.parametrize(("name", "dtype"), EACH)
def test_it_equals_the_plain_loop(name: str, dtype: torch.dtype) -> None:
    cell, inputs = made(name, dtype)
    for lengths in (None,) if IDIOMS[name].draws else (None, LENGTHS):
        check(cell, dtype, lengths, wanting_gradients(inputs), wanting_gradients(state_of(cell, dtype)))


@pytest.mark.parametrize("name", REFUSED)
def test_a_branch_that_decides_for_all_rows_is_named(name: str) -> None:
    entry, line = REFUSED[name]
    cell, inputs = entry.make().double(), entry.inputs(BATCH, STEPS).double()
    reason = unspool.explain(cell, inputs, dtype=torch.float64).reason
    assert reason is not None
    assert reason.line is not None
    assert reason.line.text == line
    assert "torch.where" in (reason.advice or "")
    check(cell, torch.float64, LENGTHS, wanting_gradients(inputs), wanting_gradients(state_of(cell, torch.float64)))


def test_a_spectral_norm_that_iterates_at_every_step_is_named() -> None:
    small = parametrizations.spectral_norm(nn.Linear(UNITS, UNITS))
    cell = Step(lambda cell, x, h: torch.tanh(cell.mixed(x, h) + cell.small(h)), small=small)
    reason = unspool.explain(cell, torch.randn(BATCH, STEPS, DEPTH), dtype=torch.float32).reason
    assert reason is not None
    assert reason.code is Code.CHANGES
    assert "small.parametrizations.weight.0._u" in reason.message


def test_an_instance_norm_that_counts_is_named() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(cell.mixed(x, h) + cell.norm(h[:, None])[:, 0])

    cell = Step(step, norm=nn.InstanceNorm1d(1, track_running_stats=True))
    inputs = torch.randn(BATCH, STEPS, DEPTH)
    reason = unspool.explain(cell, inputs, dtype=torch.float32).reason
    assert reason is not None
    assert reason.code is Code.CHANGES
    assert reason.line is not None
    assert "cell.norm(h[:, None])" in reason.line.text
    assert unspool.explain(cell.eval(), inputs, dtype=torch.float32).planned
