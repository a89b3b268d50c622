"""Random numbers of a step: drawn as the plain loop draws them, and the same ones wherever the loop runs again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.row_steps import UNITS, Step, rows_of
from unspool import Checkpoint, Keep, Recompute, explain
from unspool.engine import Options, Request
from unspool.engine.execute.autograd import run_call
from unspool.engine.run import prepare

STEPS = 7
POLICIES = [Keep(), Recompute(), *(Checkpoint(every=every) for every in (1, 2, 3, 100))]


def dropped_and_noisy(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    """Backward needs one of three draws, and no result needs the last but one."""
    kept = F.dropout(h, 0.3)
    noise = 0.1 * torch.rand_like(h)
    torch.rand_like(h)
    return torch.tanh(x + kept @ cell.w + cell.b) + noise + 0.1 * torch.randn_like(h)


DRAWING: dict[str, Callable[..., Any]] = {
    "noise that backward does not need": lambda cell, x, h: torch.tanh(x + h @ cell.w) + 0.1 * torch.rand_like(h),
    "noise in the output alone": lambda cell, x, h: (torch.tanh(x + h) + torch.rand_like(h), torch.sin(h + x)),
    "noise that backward needs": lambda cell, x, h: torch.tanh(x + h * torch.rand_like(h)),
    "dropout": lambda cell, x, h: torch.tanh(x + F.dropout(h, 0.5) @ cell.w),
    "dropout beside noise": dropped_and_noisy,
}


@pytest.mark.parametrize("lengths", [None, [7, 0, 3], [0, 2, 7]], ids=str)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("name", DRAWING)
def test_every_policy_draws_what_the_plain_loop_draws(name: str, policy: Any, lengths: Any) -> None:
    """Outputs, final states and every gradient, for the rows that run; in float64, up to the order of sums."""
    torch.manual_seed(0)
    cell = Step(DRAWING[name])
    x, h = rows_of(STEPS, 3).requires_grad_(), rows_of(3).requires_grad_()
    sources = [x, h, *cell.parameters()]

    def with_gradients(results: Any) -> list[Tensor]:
        loss = sum((each * each.detach().cos()).sum() for each in results)
        return [*results, *torch.autograd.grad(loss, sources, materialize_grads=True)]

    given = None if lengths is None else torch.tensor(lengths)
    for chunk in (1, 2, 7):
        options = Options(chunk, memory=policy)
        call, tensors = prepare(Request(cell, x, given, h, torch.float64, options))
        assert call.replay is not None
        torch.manual_seed(3)
        found = with_gradients(run_call(call, tensors))
        torch.manual_seed(3)
        expected = with_gradients(call.replay(tensors))
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_what_a_checkpoint_keeps_of_draws_is_told() -> None:
    """All of them: the loop runs again between checkpoints."""
    cell = Step(DRAWING["noise that backward does not need"])
    x = rows_of(3, STEPS).requires_grad_()
    told = explain(cell, x, initial_state=rows_of(3), memory=Checkpoint(every=STEPS)).memory
    assert told is not None
    assert told.chosen.what == "all states at 1 step, 1 draw"
    assert told.chosen.bytes == 3 * UNITS * 8 + 3 * STEPS * UNITS * 8
