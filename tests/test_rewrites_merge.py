"""Rewrites that merge what is left in the loop: what each changes, and what it must leave alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.rewriting import DEPTH, in_core, targets, traced, unchanged
from unspool.engine.trace.graph import ancestors, aten, calls, value
from unspool.engine.trace.rewrites import cleanup, merging, simplify
from unspool.engine.trace.trace import Trace


def test_products_of_the_same_rows_become_one() -> None:
    made = traced(lambda cell, x, h: torch.tanh(h @ cell.square) * torch.sigmoid(h @ cell.other))
    assert in_core(made, aten.mm.default) == 2
    unchanged(made, lambda made: merging.merge_products(made.graph, made.weights, made.state, made.new_state))
    assert in_core(made, aten.mm.default) == 1


def test_products_of_a_product_become_one_too() -> None:
    """A matrix of low rank, and another beside it."""

    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        low = h @ cell.square
        return torch.tanh(h @ cell.other + (low @ cell.square) * torch.sigmoid(low @ cell.other))

    made = traced(step, adjoint=False)
    assert in_core(made, aten.mm.default) == 4
    unchanged(made, lambda made: merging.merge_products(made.graph, made.weights, made.state, made.new_state))
    assert in_core(made, aten.mm.default) == 2


@pytest.mark.parametrize(
    "step",
    [
        lambda cell, x, h: torch.tanh(h @ cell.square) * torch.sigmoid(h.tanh() @ cell.other),  # of other rows
        lambda cell, x, h: torch.tanh(h @ cell.square) * (h @ (h.t() @ h)).sum(1, keepdim=True),  # no weight
        lambda cell, x, h: torch.tanh(h @ cell.square) + (x @ cell.kernel[:DEPTH]) * (x @ cell.kernel[4:]),  # before
    ],
)
def test_other_products_are_left_alone(step: Any) -> None:
    made = traced(step, adjoint=False)
    before = targets(made, aten.mm.default)
    unchanged(made, lambda made: merging.merge_products(made.graph, made.weights, made.state, made.new_state))
    assert targets(made, aten.mm.default) == before


def test_a_product_that_no_later_step_needs_is_not_merged_into_the_core() -> None:
    made = traced(lambda cell, x, h: torch.tanh(h @ cell.square), adjoint=False)
    output = made.graph.output_node()
    with made.graph.inserting_before(output):
        extra = made.graph.call_function(aten.mm.default, (made.state[0], made.weights[2]))
    extra.meta["val"] = value(calls(made.graph, aten.mm.default)[0])
    groups: Any = output.args[0]
    output.args = (([extra], *groups[1:]),)
    unchanged(made, lambda made: merging.merge_products(made.graph, made.weights, made.state, made.new_state))
    assert in_core(made, aten.mm.default) == 1
    assert extra in made.graph.nodes


def test_a_sum_of_products_becomes_one() -> None:
    made = traced(lambda cell, x, h: torch.tanh(h.tanh() @ cell.square + x[:, :1] + h.sigmoid() @ cell.other))
    assert in_core(made, aten.mm.default) == 2
    unchanged(
        made,
        lambda made: (
            merging.merge_sums(made.graph, made.weights, made.state, made.new_state),
            cleanup.drop_dead(made.graph),
        ),
    )
    assert in_core(made, aten.mm.default) == 1


def test_products_by_parts_of_a_matrix_become_one_by_the_whole() -> None:
    """In whatever order they come: nothing is copied."""

    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(torch.cat([h @ cell.square[:, 1:], h @ cell.square[:, :1]], 1))

    made = unchanged(traced(step, adjoint=False), simplify)
    (product,) = [node for node in calls(made.graph, aten.mm.default) if node in ancestors(made.new_state)]
    assert product.args[1] in made.weights


@pytest.mark.parametrize("cut", [(None, 3), (3, None), (-1, 9), (0, 2)], ids=str)
def test_parts_may_begin_anywhere(cut: tuple[Any, Any]) -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        part = torch.ops.aten.slice.Tensor(cell.square, 1, *cut)
        return torch.tanh(
            h @ cell.other + (h @ part).sum(1, keepdim=True) + (h @ cell.square[:, 1:]).sum(1, keepdim=True)
        )

    made = unchanged(traced(step, adjoint=False), simplify)
    assert in_core(made, aten.mm.default) == 1


def test_a_sum_of_three_products_and_more_becomes_one() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        return h.tanh() @ cell.square + (h.sin() @ cell.other + cell.bias) + h.cos() @ (cell.square * 2) + h

    made = traced(step, adjoint=False)

    def apply(made: Trace) -> None:
        merging.merge_sums(made.graph, made.weights, made.state, made.new_state)
        cleanup.drop_dead(made.graph)

    unchanged(made, apply)
    assert in_core(made, aten.mm.default) == 1


@pytest.mark.parametrize(
    "step",
    [
        lambda cell, x, h: (lambda p: (p + h @ cell.other) * p)(h.tanh() @ cell.square),  # one is needed by itself
        lambda cell, x, h: h.tanh() @ cell.square + x @ cell.kernel[:DEPTH],  # one is not carried
        lambda cell, x, h: torch.add(h.tanh() @ cell.square, h @ cell.other, alpha=3),
    ],
)
def test_other_sums_of_products_are_left_alone(step: Any) -> None:
    made = traced(step, adjoint=False)
    before = in_core(made, aten.mm.default)
    unchanged(
        made,
        lambda made: (
            merging.merge_sums(made.graph, made.weights, made.state, made.new_state),
            cleanup.drop_dead(made.graph),
        ),
    )
    assert in_core(made, aten.mm.default) == before
