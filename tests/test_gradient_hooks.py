"""A step that hooks onto gradients runs in the plain loop, where hooks see what they are meant to see."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import register_multi_grad_hook

from tests.row_steps import Step, planned, rows_of
from unspool import dynamic_rnn
from unspool.engine.execute import plain
from unspool.engine.reasons import CannotPlanError


def clamp(gradient: Tensor) -> Tensor:
    return gradient.clamp(-0.1, 0.1)


def on_the_state(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    """Which sees the gradient through this step and through the output before it."""
    if h.requires_grad:
        h.register_hook(clamp)
    return torch.tanh(x + h @ cell.w)


def on_the_inputs(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    x.register_hook(clamp)
    return torch.tanh(x + h @ cell.w)


def on_a_weight(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    cell.b.register_hook(lambda gradient: gradient / 2)
    return torch.tanh(x + h @ cell.w + cell.b)


def on_a_weight_after_backward(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    cell.b.register_post_accumulate_grad_hook(lambda weight: None)
    return torch.tanh(x + h @ cell.w + cell.b)


def on_something_between(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    y = x + h @ cell.w
    y.register_hook(clamp)
    return torch.tanh(y)


def on_the_result(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    """Which sees the gradient of the output and of all later steps."""
    y = torch.tanh(x + h @ cell.w)
    y.register_hook(clamp)
    return y


def on_a_node(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    y: Any = torch.tanh(x + h @ cell.w)
    y.grad_fn.register_hook(lambda given, _: tuple(clamp(each) for each in given))
    return y


def on_several(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    y = torch.tanh(x + h @ cell.w)
    register_multi_grad_hook([y], lambda gradients: None)
    return y


def retained(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    y = x + h @ cell.w
    y.retain_grad()
    return torch.tanh(y)


def whatever_happens(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    with contextlib.suppress(Exception):
        h.register_hook(clamp)
    return torch.tanh(x + h @ cell.w)


HOOKING: dict[Callable[..., Any], str] = {
    on_the_state: "register_hook, .*in `h.register_hook",
    on_the_inputs: "register_hook, .*in `x.register_hook",
    on_a_weight: "register_hook, .*in `cell.b.register_hook",
    on_a_weight_after_backward: "register_post_accumulate_grad_hook, .*in `cell.b",
    on_something_between: "register_hook, .*in `y.register_hook",
    on_the_result: "register_hook, .*in `y.register_hook",
    on_a_node: "grad_fn, .*in `y.grad_fn",
    on_several: "grad_fn, .*in `register_multi_grad_hook",
    retained: "retain_grad, .*in `y.retain_grad",
    whatever_happens: "register_hook, .*in `h.register_hook",
}


@pytest.mark.parametrize("step", HOOKING)
def test_a_step_that_hooks_onto_gradients_runs_in_the_plain_loop(step: Callable[..., Any]) -> None:
    """With the reason and the line, and with the plain loop's gradients, to the bit."""
    with pytest.raises(CannotPlanError, match=f"the step uses {HOOKING[step]}"):
        planned(Step(step))

    def gradients(run: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(1)
        cell = Step(step)  # a new one: hooks on weights stay
        x, h = rows_of(3, 4).requires_grad_(), rows_of(4).requires_grad_()
        outputs, state = run(cell, x, h)
        loss = outputs.sin().sum() + 3 * state.cos().sum()
        return [outputs, *torch.autograd.grad(loss, [x, h, *cell.parameters()], materialize_grads=True)]

    found = gradients(lambda cell, x, h: dynamic_rnn(cell, x, initial_state=h, time_major=True))
    expected = gradients(lambda cell, x, h: plain.run(cell, x, None, h, torch.float64))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_hooks_see_every_step() -> None:
    seen: list[float] = []

    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        y = torch.tanh(x + h)
        y.register_hook(lambda gradient: seen.append(float(gradient.sum())))
        return y

    outputs, _ = dynamic_rnn(Step(step), rows_of(5, 2).requires_grad_(), initial_state=rows_of(2), time_major=True)
    outputs[-1].sum().backward()
    assert len(seen) == 5
    assert seen[0] == 8.0


def test_a_step_that_hooks_only_where_there_are_gradients_is_planned_without() -> None:
    cell = Step(on_the_state)
    with torch.no_grad():
        planned(cell)


def test_a_hook_on_a_weight_that_the_caller_made_sees_its_whole_gradient() -> None:
    """It is no part of the step: a plan hands over one gradient, as the plain loop does."""
    torch.manual_seed(0)
    cell, seen = Step(lambda cell, x, h: torch.tanh(x + h @ cell.w)), list[Tensor]()
    cell.w.register_hook(lambda gradient: seen.append(gradient) or gradient / 2)
    x, h = rows_of(3, 4).requires_grad_(), rows_of(4)
    planned(cell)
    for outputs, _ in (
        dynamic_rnn(cell, x, initial_state=h, time_major=True),
        plain.run(cell, x, None, h, torch.float64),
    ):
        seen += torch.autograd.grad(outputs.sin().sum(), [cell.w])
    assert len(seen) == 4
    torch.testing.assert_close(seen[:2], seen[2:], rtol=1e-10, atol=1e-12)
