"""`RNN` and `Stack`: cells as layers, against loops by hand."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import unspool
from unspool import RNN, GRUCell, LSTMCell, Stack, dynamic_rnn, strict
from unspool.structure import flatten, map_structure

ROWS, STEPS, DEPTH, UNITS = 4, 7, 3, 5
LENGTHS = [7, 0, 3, 5]
TOLERANCE = {"rtol": 1e-11, "atol": 1e-11}
"""In float64: sums in another order, of a few dozen terms."""


class Noted(unspool.RNNCell):
    """A cell of a user's, with a dict for a state and a pair for an output."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size = {"h": UNITS, "level": torch.Size([])}
        self.output_size = (UNITS, torch.Size([]))
        self.mix = nn.Linear(DEPTH + UNITS, UNITS)

    def forward(self, x: Tensor, state: dict[str, Tensor]) -> tuple[Any, Any]:
        h = torch.tanh(self.mix(torch.cat([x, state["h"]], 1)) + state["level"][:, None])
        level = 0.5 * state["level"] + h.mean(1)
        return (h, level), {"h": h, "level": level}


CELLS: dict[str, Callable[[], Any]] = {
    "lstm": lambda: LSTMCell(UNITS, input_size=DEPTH),
    "torch's gru": lambda: nn.GRUCell(DEPTH, UNITS),
    "own": Noted,
}


@pytest.fixture(autouse=True)
def _double() -> Any:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def by_hand(
    layer: RNN,
    x: Tensor,
    lengths: list[int] | None = None,
    resets: Tensor | None = None,
    every: int | None = None,
    cell: Any = None,
) -> tuple[list[Any], list[Any]]:
    """Outputs and states after every step, `[row][step]`, one row after another."""
    cell = layer.cell if cell is None else cell
    outputs, states = [], []
    for row in range(ROWS):
        start = cell.zero_state(1, x.dtype) if layer.initial_state is None else layer._learned(0).rows(1, "cpu")
        state, shown, held = start, [], []
        for step in range(STEPS if lengths is None else lengths[row]):
            if every is not None and step and step % every == 0:
                state = map_structure(lambda leaf: leaf.detach(), state)
            if resets is not None and resets[row, step]:
                state = start
            output, state = cell(x[row, step][None], state)
            shown.append(output)
            held.append(state)
        outputs.append(shown)
        states.append(held)
    return outputs, states


def loss_of(parts: Any) -> Tensor:
    """A sum in which every number has a weight of its own."""
    leaves = [leaf for leaf in flatten(parts) if leaf is not None]
    weighted = [leaf * torch.linspace(0.1, 1.3, leaf.numel()).view_as(leaf) for leaf in leaves]
    return torch.stack([each.sum() for each in weighted]).sum()


def padded(steps: list[list[Any]], like: Any) -> Any:
    """Of what a loop by hand has of every row and step, tensors `[batch, time, ...]`, zero past a length."""
    zeros = map_structure(lambda leaf: torch.zeros((1, *leaf.shape[2:])), like)
    rows = [[*row, *[zeros] * (STEPS - len(row))] for row in steps]
    leaves = range(len(flatten(zeros)))
    return [torch.stack([torch.cat([flatten(step)[k] for step in row]) for row in rows]) for k in leaves]


def check(layer: RNN, x: Tensor, found: Any, expected: Any) -> None:
    """That numbers and every gradient are equal."""
    sources = [x, *layer.parameters()]
    for one, other in zip(flatten(found), flatten(expected), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE)
    ours = torch.autograd.grad(loss_of(found), sources, allow_unused=True)
    theirs = torch.autograd.grad(loss_of(expected), sources, allow_unused=True)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(0 if one is None else one, 0 if other is None else other, **TOLERANCE)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_it_is_the_loop_over_the_cell(cell: str, lengths: list[int] | None) -> None:
    layer, x = RNN(CELLS[cell]()), torch.randn(ROWS, STEPS, DEPTH, requires_grad=True)
    with strict():
        outputs, _ = layer(x, lengths=lengths)
    shown, _ = by_hand(layer, x, lengths)
    check(layer, x, outputs, padded(shown, outputs))


