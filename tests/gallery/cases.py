"""A cell of the gallery beside its equations in NumPy and beside the plain loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tests.comparison import BATCH, LENGTHS, STEPS, check, wanting_gradients
from unspool import dynamic_rnn, explain
from unspool.structure import flatten, map_structure

Weights = dict[str, Any]


class Case(NamedTuple):
    """A cell, what it reads, and its step written again: `step(weights, inputs, state)` of one row, in NumPy."""

    make: Callable[[], Any]
    inputs: Callable[[int, int], Any]
    step: Callable[[Weights, Any, Any], tuple[Any, Any]]
    start: Any = None
    """The state before the first step; zeros if None."""


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def vectors(depth: int) -> Callable[[int, int], Tensor]:
    """Inputs that are one vector a step."""
    return lambda batch, steps: normal(batch, steps, depth)


def with_gaps(depth: int) -> Callable[[int, int], tuple[Tensor, Tensor]]:
    """Inputs that are a vector, and the time since the last."""
    return lambda batch, steps: (normal(batch, steps, depth), 0.2 + normal(batch, steps, 1).abs())


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def made(case: Case) -> Any:
    """The case's cell in float64, its weights moved a little from where they start: many of those are zero."""
    torch.manual_seed(0)
    cell = case.make().double()
    with torch.no_grad():
        for weight in cell.parameters():
            weight += 0.1 * torch.randn_like(weight)
    return cell


def values_of(cell: Any) -> Weights:
    """The cell's weights and buffers by name."""
    return {name: value.detach().numpy() for name, value in [*cell.named_parameters(), *cell.named_buffers()]}


def against_reference(case: Case) -> None:
    """Asserts that outputs and final state are those of the case's step, row by row."""
    cell = made(case)
    inputs = case.inputs(BATCH, STEPS)
    torch.manual_seed(5)  # for references that draw the same again
    with torch.no_grad():
        outputs, final = dynamic_rnn(cell, inputs, dtype=torch.float64)
    weights = values_of(cell)
    for row in range(BATCH):
        state = map_structure(np.zeros, cell.state_size) if case.start is None else case.start
        for time in range(STEPS):
            here = map_structure(lambda leaf, row=row, time=time: leaf[row, time].numpy(), inputs)
            output, state = case.step(weights, here, state)
            for found, expected in zip(flatten(outputs), flatten(output), strict=True):
                np.testing.assert_allclose(found[row, time].numpy(), expected, rtol=1e-10, atol=1e-10)
        for found, expected in zip(flatten(final), flatten(state), strict=True):
            np.testing.assert_allclose(found[row].numpy(), expected, rtol=1e-10, atol=1e-10)


def against_plain_loop(case: Case, lengths: Sequence[Any] = (None, LENGTHS)) -> None:
    """Asserts that outputs, final state and every gradient are those of the plain loop, with each of the lengths."""
    cell = made(case)
    state = map_structure(lambda leaf: leaf + 0.1 * torch.rand_like(leaf), cell.zero_state(BATCH, torch.float64))
    inputs, state = wanting_gradients(case.inputs(BATCH, STEPS)), wanting_gradients(state)
    for each in lengths:
        check(cell, torch.float64, each, inputs, state)


def explained(case: Case) -> Any:
    """How the engine runs the case, with gradients."""
    cell = made(case)
    return explain(cell, wanting_gradients(case.inputs(BATCH, STEPS)), dtype=torch.float64)
