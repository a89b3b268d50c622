"""Cells that nobody changes, by the caller's word: what one call found out serves all like it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

import unspool
from unspool.engine import Options, Request, entry, run
from unspool.structure import flatten


def ran(cell: Any, inputs: torch.Tensor, *, fixed: bool = True, **options: Any) -> list[torch.Tensor]:
    """Outputs, the final state, and gradients by inputs and weights."""
    state = cell.zero_state(inputs.shape[1], inputs.dtype)
    request = Request(cell, inputs, None, state, inputs.dtype, Options(**options), fixed=fixed)
    results = flatten(entry.run(request, "rnn"))
    sources = [each for each in (inputs, *cell.parameters()) if each.requires_grad]
    ends = [each for each in results if each.requires_grad]
    grads = torch.autograd.grad(ends, sources, [torch.ones_like(each) for each in ends]) if ends else ()
    return [*results, *grads]


def prepared(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The requests for which a call is prepared from now on."""
    seen: list[Request] = []
    prepare = run.prepare
    monkeypatch.setattr(run, "prepare", lambda request, scope: seen.append(request) or prepare(request, scope))
    return seen


def test_calls_that_look_alike_are_prepared_once_and_use_the_weights_of_now(monkeypatch: pytest.MonkeyPatch):
    cell, x = unspool.GRUCell(4, input_size=3), torch.randn(5, 2, 3, requires_grad=True)
    seen = prepared(monkeypatch)
    for _ in range(3):
        torch.testing.assert_close(ran(cell, x), ran(cell, x, fixed=False), rtol=0, atol=0)
        with torch.no_grad():
            for weight in cell.parameters():
                weight.mul_(1.5)
    assert [each.fixed for each in seen] == [True, False, False, False]


@pytest.mark.parametrize(
    "other",
    [
        lambda cell: torch.randn(6, 2, 3, requires_grad=True),
        lambda cell: torch.randn(5, 3, 3, requires_grad=True),
        lambda cell: torch.randn(5, 2, 3),
    ],
    ids=["steps", "rows", "no_gradient"],
)
def test_calls_that_look_different_are_prepared_themselves(other: Any, monkeypatch: pytest.MonkeyPatch):
    cell = unspool.GRUCell(4, input_size=3)
    ran(cell, torch.randn(5, 2, 3, requires_grad=True))
    seen, x = prepared(monkeypatch), other(cell)
    found = ran(cell, x)
    assert len(seen) == 1
    torch.testing.assert_close(found, ran(cell, x, fixed=False), rtol=0, atol=0)


def test_a_weight_that_gets_no_gradient_any_more_gets_none():
    cell, x = unspool.GRUCell(4, input_size=3), torch.randn(5, 2, 3)
    everything = ran(cell, x)
    next(iter(cell.parameters())).requires_grad_(False)
    assert len(ran(cell, x)) == len(everything) - 1


def test_draws_are_never_repeated():
    cell = unspool.DropoutWrapper(unspool.GRUCell(40, input_size=3), output_keep_prob=0.5)
    x = torch.randn(5, 2, 3)
    assert (ran(cell, x)[0] != ran(cell, x)[0]).any()


def test_gradients_of_gradients_of_a_repeated_call():
    cell, x = unspool.BasicRNNCell(4, input_size=3), torch.randn(5, 2, 3, requires_grad=True)

    def slopes(fixed: bool) -> torch.Tensor:
        request = Request(cell, x, None, cell.zero_state(2, x.dtype), x.dtype, fixed=fixed)
        (slope,) = torch.autograd.grad(flatten(entry.run(request, "rnn"))[0].sum(), x, create_graph=True)
        return torch.autograd.grad((slope**2).sum(), x)[0]

    slopes(True)
    torch.testing.assert_close(slopes(True), slopes(False))


def test_nobody_keeps_a_cell_alive_that_was_called():
    cell = unspool.GRUCell(4, input_size=3)
    ran(cell, torch.randn(5, 2, 3, requires_grad=True))
    ran(cell, torch.randn(5, 2, 3, requires_grad=True))
    gone = weakref.ref(cell)
    del cell
    gc.collect()
    assert gone() is None


def test_what_looks_at_every_operation_sees_a_repeated_call():
    from torch.utils.flop_counter import FlopCounterMode

    cell, x = unspool.GRUCell(4, input_size=3), torch.randn(5, 2, 3)
    for _ in range(2):
        ran(cell, x)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        ran(cell, x)
    assert counter.get_total_flops() > 0
