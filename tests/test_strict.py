"""Nobody slows down unknowingly: fallbacks warn once, with the line, or are errors."""

from __future__ import annotations

import logging
import sys
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unspool
from unspool import LSTMCell, PerformanceWarning, StrictError, dynamic_rnn, strict
from unspool.engine import fallbacks
from unspool.engine.execute import plain
from unspool.engine.reasons import Code
from unspool.once import Said

INPUTS = torch.zeros(2, 5, 3)


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallbacks, "_said", Said())


class Centred(unspool.RNNCell):
    """Takes the mean over the batch."""

    state_size = output_size = 3

    def forward(self, x: Tensor, h: Tensor) -> Any:
        h = torch.tanh(x + h - h.mean(0))
        return h, h


class Transformed(unspool.RNNCell):
    """Has a plan, but a step for which there is no C++."""

    state_size = output_size = 3

    def forward(self, x: Tensor, h: Tensor) -> Any:
        h = torch.tanh(x + torch.fft.fft(h).real)
        return h, h


def run(cell: Any) -> None:
    dynamic_rnn(cell, INPUTS, dtype=torch.float32)


def test_a_cell_in_the_plain_loop_warns_with_the_line_and_what_to_change() -> None:
    with pytest.warns(PerformanceWarning) as caught:
        run(Centred())
    (warning,) = caught
    assert warning.filename == __file__
    text = str(warning.message)
    assert text.startswith("Centred runs in the plain loop")
    assert "`h = torch.tanh(x + h - h.mean(0))` (test_strict.py:" in text
    assert "LayerNorm, not BatchNorm" in text


def test_the_warning_is_given_once_for_each_class_and_reason() -> None:
    with pytest.warns(PerformanceWarning):
        run(Centred())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(Centred())
        run(Centred())
    with pytest.warns(PerformanceWarning, match="Other"):
        run(type("Other", (Centred,), {})())


@pytest.mark.compiled
def test_a_core_that_is_interpreted_where_a_compiler_is_at_hand_warns() -> None:
    with pytest.warns(
        PerformanceWarning, match="Transformed is interpreted, not compiled: .*fft.* has no compiled form"
    ):
        run(Transformed())


def test_what_the_user_asked_for_is_said_in_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    cell = LSTMCell(4)
    run(cell)
    cell.register_forward_hook(lambda *_: None)
    with warnings.catch_warnings(), caplog.at_level(logging.INFO, "unspool"):
        warnings.simplefilter("error")
        run(cell)
    assert "LSTMCell runs in the plain loop, one step after another: the cell has hooks" in caplog.text


def test_strict_turns_a_fallback_into_an_error_with_its_reason() -> None:
    with strict(), pytest.raises(StrictError, match="Centred runs in the plain loop") as caught:
        run(Centred())
    reason = caught.value.reason
    assert reason.code is Code.MIXED_ROWS
    assert reason.operation == "aten.mean.dim"
    assert reason.line is not None
    assert reason.line.text == "h = torch.tanh(x + h - h.mean(0))"
    run(Centred())


def test_strict_allows_what_is_planned_and_what_has_nothing_to_run() -> None:
    with strict():
        run(LSTMCell(4))
        dynamic_rnn(LSTMCell(4), INPUTS, [0, 0], dtype=torch.float32)


def test_strict_is_an_error_for_hooks_and_interpreted_cores_too(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = LSTMCell(4)
    run(cell)
    cell.register_forward_hook(lambda *_: None)
    monkeypatch.delenv("UNSPOOL_EMIT", raising=False)
    with strict(), pytest.raises(StrictError, match="hooks"):
        run(cell)
    with strict(), pytest.raises(StrictError, match="interpreted, not compiled"):
        run(Transformed())


def test_the_environment_makes_a_whole_program_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_STRICT", "1")
    with pytest.raises(StrictError):
        run(Centred())
    with strict(False):
        run(Centred())
    monkeypatch.setenv("UNSPOOL_STRICT", "0")
    run(Centred())


def test_strict_takes_a_bool() -> None:
    with pytest.raises(TypeError, match="enabled must be True or False, but is 'yes'"), strict("yes"):  # pyright: ignore[reportArgumentType]
        pass


def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        torch.rand(3)
        raise RuntimeError("out of order")

    monkeypatch.setattr(sys.modules["unspool.engine.run"], "run_call", fail)


def test_a_plan_that_fails_alone_is_a_fault_of_the_engine_and_costs_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    class Noisy(unspool.RNNCell):
        state_size = output_size = 3

        def forward(self, x: Tensor, h: Tensor) -> Any:
            h = torch.tanh(x + h + torch.rand_like(h))
            return h, h

    torch.manual_seed(3)
    with torch.no_grad():
        expected, _ = plain.run(Noisy(), INPUTS.transpose(0, 1), None, torch.zeros(2, 3), torch.float32)
    failing(monkeypatch)
    torch.manual_seed(3)
    with pytest.warns(RuntimeWarning, match=r"the plan of .*Noisy failed .*out of order.* Please report it"):
        outputs, _ = dynamic_rnn(Noisy(), INPUTS, dtype=torch.float32)
    torch.testing.assert_close(outputs.transpose(0, 1), expected, rtol=0, atol=0)
    with strict(), pytest.raises(RuntimeError, match="out of order"):
        run(Noisy())


def test_an_error_that_the_plain_loop_shares_is_the_cells_own() -> None:
    class Lookup(unspool.RNNCell):
        state_size = output_size = 3

        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(4, 3)

        def forward(self, x: Tensor, h: Tensor) -> Any:
            h = torch.tanh(self.table(x[:, 0]) + h)
            return h, h

    with pytest.raises(IndexError, match="index out of range"):
        dynamic_rnn(Lookup(), torch.full((2, 5, 1), 9), dtype=torch.float32)