class TestForms:
    """The forms in which batches come."""

    def layer(self, **options: Any) -> RNN:
        return RNN(LSTMCell(UNITS, input_size=DEPTH), **options)

    def test_time_may_come_first(self) -> None:
        layer, x = self.layer(batch_first=False), torch.randn(ROWS, STEPS, DEPTH)
        outputs, state = layer(x.transpose(0, 1), lengths=LENGTHS)
        expected, final = dynamic_rnn(layer.cell, x, LENGTHS)
        torch.testing.assert_close(outputs, expected.transpose(0, 1), rtol=0, atol=0)
        torch.testing.assert_close(state, final, rtol=0, atol=0)

    @pytest.mark.parametrize("batch_first", [True, False])
    def test_one_sequence(self, batch_first: bool) -> None:
        layer, x = self.layer(batch_first=batch_first), torch.randn(STEPS, DEPTH)
        outputs, state = layer(x)
        expected, final = dynamic_rnn(layer.cell, x[None])
        torch.testing.assert_close(outputs, expected[0], rtol=0, atol=0)
        torch.testing.assert_close(state.h, final.h[0], rtol=0, atol=0)
        again, _ = layer(x, state)
        expected, _ = dynamic_rnn(layer.cell, x[None], None, final)
        torch.testing.assert_close(again, expected[0], rtol=0, atol=0)

    @pytest.mark.parametrize("batch_first", [True, False])
    @pytest.mark.parametrize("enforce_sorted", [True, False])
    def test_a_packed_sequence(self, enforce_sorted: bool, batch_first: bool) -> None:
        layer, lengths = self.layer(batch_first=batch_first), [7, 5, 3, 1] if enforce_sorted else [3, 7, 1, 5]
        x = torch.randn(ROWS, STEPS, DEPTH, requires_grad=True)
        outputs, state = layer(pack_padded_sequence(x, torch.tensor(lengths), True, enforce_sorted))
        expected, final = dynamic_rnn(layer.cell, x, lengths)
        assert isinstance(outputs, PackedSequence)
        found, _ = pad_packed_sequence(outputs, True)
        check(layer, x, (found, state), (expected, final))

    @pytest.mark.filterwarnings("ignore::UserWarning")  # of torch's, that nested tensors are new
    def test_a_jagged_tensor(self) -> None:
        layer, rows = self.layer(), [torch.randn(length, DEPTH, requires_grad=True) for length in LENGTHS]
        outputs, state = layer(torch.nested.as_nested_tensor(rows, layout=torch.jagged))
        x = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        expected, final = dynamic_rnn(layer.cell, x, LENGTHS)
        assert outputs.layout == torch.jagged
        for row, (one, length) in enumerate(zip(outputs.unbind(), LENGTHS, strict=True)):
            torch.testing.assert_close(one, expected[row, :length], **TOLERANCE)
        torch.testing.assert_close(state, final, **TOLERANCE)
        ours = torch.autograd.grad(loss_of([*outputs.unbind()]), rows)
        pieces = [expected[row, :length] for row, length in enumerate(LENGTHS)]
        for one, other in zip(ours, torch.autograd.grad(loss_of(pieces), rows), strict=True):
            torch.testing.assert_close(one, other, **TOLERANCE)

    def test_a_structure_of_tensors_and_step_numbers(self) -> None:
        def step(inputs: dict[str, Tensor], h: Tensor) -> tuple[Tensor, Tensor]:
            h = 0.5 * h + inputs["x"] + inputs["step"][:, None]
            return h, h

        layer = RNN(unspool.cell(step, state_size=DEPTH))
        outputs, _ = layer({"x": torch.ones(2, 3, DEPTH), "step": unspool.StepIndex()})
        assert outputs[0, :, 0].tolist() == [1.0, 2.5, 4.25]

    def test_states_with_rows_on_another_axis(self) -> None:
        gru = nn.GRU(DEPTH, UNITS, num_layers=2)

        def step(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            output, h = gru(x[None], h)
            return output[0], h

        layer, x = RNN(unspool.cell(step, batch_axis=1)), torch.randn(ROWS, STEPS, DEPTH)
        outputs, state = layer(x, torch.zeros(2, ROWS, UNITS), resets=torch.zeros(ROWS, STEPS, dtype=torch.bool))
        expected, final = gru(x.transpose(0, 1))
        torch.testing.assert_close(outputs, expected.transpose(0, 1), **TOLERANCE)
        torch.testing.assert_close(state, final, **TOLERANCE)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_resets_start_rows_anew(cell: str, learned: bool) -> None:
    layer = RNN(CELLS[cell](), initial_state="learned" if learned else "zero")
    for parameter in layer.initial_state.parameters() if learned else ():
        nn.init.normal_(parameter)
    x, resets = torch.randn(ROWS, STEPS, DEPTH, requires_grad=True), torch.rand(ROWS, STEPS) < 0.4
    with strict():
        outputs, _ = layer(x, lengths=LENGTHS, resets=resets)
    shown, _ = by_hand(layer, x, LENGTHS, resets)
    check(layer, x, outputs, padded(shown, outputs))


def test_resets_in_both_directions_part_the_same_steps() -> None:
    """Each piece between two flags is a sequence of its own, whichever way it is read."""
    layer, x = RNN(GRUCell(UNITS, input_size=DEPTH), bidirectional=True), torch.randn(1, STEPS, DEPTH)
    outputs, _ = layer(x, resets=torch.tensor([[False, False, False, True, False, True, False]]))
    pieces = torch.cat([layer(x[:, a:b])[0] for a, b in ((0, 3), (3, 5), (5, 7))], 1)
    torch.testing.assert_close(outputs, pieces, **TOLERANCE)


@pytest.mark.parametrize("cell", CELLS)
def test_all_states_are_returned_with_gradients(cell: str) -> None:
    layer, x = RNN(CELLS[cell](), return_states="all"), torch.randn(ROWS, STEPS, DEPTH, requires_grad=True)
    with strict():
        outputs, final, states = layer(x, lengths=LENGTHS)
    shown, held = by_hand(layer, x, LENGTHS)
    check(layer, x, (outputs, states), (padded(shown, outputs), padded(held, states)))
    assert all(torch.equal(one[0], every[0, -1]) for one, every in zip(flatten(final), flatten(states), strict=True))


@pytest.mark.parametrize("every", [1, 3, 7, 10])
@pytest.mark.parametrize("cell", CELLS)
def test_truncated_backpropagation_is_detaching_chunk_by_chunk(cell: str, every: int) -> None:
    layer, x = RNN(CELLS[cell](), detach_every=every), torch.randn(ROWS, STEPS, DEPTH, requires_grad=True)
    with strict():
        outputs, final = layer(x)
    chunks, state = [], None
    for chunk in x.split(every, 1):
        state = None if state is None else map_structure(lambda leaf: leaf.detach(), state)
        shown, state = dynamic_rnn(layer.cell, chunk, None, state)
        chunks.append(shown)
    expected = [torch.cat([flatten(each)[k] for each in chunks], 1) for k in range(len(flatten(outputs)))]
    check(layer, x, (outputs, final), (expected, state))


@pytest.mark.compiled
@pytest.mark.parametrize("cell", CELLS)
def test_truncation_resets_and_all_states_go_together_in_compiled_loops(cell: str) -> None:
    layer = RNN(CELLS[cell](), detach_every=2, return_states="all", initial_state="learned")
    x, resets = torch.randn(ROWS, STEPS, DEPTH, requires_grad=True), torch.rand(ROWS, STEPS) < 0.4
    with strict():
        outputs, _, states = layer(x, lengths=LENGTHS, resets=resets)
    shown, held = by_hand(layer, x, LENGTHS, resets, every=2)
    check(layer, x, (outputs, states), (padded(shown, outputs), padded(held, states)))


def test_both_directions_stand_side_by_side() -> None:
    layer, x = RNN(LSTMCell(UNITS, input_size=DEPTH), bidirectional=True), torch.randn(ROWS, STEPS, DEPTH)
    assert not torch.equal(layer.cell.kernel, layer.cell_bw.kernel)
    outputs, states = layer(x, lengths=LENGTHS)
    expected, finals = unspool.bidirectional_dynamic_rnn(layer.cell, layer.cell_bw, x, LENGTHS)
    torch.testing.assert_close(outputs, torch.cat(expected, 2), rtol=0, atol=0)
    torch.testing.assert_close(states, finals, rtol=0, atol=0)
    again, _ = layer(x, states, LENGTHS)
    expected, _ = unspool.bidirectional_dynamic_rnn(layer.cell, layer.cell_bw, x, LENGTHS, *finals)
    torch.testing.assert_close(again, torch.cat(expected, 2), rtol=0, atol=0)


def test_the_cell_for_the_way_back_may_be_given() -> None:
    layer = RNN(LSTMCell(UNITS), bidirectional=nn.GRUCell(DEPTH, 2))
    assert layer(torch.randn(2, 4, DEPTH))[0].shape == (2, 4, UNITS + 2)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("unbatched", [False, True])
def test_steps_of_a_stream_are_the_loop(cell: str, unbatched: bool) -> None:
    layer = RNN(CELLS[cell](), initial_state="learned")
    for parameter in layer.initial_state.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(STEPS, DEPTH) if unbatched else torch.randn(ROWS, STEPS, DEPTH)
    outputs, final = layer(x)
    state = None
    for k in range(STEPS):
        output, state = layer.step(x[k] if unbatched else x[:, k], state)
        for one, every in zip(flatten(output), flatten(outputs), strict=True):
            torch.testing.assert_close(one, every[k] if unbatched else every[:, k], **TOLERANCE)
    for one, other in zip(flatten(state), flatten(final), strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE)


class TestWeights:
    """Weights that wait, are copied, drawn anew and saved."""

    def test_materialize_makes_them(self) -> None:
        class Lazy(unspool.RNNCell):
            def __init__(self) -> None:
                super().__init__()
                self.state_size = self.output_size = 2
                self.mix = nn.LazyLinear(2)

            def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
                h = torch.tanh(self.mix(torch.cat([x, h], 1)))
                return h, h

        stack = Stack([Lazy(), GRUCell(4), RNN(LSTMCell(3), bidirectional=GRUCell(1))])
        stack.materialize(torch.zeros(1, 1, DEPTH))
        assert not any(map(nn.parameter.is_lazy, stack.parameters()))
        assert sum(each.numel() for each in stack.layers[1].cell.parameters()) == (2 + 4) * 12 + 12

    def test_the_layer_is_a_module_as_others(self) -> None:
        layer, x = RNN(LSTMCell(UNITS), bidirectional=True, initial_state="learned"), torch.randn(2, 4, DEPTH)
        outputs, _ = layer(x, resets=torch.rand(2, 4) < 0.5)
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            torch.testing.assert_close(other(x)[0], layer(x)[0], rtol=0, atol=0)
        fresh = RNN(LSTMCell(UNITS), bidirectional=True, initial_state="learned")
        fresh.load_state_dict(layer.state_dict())
        torch.testing.assert_close(fresh(x)[0], layer(x)[0], rtol=0, atol=0)
        assert outputs.shape == (2, 4, 2 * UNITS)

    def test_another_cell_in_its_place_is_the_one_that_runs(self) -> None:
        layer, x = RNN(GRUCell(UNITS), return_states="all"), torch.randn(2, 4, DEPTH)
        layer(x)
        layer.cell = LSTMCell(2)
        assert layer(x)[0].shape == (2, 4, 2)

    def test_dtype_and_device_are_those_of_the_inputs(self) -> None:
        outputs, state = RNN(GRUCell(2))(torch.randn(2, 4, DEPTH, dtype=torch.float32))
        assert outputs.dtype == state.dtype == torch.float32


class TestStack:
    """Layers on top of one another."""

    def test_without_dropout_it_is_the_cells_on_top_of_one_another(self) -> None:
        cells = [LSTMCell(4, input_size=DEPTH), GRUCell(2, input_size=4)]
        stack, x = Stack(nn.ModuleList(cells)), torch.randn(ROWS, STEPS, DEPTH)
        outputs, states = stack(x, lengths=LENGTHS)
        expected, finals = dynamic_rnn(unspool.MultiRNNCell(cells), x, LENGTHS)
        torch.testing.assert_close(outputs, expected, **TOLERANCE)
        for one, other in zip(flatten(states), flatten(finals), strict=True):
            torch.testing.assert_close(one, other, **TOLERANCE)
        output, state = x[:, 0], None
        for k in range(STEPS):
            output, state = stack.step(x[:, k], state)
        torch.testing.assert_close(output, stack(x)[0][:, -1], **TOLERANCE)

    def test_dropout_is_between_layers_in_training_alone(self) -> None:
        class Passing(unspool.RNNCell):
            state_size, output_size = 1, 1000

            def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
                return x, h

        stack, x = Stack([Passing(), Passing(), Passing()], dropout=0.25), torch.ones(2, 20, 1000)
        left = stack(x)[0]
        assert 0.55 < (left != 0).double().mean() < 0.575  # 0.75 twice; 0.0025 is a deviation
        assert left.unique().tolist() == [0, (1 / 0.75) ** 2]
        packed = stack(pack_padded_sequence(x, torch.tensor([20, 9]), True))[0]
        assert isinstance(packed, PackedSequence)
        assert bool((packed.data == 0).any())
        assert torch.equal(stack.eval()(x)[0], x)
