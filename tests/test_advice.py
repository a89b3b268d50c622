"""A cell without a plan is told why, and what to change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from torch import Tensor, nn

import unspool
from tests.explaining import explain_user_cell
from unspool import LSTMCell, dynamic_rnn, explain
from unspool.engine.explain.advice import ADVICE
from unspool.engine.reasons import Code


@pytest.mark.parametrize(
    ("name", "reason", "change"),
    [
        ("branching", "control flow or shapes depend on the values", "torch.where"),
        ("clockwork", "the step changes the cell: time", "Carry what changes in the state"),
        ("locked_dropout", "the step changes the cell: mask", "start_sequence()"),
    ],
)
def test_an_unplanned_cell_is_told_why_and_what_to_change(name: str, reason: str, change: str) -> None:
    explanation = explain_user_cell(name)
    assert not explanation.planned
    assert explanation.reason is not None
    assert reason in str(explanation.reason)
    assert explanation.advice is not None
    assert change in explanation.advice
    assert explanation.forward is explanation.backward is explanation.memory is explanation.emitter is None
    assert explanation.products == explanation.lines == ()
    text = " ".join(str(explanation).split())
    assert "runs in the plain loop" in text
    assert change in text


class Mixing(unspool.RNNCell):
    """A cell with whatever step it is given."""

    def __init__(self, step: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.state_size = self.output_size = 3
        self.step = step

    def forward(self, x: Tensor, h: Tensor) -> Any:
        h = self.step(x, h)
        return h, h


@pytest.mark.parametrize(
    ("step", "change"),
    [
        (lambda x, h: x + h - h.mean(0), "every row of the batch by itself"),
        (lambda x, h: x + h.flip(0), "every row of the batch by itself"),
        (lambda x, h: x + h / len(h), "never len(x)"),
        (lambda x, h: x + h + torch.rand(3), "torch.rand_like"),
        (lambda x, h: x + h.cumsum(0), "every row of the batch by itself"),
        (lambda x, h: x + torch.from_numpy(h.detach().numpy()), "no NumPy"),
    ],
    ids=["mean", "flip", "len", "rand", "cumsum", "numpy"],
)
def test_advice_fits_the_step(step: Callable[[Tensor, Tensor], Tensor], change: str) -> None:
    explanation = explain(Mixing(step), torch.zeros(2, 5, 3), dtype=torch.float32)
    assert explanation.advice is not None, explanation.reason
    assert change in explanation.advice, explanation.reason


def test_of_what_a_step_writes_only_what_it_never_reads_is_named() -> None:
    class Attends(Mixing):
        def forward(self, x: Tensor, h: Tensor) -> Any:
            self.place = h  # written before it is read: scratch
            self.weights = torch.softmax(x + self.place, 1)  # for a plot
            weights = torch.softmax(x + self.place, 1)
            return weights, self.place + weights

    explanation = explain(Attends(lambda x, h: h), torch.zeros(2, 5, 3), dtype=torch.float32)
    assert explanation.reason is not None
    assert explanation.reason.code is Code.WRITES
    assert "the step writes weights, and never reads it" in explanation.reason.message
    assert "Return it as an output" in (explanation.advice or "")


class Late(Mixing):
    """Makes its weights when it first sees an input."""

    def __init__(self, kind: str) -> None:
        super().__init__(lambda x, h: h)
        self.kind, self.layer, self.made = kind, None, dict[int, Any]()

    def forward(self, x: Tensor, h: Tensor) -> Any:
        if self.kind == "layer" and self.layer is None:
            self.layer = nn.Linear(x.shape[1], 3)
        if self.kind == "parameter" and x.shape[1] not in self.made:
            self.made[x.shape[1]] = nn.Parameter(torch.randn(x.shape[1], 3))
            self.register_parameter(f"weight_{x.shape[1]}", self.made[x.shape[1]])
        mixed = x @ self.made[x.shape[1]] if self.layer is None else self.layer(x)
        h = torch.tanh(mixed + h)
        return h, h


@pytest.mark.parametrize("kind", ["layer", "parameter"])
def test_weights_that_the_first_step_makes_are_lazy_and_no_surprise(kind: str) -> None:
    cell, inputs = Late(kind), torch.randn(2, 5, 4)
    reason = explain(cell, inputs, dtype=torch.float32).reason
    assert reason is not None
    assert reason.code is Code.LAZY
    assert reason.message.endswith("is a weight that the step makes in its first run")
    first = dynamic_rnn(cell, inputs, dtype=torch.float32)  # without a warning, which would be an error
    with unspool.strict():
        second = dynamic_rnn(cell, inputs, dtype=torch.float32)
    # Four products and a tanh in float32, five times over.
    torch.testing.assert_close(first, second, rtol=0, atol=1e-6)


def test_hooks_and_lazy_layers_are_told_apart() -> None:
    class Lazy(unspool.RNNCell):
        state_size = output_size = 3

        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.LazyLinear(3)

        def forward(self, x: Tensor, h: Tensor) -> Any:
            h = torch.tanh(self.mix(x) + h)
            return h, h

    cell, inputs = Lazy(), torch.zeros(2, 5, 4)
    assert "lazy" in str(explain(cell, inputs, dtype=torch.float32).reason)
    dynamic_rnn(cell, inputs, dtype=torch.float32)
    assert explain(cell, inputs, dtype=torch.float32).planned
    cell.mix.register_forward_hook(lambda *_: None)
    assert "Remove the hooks" in (explain(cell, inputs, dtype=torch.float32).advice or "")


def test_nothing_to_run_needs_no_advice() -> None:
    explanation = explain(LSTMCell(8), torch.zeros(2, 5, 3), [0, 0], dtype=torch.float32)
    assert str(explanation.reason) == "there is nothing to run"
    assert explanation.advice is None
    assert "What to change" not in str(explanation)
    ElementTree.fromstring(explanation.svg())


def test_every_kind_of_reason_has_its_advice() -> None:
    needs_none = {Code.NOTHING_TO_RUN, Code.ASKED, Code.DECODER}
    assert {code for code in Code if code.name not in ADVICE} == needs_none
    assert {name for name in ADVICE if name not in Code.__members__} == set()


def _adds_to_all(x: Tensor, h: Tensor) -> Tensor:
    if x.sum() > 0:
        h = h + 1
    return h


def _returns(x: Tensor, h: Tensor) -> Tensor:
    if not torch.all(x > 0):
        return h
    return x + 1


def _chooses(x: Tensor, h: Tensor) -> Tensor:
    if (h > 1).any().item():
        (h,) = (h / 2,)
        x = x + 1
    else:
        x = x - 1
    return x + h


def _doubles(x: Tensor, h: Tensor) -> Tensor:
    h = h + 1
    if (x > 0).any():
        h *= 2
    else:
        x = x - 1
    return x + h


@pytest.mark.parametrize(
    ("step", "form"),
    [
        (_adds_to_all, "`h = torch.where(x.sum() > 0, h + 1, h)`, with a condition for each row in the place of"),
        (_returns, "`return torch.where(x > 0, x + 1, h)`."),
        (_doubles, "`h = torch.where(x > 0, h * 2, h); x = torch.where(x > 0, x, x - 1)`."),
        (_chooses, None),
    ],
)
def test_a_branch_is_told_as_a_selection(step: Any, form: str | None) -> None:
    reason = explain(Mixing(step), torch.randn(2, 3, 3), dtype=torch.float32).reason
    assert reason is not None
    assert reason.code is Code.VALUES
    assert reason.advice is not None
    assert ("Where every row may decide" in reason.advice) == (form is not None)
    assert form is None or form in reason.advice
