"""What every cell of the gallery is asked: its equations, the plain loop with every gradient, and a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.comparison import check, wanting_gradients
from unspool import dynamic_rnn, explain
from unspool.cells.like import zero_state_of
from unspool.structure import flatten, map_structure

BATCH, STEPS = 4, 6
LENGTHS = [0, 1, STEPS, 3]

Step = Callable[[Any, Any, dict[str, Any]], tuple[Any, Any]]
"""A step of a reference: (x, state, weights) -> (output, state), of one row, in NumPy."""


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: Any, gain: Any = 1.0, bias: Any = 0.0, epsilon: float = 1e-5) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * gain + bias


def drawn(cell: nn.Module, deviation: float = 0.5) -> Any:
    """The cell in float64, with noise on every weight: none is 0 or 1, where a mistake would not show."""
    torch.manual_seed(3)
    with torch.no_grad():
        for weight in cell.double().parameters():
            weight.add_(torch.randn_like(weight) * deviation)
    return cell


def inputs_for(cell: Any) -> Any:
    torch.manual_seed(4)
    return torch.randn(BATCH, STEPS, cell.input_size, dtype=torch.float64)


def against_reference(cell: Any, inputs: Any, reference: Step) -> None:
    """Asserts that `dynamic_rnn` computes what the reference does, one row and one step at a time."""
    outputs, final = dynamic_rnn(cell, inputs, dtype=torch.float64)
    weights = {name: value.detach().numpy() for name, value in cell.state_dict().items()}
    for row in range(BATCH):
        state = map_structure(lambda leaf: leaf[0].numpy(), zero_state_of(cell, 1, torch.float64, None))
        for step in range(STEPS):
            x = map_structure(lambda leaf, at=(row, step): leaf[at].numpy(), inputs)
            output, state = reference(x, state, weights)
            _close(map_structure(lambda leaf, at=(row, step): leaf[at], outputs), output, f"output {step} of row {row}")
        _close(map_structure(lambda leaf, row=row: leaf[row], final), state, f"final state of row {row}")


def _close(found: Any, expected: Any, what: str) -> None:
    for each, wanted in zip(flatten(found), flatten(expected), strict=True):
        np.testing.assert_allclose(each.detach().numpy(), wanted, rtol=1e-10, atol=1e-10, err_msg=what)


def against_plain_loop(cell: Any, inputs: Any) -> None:
    """Asserts that outputs, final state and every gradient are those of the plain loop, with lengths and without."""
    torch.manual_seed(6)
    start = zero_state_of(cell, BATCH, torch.float64, None)
    # Positive, as normalisers are.
    state = wanting_gradients(map_structure(lambda leaf: leaf + torch.rand_like(leaf), start))
    inputs = wanting_gradients(inputs)
    for lengths in (None, LENGTHS):
        check(cell, torch.float64, lengths, inputs, state)


def why_not_planned(cell: Any, inputs: Any) -> str | None:
    """None if there is a plan, or the reason."""
    found = explain(cell, inputs, dtype=torch.float64)
    return None if found.planned else str(found.reason)


def each_of(cells: dict[str, Callable[[], Any]], references: dict[str, Step]) -> tuple[Any, Any, Any]:
    """The tests that every family has: its equations, the plain loop, and a plan, for each of its cells."""
    each = pytest.mark.parametrize("name", cells)

    @each
    def computes_its_equations(name: str) -> None:
        cell = drawn(cells[name]())
        against_reference(cell, inputs_for(cell), references[name])

    @each
    def equals_the_plain_loop(name: str) -> None:
        cell = drawn(cells[name]())
        against_plain_loop(cell, inputs_for(cell))

    @each
    def is_planned(name: str) -> None:
        cell = drawn(cells[name]())
        assert why_not_planned(cell, inputs_for(cell)) is None

    return computes_its_equations, equals_the_plain_loop, is_planned
