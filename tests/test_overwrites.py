"""A step that overwrites what backward needs: torch's own error in training, planned where no gradient is wanted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import unspool
from tests.idioms.table import Step, vectors
from unspool.engine.reasons import Code

BATCH, STEPS = 3, 4


def _copied(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    h = h.clone()
    h.copy_(h * torch.sigmoid(cell.mixed(x, h)) + 1)  # selective state spaces keep their state so
    return h


def _added(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    h = h.clone()
    y = h * cell.mixed(x, h).tanh()
    h += y
    return h


def _a_part(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    h = h.clone()
    y = h * cell.mixed(x, h).tanh()
    h[:, 1:] = 0.5
    return y + h


def _a_view(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    y = torch.tanh(cell.mixed(x, h))
    y[:, 0].zero_()
    return y


def _of_a_function(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    y = cell.mixed(x, h).clone()
    z = _Cube.apply(y)
    y.zero_()
    return torch.tanh(z)


class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * d


OVERWRITING = {
    _copied: "h.copy_(h * torch.sigmoid(cell.mixed(x, h)) + 1)  # selective state spaces keep their state so",
    _added: "y = h * cell.mixed(x, h).tanh()",
    _a_part: "y = h * cell.mixed(x, h).tanh()",
    _a_view: "y = torch.tanh(cell.mixed(x, h))",
    _of_a_function: "z = _Cube.apply(y)",
}
"""Steps, with the line whose operand is overwritten."""


def made(step: Any) -> tuple[Step, Tensor]:
    torch.manual_seed(0)
    return Step(step).double(), vectors(BATCH, STEPS).double()


@pytest.mark.parametrize("step", OVERWRITING)
def test_in_training_it_is_refused_with_its_line(step: Any) -> None:
    reason = unspool.explain(*made(step), dtype=torch.float64).reason
    assert reason is not None
    assert reason.code is Code.OVERWRITES
    assert reason.line is not None
    assert reason.line.text == OVERWRITING[step]
    assert "Compute a new tensor" in (reason.advice or "")


@pytest.mark.parametrize("step", OVERWRITING)
def test_backward_raises_what_torch_raises(step: Any) -> None:
    cell, inputs = made(step)
    with pytest.warns(unspool.PerformanceWarning, match="that backward needs as it was"):
        outputs, _ = unspool.dynamic_rnn(cell, inputs, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.sum().backward()


@pytest.mark.parametrize("step", OVERWRITING)
def test_without_gradients_it_is_planned_and_equals_the_loop(step: Any) -> None:
    cell, inputs = made(step)
    with torch.no_grad(), unspool.strict():
        found = unspool.dynamic_rnn(cell, inputs, dtype=torch.float64)
        outputs, state = unspool.static_rnn(cell, list(inputs.unbind(1)), dtype=torch.float64)
    # The same operations in the same order, but for sums of seven products.
    torch.testing.assert_close(found, (torch.stack(outputs, 1), state), rtol=0, atol=1e-14)
