"""Gradients to which every step adds an outer product: they leave the loop, and are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from unspool import Checkpoint, Keep, Recompute, RNNCell, dynamic_rnn, explain, static_rnn
from unspool.engine.explain.explanation import Explanation

UNITS = 3


class Looking(RNNCell):
    """A cell whose state is a vector and a memory that it looks at."""

    def __init__(self, places: int, look: Callable[[Any, Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.state_size, self.output_size = (UNITS, (places, UNITS)), UNITS
        self.kernel = nn.Parameter(torch.randn(2 * UNITS, UNITS))
        self.places = nn.Parameter(torch.randn(UNITS, places))
        self.look = look

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        h, memory = state
        h = torch.tanh(torch.cat([x, h], 1) @ self.kernel)
        seen, memory = self.look(self, h, memory)
        return seen, (h + seen, memory)


def once(cell: Looking, h: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Where to look is known without the memory: one outer product in its gradient."""
    weights = torch.softmax(h @ cell.places, 1)
    return (weights[:, None] @ memory)[:, 0], memory


def by_products(cell: Looking, h: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Scores, weights, and what is seen: two outer products in the gradient of the memory."""
    weights = torch.softmax((memory @ h[:, :, None])[:, :, 0], 1)
    return (weights[:, None] @ memory)[:, 0], memory


def fading(cell: Looking, h: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    seen, memory = by_products(cell, h, memory)
    return seen, memory * 0.9


def written(cell: Looking, h: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of what is handed on is looked at: it is that of what is written, too."""
    seen, memory = by_products(cell, h, memory)
    return seen, memory + h[:, None]


def moved(cell: Looking, h: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    seen, memory = by_products(cell, h, memory)
    return seen, memory.roll(1, 1)


def problem(look: Any, places: int = 4, batch: int = 3, steps: int = 5) -> tuple[Looking, list[Tensor]]:
    """A cell, and what it begins with: inputs, state and memory."""
    torch.manual_seed(0)
    shapes = [(steps, batch, UNITS), (batch, UNITS), (batch, places, UNITS)]
    tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    return Looking(places, look).double(), tensors


def everything(cell: Looking, tensors: list[Tensor], lengths: Any, **how: Any) -> list[Tensor]:
    """Outputs, final states and every gradient; without options, by `static_rnn`."""
    inputs, h, memory = tensors
    if how:
        outputs, state = dynamic_rnn(cell, inputs, lengths, (h, memory), time_major=True, **how)
    else:
        stepped, state = static_rnn(cell, list(inputs), (h, memory), sequence_length=lengths)
        outputs = torch.stack(list(stepped))
    results = [outputs, *state]
    loss = torch.stack([result.sin().sum() for result in results]).sum()
    wanted = [each for each in [*tensors, *cell.parameters()] if each.requires_grad]
    found = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)
    return [*results, *found]


def told(cell: Looking, tensors: list[Tensor]) -> Explanation:
    inputs, *state = tensors
    return explain(cell, inputs, initial_state=tuple(state), time_major=True)


OUTER = "rows x 4 x 1 @ rows x 1 x 3"


def where(explanation: Explanation) -> set[str]:
    """The parts of backward in which there is an outer product of a row."""
    assert explanation.backward is not None
    return {each.part for each in explanation.backward.products if each.shapes == OUTER}


@pytest.mark.parametrize("look", [once, by_products], ids=["one", "two"])
def test_the_gradient_of_a_memory_leaves_the_loop(look: Any) -> None:
    explanation = told(*problem(look))
    assert where(explanation) == {"after"}
    assert explanation.backward is not None
    assert "add: float64[rows, 4, 3]" not in explanation.backward.program


@pytest.mark.parametrize("look", [fading, written, moved])
def test_a_gradient_that_a_step_changes_or_looks_at_is_carried(look: Any) -> None:
    assert where(told(*problem(look))) == {"core"}


@pytest.mark.parametrize("memory", [Keep(), Recompute(), Checkpoint(every=3)], ids=repr)
@pytest.mark.parametrize("lengths", [None, [5, 0, 3], [2, 2, 2]], ids=["full", "ragged", "short"])
@pytest.mark.parametrize("look", [once, by_products, fading, written, moved])
def test_every_gradient_equals_that_of_the_chain(look: Any, lengths: list[int] | None, memory: Any) -> None:
    cell, tensors = problem(look)
    found = everything(cell, tensors, lengths, memory=memory, parallel_iterations=2)
    # float64; the products are summed in another order.
    torch.testing.assert_close(found, everything(cell, tensors, lengths), rtol=1e-10, atol=1e-12)


@pytest.mark.compiled
@pytest.mark.parametrize("lengths", [None, [5, 0, 3]], ids=["full", "ragged"])
@pytest.mark.parametrize("look", [by_products, written])
def test_compiled_loops_have_the_same_gradients(look: Any, lengths: list[int] | None) -> None:
    cell, tensors = problem(look)
    found = everything(cell, tensors, lengths, parallel_iterations=2)
    torch.testing.assert_close(found, everything(cell, tensors, lengths), rtol=1e-10, atol=1e-12)


@settings(deadline=None)  # for other places there is another plan
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 7), st.data())
def test_every_number_of_places_rows_and_steps(places: int, batch: int, steps: int, data: st.DataObject) -> None:
    lengths = data.draw(st.none() | st.lists(st.integers(0, steps), min_size=batch, max_size=batch))
    chunk = data.draw(st.integers(1, steps))
    cell, tensors = problem(by_products, places, batch, steps)
    found = everything(cell, tensors, lengths, parallel_iterations=chunk)
    torch.testing.assert_close(found, everything(cell, tensors, lengths), rtol=1e-10, atol=1e-12)


@pytest.mark.compiled
def test_a_memory_without_places() -> None:
    def scored(cell: Looking, h: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        weights = (memory @ h[:, :, None])[:, :, 0]
        return (weights[:, None] @ memory)[:, 0], memory

    cell, tensors = problem(scored, places=0)
    found = everything(cell, tensors, [5, 1, 3], parallel_iterations=2)
    torch.testing.assert_close(found, everything(cell, tensors, [5, 1, 3]), rtol=1e-10, atol=1e-12)


def test_a_memory_whose_gradient_is_not_wanted() -> None:
    cell, (inputs, h, memory) = problem(by_products)
    tensors = [inputs, h, memory.detach()]
    found = everything(cell, tensors, [5, 1, 3], parallel_iterations=2)
    torch.testing.assert_close(found, everything(cell, tensors, [5, 1, 3]), rtol=1e-10, atol=1e-12)


def test_what_the_caller_gave_as_a_gradient_is_not_changed() -> None:
    cell, (inputs, h, memory) = problem(by_products)
    _, (_, final) = dynamic_rnn(cell, inputs, initial_state=(h, memory), time_major=True)
    given = torch.ones_like(final)
    (d_memory,) = torch.autograd.grad(final, [memory], given)
    assert torch.equal(given, torch.ones_like(final))
    torch.testing.assert_close(d_memory, torch.ones_like(memory))
