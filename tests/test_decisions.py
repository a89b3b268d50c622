"""Steps that ask tensors for a yes or no: checks are left out of the plan, and still fail; branches are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

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
