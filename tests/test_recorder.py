"""What a step is recorded as: operations, sizes, constants, and the lines that they came from."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx

from tests.rewriting import UNITS, traced
from unspool.engine.trace.graph import aten, calls, line_of_node, value


def text_of(node: fx.Node) -> str | None:
    line = line_of_node(node)
    return None if line is None else line.text


TABLE = torch.arange(float(UNITS))


def test_what_is_recorded_has_no_part_in_autograd() -> None:
    made = traced(lambda cell, x, h: torch.tanh(x[:, :1] * h))
    assert not any(value(node).requires_grad for node in calls(made.graph))


def test_a_derivative_has_the_line_of_what_it_is_of() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        product = x[:, :1] * h
        return torch.sin(product)

    made = traced(step)
    (of_sine,) = calls(made.graph, aten.cos.default)
    texts = {text_of(node) for node in calls(made.graph)}
    assert texts - {None} == {"product = x[:, :1] * h", "return torch.sin(product)"}
    assert text_of(of_sine) == "return torch.sin(product)"


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> Tensor:
        return d / 2


def test_a_derivative_written_by_hand_has_its_own_line() -> None:
    made = traced(lambda cell, x, h: torch.tanh(Halved.apply(h)))
    (halved,) = calls(made.graph, aten.div.Tensor)
    assert text_of(halved) == "return d / 2"


def test_changes_in_place_are_recorded_without_any_and_keep_their_lines() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        both = x[:, :1] + h
        both[:, 0].zero_()
        return both

    made = traced(step)
    assert not [node for node in calls(made.graph) if str(node.target).partition(".")[0].endswith("_")]
    assert {text_of(node) for node in calls(made.graph)} >= {"both = x[:, :1] + h", "both[:, 0].zero_()"}


def test_tensors_that_nobody_gave_are_constants_and_numbers_are_literals() -> None:
    made = traced(lambda cell, x, h: h * TABLE + torch.tensor([1.0] * UNITS))
    (constant,), (literal,) = made.constants.values(), made.literals.values()
    assert constant is TABLE
    assert literal.tolist() == [1.0] * UNITS
    assert [value(node).shape for node in made.constants] == [(UNITS,)]


def test_a_size_is_computed_once_from_the_rows() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        rows = h.shape[0]
        return (h.reshape(2 * rows, -1) * h.sin().reshape(2 * rows, -1)).reshape(rows, UNITS)

    made = traced(step, adjoint=False)
    assert [node.args for node in calls(made.graph, operator.mul)] == [(made.rows, 2)]


def test_several_results_have_a_node_each_and_one_for_all() -> None:
    made = traced(lambda cell, x, h: torch.cat(h.split([1, UNITS - 1], 1)[::-1], 1), adjoint=False)
    (split,) = calls(made.graph, aten.split_with_sizes.default)
    assert [node.args for node in calls(made.graph, operator.getitem)] == [(split, 0), (split, 1)]
    assert [tuple(each.shape)[1:] for each in value(split)] == [(1,), (UNITS - 1,)]
