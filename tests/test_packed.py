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
from unspool.structure import flatten

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
