"""Steps that ask tensors for a yes or no: checks are left out of the plan, and still fail; branches are refused."""

from __future__ import annotations

import bdb
import builtins
import itertools
import pdb
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unspool
from tests.idioms.table import DEPTH, Step
from unspool.engine.reasons import Code

INPUTS = torch.randn(2, 3, DEPTH)


def reason_of(step: Any) -> Any:
    return unspool.explain(Step(step), INPUTS, dtype=torch.float32).reason


def within_bounds(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    if x.abs().max() > 100:
        raise ValueError("x is out of bounds")
    return torch.tanh(cell.mixed(x, h))


def test_a_check_that_fails_at_the_first_step_fails() -> None:
    cell = Step(within_bounds)
    with pytest.raises(ValueError, match="x is out of bounds"):
        unspool.dynamic_rnn(cell, INPUTS + 1000, dtype=torch.float32)
    outputs, _ = unspool.dynamic_rnn(cell, INPUTS, dtype=torch.float32)
    expected, _ = unspool.static_rnn(cell, list(INPUTS.unbind(1)), dtype=torch.float32)
    torch.testing.assert_close(outputs, torch.stack(expected, 1))


def test_padding_is_not_checked() -> None:
    padded = INPUTS.clone()
    padded[1] = 1000
    unspool.dynamic_rnn(Step(within_bounds), padded, [3, 0], dtype=torch.float32)


def test_checking_draws_nothing() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        assert (x == x).all()
        return torch.tanh(cell.mixed(x, h) + torch.rand_like(h))

    cell = Step(step)
    torch.manual_seed(0)
    first, _ = unspool.dynamic_rnn(cell, INPUTS, dtype=torch.float32)  # which looks at the values
    torch.manual_seed(0)
    second, _ = unspool.dynamic_rnn(cell, INPUTS, dtype=torch.float32)
    assert torch.equal(first, second)


def _debugs(h: Tensor) -> None:
    if torch.isnan(h).any():
        pdb.Pdb().set_trace()  # not by `pdb.set_trace`, which pytest has replaced


def _breaks(h: Tensor) -> None:
    if torch.isnan(h).any():
        breakpoint()


def _exits(h: Tensor) -> None:
    if torch.isnan(h).any():
        sys.exit("a state that is no number")


def _asks(h: Tensor) -> None:
    if torch.isnan(h).any():
        input("a state that is no number; go on?")


@pytest.mark.parametrize("check", [_debugs, _breaks, _exits, _asks])
def test_a_check_that_stops_the_program_stops_it_only_where_it_fails(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*args: Any, **kwargs: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(bdb.Bdb, "set_trace", stopped)
    monkeypatch.setattr(sys, "breakpointhook", stopped)
    monkeypatch.setattr(builtins, "input", stopped)

    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        check(h + x[:, :1])
        return torch.tanh(cell.mixed(x, h))

    cell = Step(step)
    with pytest.raises(SystemExit):
        unspool.dynamic_rnn(cell, INPUTS * torch.nan, dtype=torch.float32)
    with unspool.strict():
        unspool.dynamic_rnn(cell, INPUTS, dtype=torch.float32)


def test_several_checks_in_a_row() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        for each in (x, h, x - h[:, :DEPTH]):
            assert torch.isfinite(each).all()
            if each.isnan().any().item():
                raise ValueError("a number that is none")
        assert not torch.equal(x, x + 1)
        return torch.tanh(cell.mixed(x, h))

    assert reason_of(step) is None


def test_a_branch_is_refused_where_it_is_taken() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        assert torch.isfinite(x).all()
        if x.sum() > 0:
            h = h + 1
        return torch.tanh(cell.mixed(x, h))

    reason = reason_of(step)
    assert reason.code is Code.VALUES
    assert reason.line.text == "if x.sum() > 0:"


def test_a_way_that_cannot_be_traced_is_no_check() -> None:
    """It might be taken: what cannot be seen must not be taken for an error."""

    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        if x.sum() > 0:
            return torch.tanh(cell.mixed(x, h)) + x[x > 0].sum()
        return torch.tanh(cell.mixed(x, h))

    assert reason_of(step).code is Code.VALUES


def test_the_reason_is_the_error_behind_the_checks() -> None:
    """Not an assertion that fails at one of its answers."""

    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        assert torch.isfinite(x).all()
        assert not torch.isnan(h).any()
        return torch.tanh(cell.mixed(x, h)).reshape(-1, 7)

    reason = reason_of(step)
    assert reason.code is Code.NOT_TRACED
    assert reason.line.text == "return torch.tanh(cell.mixed(x, h)).reshape(-1, 7)"


def test_a_loop_until_something_is_small_is_refused_in_time() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        while (h.abs() > 1).any():
            h = h / 2
        return torch.tanh(cell.mixed(x, h))

    reason = reason_of(step)
    assert reason.code is Code.VALUES
    assert reason.line.text == "while (h.abs() > 1).any():"


def test_a_check_of_one_number_by_hand_is_refused() -> None:
    """Only a yes or no can be answered without values."""

    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        assert float(x.sum()) < 1e9
        return torch.tanh(cell.mixed(x, h))

    assert reason_of(step).code is Code.VALUES


class Gridded(unspool.RNNCell):
    """Euler steps along a grid of times, as solvers of differential equations take them."""

    grid: Tensor

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.state_size = self.output_size = 3
        self.kind, self.field = kind, nn.Linear(3, 3, dtype=torch.float64)
        self.times = torch.tensor([0.0, 0.1, 0.3], dtype=torch.float64)
        self.register_buffer("grid", self.times.clone())

    def forward(self, x: Tensor, h: Tensor) -> Any:
        literal = torch.tensor([0.0, 0.1, 0.3], dtype=torch.float64)
        grid = {"attribute": self.times, "buffer": self.grid, "literal": literal}[self.kind]
        solution = torch.empty(3, *h.shape, dtype=h.dtype)
        solution[0] = h
        for k, (t0, t1) in enumerate(itertools.pairwise(grid), 1):
            if t1 > t0:
                h = h + (t1 - t0) * torch.tanh(self.field(h))
            solution[k] = h
            if t1 == grid[-1]:
                break
        h = torch.tanh(x + solution[-1])
        return h, h


@pytest.mark.parametrize("kind", ["attribute", "buffer", "literal"])
def test_what_constants_decide_is_planned_and_equals_the_loop(kind: str) -> None:
    torch.manual_seed(0)
    cell, inputs = Gridded(kind), torch.randn(2, 4, 3, dtype=torch.float64)
    for _ in range(2):
        with unspool.strict():
            found = unspool.dynamic_rnn(cell, inputs, dtype=torch.float64)
        outputs, state = unspool.static_rnn(cell, list(inputs.unbind(1)), dtype=torch.float64)
        expected = (torch.stack(outputs, 1), state)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
        ours, theirs = (torch.autograd.grad(run[0].sin().sum(), list(cell.parameters())) for run in (found, expected))
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["attribute", "buffer"])
def test_other_values_of_constants_decide_anew(kind: str) -> None:
    """Of the same tensor, changed in place: no guard of shapes or identities sees it."""
    torch.manual_seed(0)
    cell, inputs = Gridded(kind), torch.randn(2, 4, 3, dtype=torch.float64)
    grid = cell.times if kind == "attribute" else cell.grid
    for values in ([0.0, 0.1, 0.3], [0.0, 0.0, 0.2], [0.0, 0.1, 0.3], [0.5, 0.2, 0.3]):
        grid.copy_(torch.tensor(values))
        with unspool.strict():
            found, _ = unspool.dynamic_rnn(cell, inputs, dtype=torch.float64)
        outputs, _ = unspool.static_rnn(cell, list(inputs.unbind(1)), dtype=torch.float64)
        torch.testing.assert_close(found, torch.stack(outputs, 1), rtol=1e-10, atol=1e-12)


class Counted(unspool.RNNCell):
    """Reads numbers from buffers: how many units there are, how often, how much."""

    units: Tensor
    gains: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = 4
        self.field = nn.Linear(4, 4, dtype=torch.float64)
        self.register_buffer("units", torch.tensor(2))
        self.register_buffer("gains", torch.tensor([0.5, -2.0]))

    def forward(self, x: Tensor, h: Tensor) -> Any:
        kept = self.field(h)[:, : self.units]  # a slice by a tensor
        for k in range(self.units):
            kept = kept + float(self.gains[k]) * x[:, k : k + 1]
        first, second = self.gains.tolist()
        if self.units.item() > 2:
            kept = kept * second
        rest = torch.narrow(h, 1, int(self.units), 4 - int(self.units)).clone()
        rest[:, self.units - 2 :] *= first
        h = torch.tanh(torch.cat([kept, rest], 1))
        return h, h


def test_numbers_read_from_constants_are_numbers_as_long_as_these_are_what_they_are() -> None:
    torch.manual_seed(0)
    cell, inputs = Counted(), torch.randn(2, 4, 4, dtype=torch.float64)
    for units, gain in ((2, 0.5), (2, 0.7), (1, 0.7), (2, 0.5)):
        cell.units.fill_(units)
        cell.gains[0] = gain
        with unspool.strict():
            found, _ = unspool.dynamic_rnn(cell, inputs, dtype=torch.float64)
        outputs, _ = unspool.static_rnn(cell, list(inputs.unbind(1)), dtype=torch.float64)
        expected = torch.stack(outputs, 1)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
        ours, theirs = (torch.autograd.grad(run.sin().sum(), list(cell.parameters())) for run in (found, expected))
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def _sliced_by_the_number_of_rows(x: Tensor, h: Tensor) -> Any:
    h = torch.tanh(x + h)
    h = torch.cat([h[:, : torch.arange(x.shape[0]).max()], h], 1)[:, :3]
    return h, h


def _by_the_number_of_rows(x: Tensor, h: Tensor) -> Any:
    h = torch.tanh(x + h) if torch.arange(x.shape[0]).sum() > 2 else x
    return h, h


def _by_what_was_written(x: Tensor, h: Tensor) -> Any:
    largest = torch.zeros(1, dtype=x.dtype)
    part = largest[0]
    part.copy_(x.max())
    h = torch.tanh(x + h) if largest.sum() > 0 else x
    return h, h


def _sliced_by_what_a_row_says(x: Tensor, h: Tensor) -> Any:
    h = torch.tanh(x + h)
    h = torch.cat([h[:, : x.argmax()], h], 1)[:, :3]
    return h, h


@pytest.mark.parametrize(
    "step",
    [_by_the_number_of_rows, _by_what_was_written, _sliced_by_the_number_of_rows, _sliced_by_what_a_row_says],
)
def test_what_looks_like_a_constant_but_is_none_is_refused(step: Any) -> None:
    reason = unspool.explain(unspool.cell(step), torch.ones(2, 4, 3), initial_state=torch.zeros(2, 3)).reason
    assert reason is not None
    assert reason.code in (Code.VALUES, Code.ROW_COUNT)


def test_a_weight_that_is_trained_decides_nothing() -> None:
    scale = nn.Parameter(torch.ones(()))

    def step(x: Tensor, h: Tensor) -> Any:
        h = torch.tanh(x + h) * scale if scale > 0 else x
        return h, h

    reason = unspool.explain(unspool.cell(step), torch.ones(2, 4, 3), initial_state=torch.zeros(2, 3)).reason
    assert reason is not None
    assert reason.code is Code.VALUES
