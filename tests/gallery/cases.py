"""What every cell of the gallery is asked: its equations in NumPy, the plain loop with every gradient, and a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.comparison import BATCH, LENGTHS, STEPS, check, wanting_gradients
from unspool import dynamic_rnn, explain
from unspool.structure import flatten, map_structure

Weights = dict[str, Any]


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def vectors(depth: int) -> Callable[[int, int], Tensor]:
    """Inputs that are one vector a step."""
    return lambda batch, steps: normal(batch, steps, depth)


def with_gaps(depth: int) -> Callable[[int, int], tuple[Tensor, Tensor]]:
    """Inputs that are a vector, and the time since the last."""
    return lambda batch, steps: (normal(batch, steps, depth), 0.2 + normal(batch, steps, 1).abs())


class Case(NamedTuple):
    """A cell, what it reads, and its step written again: `step(weights, inputs, state)` of one row, in NumPy."""

    make: Callable[[], Any]
    inputs: Callable[[int, int], Any] = vectors(3)
    step: Callable[[Weights, Any, Any], tuple[Any, Any]] | None = None
    """None where a test of its own says what the cell computes."""
    start: Any = None
    """The state before the first step; zeros if None."""


# -- for references ---------------------------------------------------------------------------------------------------


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


def layer_norm(x: Any, gain: Any = 1.0, bias: Any = 0.0, epsilon: float = 1e-5) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * gain + bias


def close(found: Tensor, expected: Any, what: str = "") -> None:
    """Asserts that both are the same to ten digits."""
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-10, atol=1e-10, err_msg=what)


# -- what is asked ----------------------------------------------------------------------------------------------------


def made(case: Case) -> Any:
    """The case's cell in float64, with noise on every weight: none is 0 or 1, where a mistake would not show."""
    torch.manual_seed(0)
    cell = case.make().double()
    with torch.no_grad():
        for weight in cell.parameters():
            weight += 0.5 * torch.randn_like(weight)
    return cell


def values_of(cell: Any) -> Weights:
    """The cell's weights and buffers by name."""
    return {name: value.detach().numpy() for name, value in [*cell.named_parameters(), *cell.named_buffers()]}


def against_reference(case: Case) -> None:
    """Asserts that outputs and final state are those of the case's step, row by row."""
    cell = made(case)
    assert case.step is not None
    inputs = case.inputs(BATCH, STEPS)
    torch.manual_seed(5)  # for references that draw the same again
    with torch.no_grad():
        outputs, final = dynamic_rnn(cell, inputs, dtype=torch.float64)
    weights = values_of(cell)
    for row in range(BATCH):
        state = map_structure(np.zeros, cell.state_size) if case.start is None else case.start
        for time in range(STEPS):
            here = map_structure(lambda leaf, at=(row, time): leaf[at].numpy(), inputs)
            output, state = case.step(weights, here, state)
            for found, expected in zip(flatten(outputs), flatten(output), strict=True):
                close(found[row, time], expected, f"output {time} of row {row}")
        for found, expected in zip(flatten(final), flatten(state), strict=True):
            close(found[row], expected, f"final state of row {row}")


def against_plain_loop(case: Case, lengths: Sequence[Any] = (None, LENGTHS)) -> None:
    """Asserts that outputs, final state and every gradient are those of the plain loop, with each of the lengths."""
    cell = made(case)
    # Positive, as normalisers are.
    state = map_structure(lambda leaf: leaf + torch.rand_like(leaf), cell.zero_state(BATCH, torch.float64))
    inputs, state = wanting_gradients(case.inputs(BATCH, STEPS)), wanting_gradients(state)
    for each in lengths:
        check(cell, torch.float64, each, inputs, state)


def why_not_planned(case: Case) -> str | None:
    """None if the engine has a plan for the case, with gradients; or the reason."""
    found = explain(made(case), wanting_gradients(case.inputs(BATCH, STEPS)), dtype=torch.float64)
    return None if found.planned else str(found.reason)


# -- tests that every family has --------------------------------------------------------------------------------------


def each_of(cases: Mapping[str, Case]) -> tuple[Any, Any, Any]:
    """Three tests of each of the cases: its equations, the plain loop, and that there is a plan."""
    each = pytest.mark.parametrize("name", cases)

    @pytest.mark.parametrize("name", [name for name, case in cases.items() if case.step])
    def equals_its_equations(name: str) -> None:
        against_reference(cases[name])

    @each
    def equals_the_plain_loop(name: str) -> None:
        against_plain_loop(cases[name])

    @each
    def is_planned(name: str) -> None:
        assert why_not_planned(cases[name]) is None

    return equals_its_equations, equals_the_plain_loop, is_planned


def arguments_are_checked(mistakes: Iterable[tuple[Callable[[], Any], str]]) -> Any:
    """A test that each of these raises `ValueError` with its message."""

    @pytest.mark.parametrize(("make", "message"), mistakes)
    def are_checked(make: Callable[[], Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            make()

    return are_checked


def sizes_are_checked(kinds: Iterable[type[Any]]) -> Any:
    """A test that no cell of these kinds has a size of zero or less."""

    @pytest.mark.parametrize("kind", kinds)
    @pytest.mark.parametrize(("sizes", "name"), [((0, 4), "input_size"), ((3, 0), "num_units"), ((3, -1), "num_units")])
    def are_checked(kind: type[Any], sizes: tuple[int, int], name: str) -> None:
        with pytest.raises(ValueError, match=f"{name} must be positive, but is {min(sizes)}"):
            kind(*sizes)

    return are_checked
