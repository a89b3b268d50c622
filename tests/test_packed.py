"""Packed rows in the engine: the numbers of padded sequences with lengths, without the padding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unspool
from unspool import Checkpoint, Keep, Recompute, RNNCell, dynamic_rnn
from unspool.engine import Options, entry
from unspool.engine.execute.layout import PackedLayout
from unspool.engine.request import Request
from unspool.structure import flatten, map_structure

COUNTS, LENGTHS = (4, 4, 3, 1, 1, 1), [6, 3, 3, 2]


class Checked(RNNCell):
    """Checks its inputs, which a plan does once."""

    state_size = output_size = 3

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        if not torch.isfinite(x).all():
            raise ValueError("inputs must be finite")
        h = torch.tanh(x + 0.5 * h)
        return h, h


class Summing(RNNCell):
    """Cannot be planned: it asks for values."""

    state_size = output_size = 3

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(x + h) if x.sum() > -1e9 else h
        return h, h


class Reading(RNNCell):
    """Two inputs, two outputs."""

    state_size, output_size = 3, (3, 3)

    def forward(self, x: Any, h: Tensor) -> tuple[Any, Tensor]:
        new = torch.sigmoid(x[0] - h) * x[1]
        return (new, h), new


CELLS = {
    "LSTMCell": lambda: unspool.LSTMCell(3, input_size=3),
    "a GRU with dropout that keeps all": lambda: unspool.DropoutWrapper(unspool.GRUCell(3, input_size=3), 1.0),
    "Checked": Checked,
    "Summing": Summing,
    "Reading": Reading,
}


def packed(cell: Any, inputs: Any, memory: Any = None) -> Any:
    """The engine on packed rows."""
    rows = flatten(inputs)[0].shape[1]
    layout = PackedLayout.of_counts(COUNTS, torch.device("cpu"))
    given = tuple(map(layout.packed, inputs)) if isinstance(inputs, tuple) else layout.packed(inputs)
    state = cell.zero_state(rows, torch.float64)
    options = Options(parallel_iterations=4, memory=memory)
    outputs, state = entry.run(Request(cell, given, None, state, torch.float64, options, counts=COUNTS))
    return [*map(layout.padded, flatten(outputs)), *flatten(state)]


def padded(cell: Any, inputs: Any, memory: Any = None) -> Any:
    """`dynamic_rnn` with lengths."""
    outputs, state = dynamic_rnn(cell, inputs, LENGTHS, dtype=torch.float64, time_major=True, memory=memory)
    return [*flatten(outputs), *flatten(state)]


def inputs_of(kind: str) -> Any:
    torch.manual_seed(0)
    x = torch.randn(2, 6, 4, 3, dtype=torch.float64)
    return (x[0].requires_grad_(), x[1].requires_grad_()) if kind == "Reading" else x[0].clone().requires_grad_()


def check(results: list[list[Tensor]], sources: list[Tensor]) -> None:
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-13)
    gradients = [torch.autograd.grad(sum((each**2).sum() for each in found), sources) for found in results]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::unspool.PerformanceWarning")  # of the cell that is there for it
@pytest.mark.parametrize("memory", [Keep(), Recompute(), Checkpoint(every=2)], ids=str)
@pytest.mark.parametrize("kind", CELLS)
def test_results_and_gradients_are_those_of_padded_sequences(kind: str, memory: Any) -> None:
    cell, inputs = CELLS[kind]().double(), inputs_of(kind)
    check([packed(cell, inputs, memory), padded(cell, inputs, memory)], [*flatten(inputs), *cell.parameters()])


@pytest.mark.compiled
@pytest.mark.parametrize("memory", [Keep(), Recompute()], ids=str)
def test_compiled(memory: Any) -> None:
    cell, inputs = unspool.LSTMCell(3, input_size=3).double(), inputs_of("LSTMCell")
    check([packed(cell, inputs, memory), padded(cell, inputs, memory)], [inputs, *cell.parameters()])


def test_gradients_of_gradients() -> None:
    cell, inputs = unspool.LSTMCell(3, input_size=3).double(), inputs_of("LSTMCell")
    sources, seconds = [inputs, *cell.parameters()], []
    for run in (packed, padded):
        first = torch.autograd.grad(run(cell, inputs)[0].pow(2).sum(), sources, create_graph=True)
        seconds.append(torch.autograd.grad(sum((each**2).sum() for each in first), sources))
    for one, other in zip(*seconds, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_one_plan_serves_packed_and_padded_rows(plans: list[Any]) -> None:
    cell, inputs = unspool.GRUCell(3, input_size=3).double(), inputs_of("GRUCell")
    padded(cell, inputs)
    made = len(plans)
    packed(cell, inputs)
    assert len(plans) == made


def test_values_are_checked_at_the_first_call() -> None:
    inputs = inputs_of("Checked").detach()
    inputs[0, 1] = float("nan")
    with pytest.raises(ValueError, match="inputs must be finite"):
        packed(Checked(), inputs)


def test_a_layout_pads_and_packs() -> None:
    layout = PackedLayout.of_counts(COUNTS, torch.device("cpu"))
    assert layout.lengths.tolist() == LENGTHS
    rows = torch.arange(14.0)
    expected = nn.utils.rnn.pad_packed_sequence(nn.utils.rnn.PackedSequence(rows, torch.tensor(COUNTS)))[0]
    assert torch.equal(layout.padded(rows), expected)
    assert torch.equal(layout.packed(expected), rows)


# -- layers -----------------------------------------------------------------------------------------------------------

ORDER = [2, 0, 3, 1]
LAYERS: dict[str, Any] = {
    "plain": lambda: unspool.RNN(unspool.LSTMCell(3, input_size=3)),
    "both directions": lambda: unspool.RNN(unspool.LSTMCell(3, input_size=3), bidirectional=True),
    "a learned state": lambda: unspool.RNN(unspool.GRUCell(3, input_size=3), initial_state="learned"),
    "all states": lambda: unspool.RNN(unspool.GRUCell(3, input_size=3), return_states="all"),
    "truncated": lambda: unspool.RNN(unspool.GRUCell(3, input_size=3), detach_every=2),
    "an unplanned cell": lambda: unspool.RNN(Summing()),
    "torch's cell": lambda: unspool.RNN(nn.LSTMCell(3, 3), memory=Recompute()),
}


@pytest.mark.filterwarnings("ignore::unspool.PerformanceWarning")  # of the cell that is there for it
@pytest.mark.parametrize("with_state", [False, True], ids=["its own state", "a state"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_on_a_packed_sequence_is_one_on_padded_rows_with_lengths(name: str, with_state: bool) -> None:
    torch.manual_seed(0)
    layer, x = LAYERS[name]().double(), torch.randn(4, 6, 3, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor(LENGTHS)[ORDER]
    state = map_structure(lambda leaf: leaf.detach().requires_grad_(), layer(x)[1]) if with_state else None
    sequence = nn.utils.rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=False)

    def padded(leaf: Any) -> Any:
        packed = isinstance(leaf, nn.utils.rnn.PackedSequence)
        return nn.utils.rnn.pad_packed_sequence(leaf, True)[0] if packed else leaf

    outputs, *rest = layer(sequence, state)
    assert isinstance(outputs, nn.utils.rnn.PackedSequence)
    shown = [padded(rest[1])] if len(rest) > 1 else []
    found = [padded(outputs), *flatten(rest[0]), *shown]
    outputs, *rest = layer(x, state, lengths)
    expected = [outputs, *flatten(rest[0]), *rest[1:]]
    weights = layer.cell.parameters() if with_state else layer.parameters()  # without what is learned to start from
    check([found, expected], [x, *(flatten(state) if with_state else ()), *weights])


def test_a_layer_builds_its_cell_for_packed_rows() -> None:
    layer = unspool.RNN(unspool.LSTMCell(4))
    outputs, state = layer(nn.utils.rnn.pack_sequence([torch.randn(5, 3), torch.randn(2, 3)]))
    assert outputs.data.shape == (7, 4)
    assert state.h.shape == (2, 4)
    assert sum(weight.numel() for weight in layer.parameters()) == (3 + 4 + 1) * 16


def test_packed_rows_are_not_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = unspool.RNN(unspool.GRUCell(4, input_size=3))
    sequence = nn.utils.rnn.pack_sequence([torch.randn(5, 3), torch.randn(2, 3)])
    monkeypatch.setattr("unspool.layers.batches.pad_packed_sequence", None)
    assert layer(sequence)[0].data.shape == (7, 4)


def test_a_state_of_another_number_of_rows_is_an_error() -> None:
    layer = unspool.RNN(unspool.GRUCell(4, input_size=3))
    sequence = nn.utils.rnn.pack_sequence([torch.randn(5, 3), torch.randn(2, 3)])
    with pytest.raises(ValueError, match=r"^state has shape \[3, 4\], but inputs have a batch of 2"):
        layer(sequence, torch.zeros(3, 4))
