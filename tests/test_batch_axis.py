"""States whose rows are on another axis than the first."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import unspool
from tests.by_hand import BATCH, LENGTHS, TIME, by_hand, check
from tests.profiles import cases
from unspool.engine.plans import cache
from unspool.structure import flatten, map_structure

DEPTH, UNITS, LAYERS = 3, 5, 2
X = torch.randn(BATCH, TIME, DEPTH, dtype=torch.float64)


def layered(kind: Any) -> tuple[Any, Any, Any]:
    """A layer of torch as a step, its layers, and a state."""
    torch.manual_seed(0)
    layers = kind(DEPTH, UNITS, num_layers=LAYERS, dtype=torch.float64)

    def step(x: Tensor, state: Any) -> Any:
        output, state = layers(x[None], state)
        return output[0], state

    states = tuple(torch.randn(LAYERS, BATCH, UNITS, dtype=torch.float64) for _ in range(2))
    return step, layers, states if kind is nn.LSTM else states[0]


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_layers_of_torch_as_a_step(kind: Any) -> None:
    step, layers, state = layered(kind)
    check(unspool.cell(step, batch_axis=1), step, X, state, list(layers.parameters()), axes=1)
    check(unspool.cell(step, batch_axis=-2), step, X, state, list(layers.parameters()), axes=1)


def test_one_loop_is_what_the_layer_itself_computes() -> None:
    step, layers, state = layered(nn.GRU)
    outputs, final = unspool.dynamic_rnn(unspool.cell(step, batch_axis=1), X, None, state)
    expected, last = layers(X.transpose(0, 1), state)
    torch.testing.assert_close((outputs.transpose(0, 1), final), (expected, last))


def mixed(x: Tensor, state: Any) -> Any:
    """A state of three tensors with rows on the first, the second and the last axis."""
    memory, (stack, level) = state["memory"], state["rest"]
    stack = torch.tanh(stack + x.sum(1)[None, :, None])
    memory = 0.5 * memory + level.T[:, :, None]
    return stack[0], {"memory": memory, "rest": (stack, level + x[:, :2].T)}


AXES = {"memory": 0, "rest": (1, -1)}
STATE = {
    "memory": torch.randn(BATCH, 2, 3, dtype=torch.float64),
    "rest": (torch.randn(LAYERS, BATCH, 4, dtype=torch.float64), torch.randn(2, BATCH, dtype=torch.float64)),
}


def test_a_structure_of_axes() -> None:
    check(unspool.cell(mixed, batch_axis=AXES), mixed, X, STATE, [], axes=AXES)


@settings(max_examples=cases(6, 60), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.booleans()), min_size=1, max_size=3))
def test_drawn_axes(drawn: list[tuple[int, int, bool]]) -> None:
    ranks = [rank for rank, _, _ in drawn]
    axes = [axis % rank - (rank if negative else 0) for rank, axis, negative in drawn]
    state = [
        torch.randn(BATCH, *[2] * (r - 1), dtype=torch.float64).movedim(0, a) for r, a in zip(ranks, axes, strict=True)
    ]

    def step(x: Tensor, state: Any) -> Any:
        rows = [x.sum(1).reshape([-1 if k == a % r else 1 for k in range(r)]) for r, a in zip(ranks, axes, strict=True)]
        return x, [torch.tanh(leaf + row) for leaf, row in zip(state, rows, strict=True)]

    check(unspool.cell(step, batch_axis=axes), step, X, state, [], axes=axes)


def test_a_zero_state_is_in_the_cells_own_layout() -> None:
    step, _, _ = layered(nn.LSTM)
    cell = unspool.cell(step, (torch.Size([LAYERS, UNITS]),) * 2, batch_axis=1)
    zeros = cell.zero_state(BATCH, torch.float64)
    assert [leaf.shape for leaf in zeros] == [(LAYERS, BATCH, UNITS)] * 2
    outputs, state = unspool.dynamic_rnn(cell, X, LENGTHS, dtype=torch.float64)
    expected = by_hand(step, X, LENGTHS, zeros, 1)
    torch.testing.assert_close((outputs, state), expected)


def test_the_cell_itself_is_called_in_its_own_layout() -> None:
    step, _, state = layered(nn.GRU)
    torch.testing.assert_close(unspool.cell(step, batch_axis=1)(X[:, 0], state), step(X[:, 0], state))


def test_an_output_that_is_taken_from_the_state_has_its_rows_first() -> None:
    _, layers, state = layered(nn.GRU)

    def step(x: Tensor, h: Tensor) -> Tensor:
        return layers(x[None], h)[1]

    def plain(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return step(x, h).movedim(1, 0), step(x, h)

    cell = unspool.cell(step, returns="state", batch_axis=1)
    check(cell, plain, X, state, list(layers.parameters()), axes=1)


def test_both_directions_raw_loops_and_saved_states() -> None:
    step, _, state = layered(nn.GRU)
    cell = unspool.cell(step, batch_axis=1)
    forward, final = unspool.dynamic_rnn(cell, X, LENGTHS, state)
    (fw, bw), states = unspool.bidirectional_dynamic_rnn(cell, cell, X, LENGTHS, state, state)
    torch.testing.assert_close((fw, states[0]), (forward, final))
    assert states[1].shape == (LAYERS, BATCH, UNITS)
    torch.testing.assert_close(bw[:, 0][torch.tensor(LENGTHS) > 0], states[1][1][torch.tensor(LENGTHS) > 0])

    def loop_fn(time: int, output: Any, cell_state: Any, loop_state: Any) -> Any:
        finished = torch.tensor([time >= length for length in LENGTHS])
        if cell_state is not None:
            assert cell_state.shape == (LAYERS, BATCH, UNITS)
        return finished, X[:, min(time, TIME - 1)], state if output is None else cell_state, output, None

    emits, last, _ = unspool.raw_rnn(cell, loop_fn)
    torch.testing.assert_close((emits.stack().transpose(0, 1), last), (forward, final))
    shelf: Any = type("Shelf", (dict,), {"state": dict.__getitem__, "save_state": dict.__setitem__})(h=state)
    unspool.static_state_saving_rnn(cell, list(X.unbind(1)), shelf, "h", LENGTHS)
    torch.testing.assert_close(shelf["h"], final)


def test_stacks_and_wrappers_keep_the_axes_of_their_cells() -> None:
    step, layers, state = layered(nn.GRU)
    top = nn.GRUCell(UNITS, UNITS, dtype=torch.float64)
    stack = unspool.MultiRNNCell([unspool.RNNCellWrapper(unspool.cell(step, batch_axis=1)), top])
    assert stack.batch_axis == (1, 0)

    def both(x: Tensor, s: Any) -> Any:
        output, lower = step(x, s[0])
        upper = top(output, s[1])
        return upper, (lower, upper)

    states = (state, torch.randn(BATCH, UNITS, dtype=torch.float64))
    check(stack, both, X, states, [*layers.parameters(), *top.parameters()], axes=(1, 0))


def test_a_second_call_is_not_traced_again() -> None:
    step, _, state = layered(nn.GRU)
    cell = unspool.cell(step, batch_axis=1)
    unspool.dynamic_rnn(cell, X, LENGTHS, state)
    traced = cache.traces
    for _ in range(3):
        unspool.dynamic_rnn(cell, X, LENGTHS, state)
    assert cache.traces == traced
    assert str(unspool.explain(cell, X, LENGTHS, state)).startswith("step runs by plan")


def test_what_is_refused_is_not_traced_again_either() -> None:
    step, _, state = layered(nn.GRU)

    def centred(x: Tensor, s: Any) -> Any:
        output, s = step(x, s)
        return output - output.mean(0), s

    cell = unspool.cell(centred, batch_axis=1)
    with pytest.warns(unspool.PerformanceWarning, match="mean works across rows"):
        unspool.dynamic_rnn(cell, X, LENGTHS, state)
    traced = cache.traces
    for _ in range(3):
        unspool.dynamic_rnn(cell, X, LENGTHS, state)
    assert cache.traces == traced


def test_an_empty_batch_and_an_empty_loop() -> None:
    step, _, state = layered(nn.GRU)
    cell = unspool.cell(step, batch_axis=1)
    outputs, final = unspool.dynamic_rnn(cell, X[:, :0], None, state)
    assert (outputs.shape, final.shape) == ((BATCH, 0, UNITS), state.shape)
    outputs, final = unspool.dynamic_rnn(cell, X[:0], [], state[:, :0])
    assert (outputs.shape, final.shape) == ((0, TIME, UNITS), (LAYERS, 0, UNITS))


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (3, r"batch_axis is 3, but initial_state has shape \[2, 4, 5\]"),
        ((1, 1), "initial_state is a Tensor, but batch_axis is a tuple of 2"),
        (0, r"initial_state has shape \[2, 4, 5\], but inputs have a batch of 4"),
    ],
)
def test_axes_that_do_not_fit_the_state_are_a_value_error(axes: Any, message: str) -> None:
    step, _, state = layered(nn.GRU)
    with pytest.raises(ValueError, match=message):
        unspool.dynamic_rnn(unspool.cell(step, batch_axis=axes), X, LENGTHS, state)


def test_decoding_needs_rows_on_the_first_axis() -> None:
    step, _, state = layered(nn.GRU)
    helper = unspool.TrainingHelper(X, [TIME] * BATCH)
    with pytest.raises(ValueError, match="cell has batch_axis=1, but decoding needs rows on the first axis"):
        unspool.BasicDecoder(unspool.cell(step, output_size=UNITS, batch_axis=1), helper, state)


def test_gradients_come_back_in_the_cells_own_layout() -> None:
    step, _, state = layered(nn.LSTM)
    starts = map_structure(lambda leaf: leaf.clone().requires_grad_(), state)
    outputs, _ = unspool.dynamic_rnn(unspool.cell(step, batch_axis=1), X, LENGTHS, starts)
    outputs.sum().backward()
    assert [leaf.grad.shape for leaf in flatten(starts)] == [(LAYERS, BATCH, UNITS)] * 2
