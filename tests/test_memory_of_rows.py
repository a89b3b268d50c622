"""Cells that read a tensor with a row for each of the batch, such as the memory of an attention."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unspool import (
    AttentionWrapper,
    BahdanauAttention,
    Checkpoint,
    Keep,
    LSTMCell,
    LSTMStateTuple,
    Recompute,
    RNNCell,
    dynamic_rnn,
    explain,
    static_rnn,
    strict,
)
from unspool import cell as cell_of
from unspool.engine.plans import cache

B, T, S, D, H = 4, 6, 5, 3, 4
LENGTHS = [6, 2, 0, 5]
POLICIES = [Keep(), Recompute(), Checkpoint(every=4)]


class Reader(RNNCell):
    """An LSTM that looks at a memory by additive attention, and is fed what it saw."""

    row_buffers = ("keys", "values")
    keys: Tensor
    values: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.cell = LSTMCell(H, input_size=D + S)
        self.query = nn.Linear(H, H, bias=False)
        self.v = nn.Parameter(torch.randn(H))
        self.state_size = (LSTMStateTuple(H, H), S)
        self.output_size = H
        self.register_buffer("keys", torch.zeros(0), persistent=False)
        self.register_buffer("values", torch.zeros(0), persistent=False)

    def forward(self, x: Tensor, state: Any) -> Any:
        inner, seen = state
        h, inner = self.cell(torch.cat([x, seen], 1), inner)
        scores = (self.v * torch.tanh(self.keys + self.query(h)[:, None])).sum(-1)
        weights = torch.softmax(scores, -1)
        seen = (weights[:, None] @ self.values)[:, 0]
        return h * seen[:, :H], (inner, seen)


def reader_and_tensors() -> tuple[Reader, list[Tensor]]:
    torch.manual_seed(0)
    cell = Reader().double()
    return cell, [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes_of(B)]


def shapes_of(batch: int) -> list[tuple[int, ...]]:
    """Of inputs, keys and values."""
    return [(T, batch, D), (batch, S, H), (batch, S, S)]


def everything(cell: Reader, tensors: list[Tensor], loop: Any) -> list[Tensor]:
    """Outputs, final state and the gradients of all tensors and weights."""
    inputs, cell.keys, cell.values = tensors
    outputs, (inner, seen) = loop(cell, inputs)
    results = [outputs, *inner, seen]
    loss: Tensor = sum((result.sin().sum() for result in results), start=torch.zeros(()))
    return [*results, *torch.autograd.grad(loss, [*tensors, *cell.parameters()])]


def by_steps(lengths: list[int] | None) -> Any:
    def loop(cell: Any, inputs: Tensor) -> Any:
        outputs, state = static_rnn(cell, list(inputs), dtype=torch.float64, sequence_length=lengths)
        return torch.stack(list(outputs)), state

    return loop


@pytest.mark.compiled
@pytest.mark.parametrize("emitter", ["c++", "interpreted"])
@pytest.mark.parametrize("memory", POLICIES, ids=repr)
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "lengths"])
def test_planned_loops_equal_the_plain_one(
    lengths: list[int] | None, memory: Any, emitter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSPOOL_EMIT", emitter)
    cell, tensors = reader_and_tensors()

    def loop(cell: Any, inputs: Tensor) -> Any:
        how = {"dtype": torch.float64, "time_major": True, "memory": memory, "parallel_iterations": 2}
        told = explain(cell, inputs, lengths, **how)
        assert told.planned, told.reason
        return dynamic_rnn(cell, inputs, lengths, **how)

    found, expected = everything(cell, tensors, loop), everything(cell, tensors, by_steps(lengths))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


class Unlisted(nn.Module):
    """A step that looks at a buffer, without saying that it has a row for each of the batch."""

    def __init__(self, memory: Tensor) -> None:
        super().__init__()
        self.query = nn.Linear(D, H, dtype=torch.float64)
        self.register_buffer("memory", memory)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        weights = torch.softmax(torch.einsum("bd,bsd->bs", self.query(x), self.memory), 1)
        return torch.tanh(h + torch.einsum("bs,bsd->bd", weights, self.memory))


def test_row_buffers_may_be_listed_by_one_module_alone() -> None:
    torch.manual_seed(0)
    module = Unlisted(torch.randn(B, S, H, dtype=torch.float64))
    module.row_buffers = ("memory",)  # type: ignore[assignment]
    reader, inputs = cell_of(module, returns="state"), torch.randn(B, T, D, dtype=torch.float64)
    with strict():
        found = dynamic_rnn(reader, inputs, LENGTHS, torch.zeros(B, H, dtype=torch.float64))
    outputs, state = static_rnn(
        reader, list(inputs.unbind(1)), torch.zeros(B, H, dtype=torch.float64), sequence_length=LENGTHS
    )
    expected = torch.stack(list(outputs), 1), state
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    weights = list(module.parameters())
    ours, theirs = (torch.autograd.grad(run[0].sin().sum(), weights) for run in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_row_buffers_of_a_module_in_a_closure_are_found() -> None:
    module = Unlisted(torch.randn(B, S, H, dtype=torch.float64))
    module.row_buffers = ["memory"]  # type: ignore[assignment]
    reader = cell_of(lambda x, h: (h, module(x, h)))
    inputs, state = torch.randn(B, T, D, dtype=torch.float64), torch.zeros(B, H, dtype=torch.float64)
    assert explain(reader, inputs, LENGTHS, state).planned
    found = dynamic_rnn(reader, inputs, LENGTHS, state)
    outputs, final = static_rnn(reader, list(inputs.unbind(1)), state, sequence_length=LENGTHS)
    torch.testing.assert_close(found, (torch.stack(list(outputs), 1), final), rtol=1e-10, atol=1e-12)


def test_what_stops_a_trace_is_a_reason_and_no_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    memory = torch.randn(B + 1, S, D)
    reader = cell_of(lambda x, h: (h, torch.tanh((x[:, None] + memory).sum(1) + h)))
    told = explain(reader, torch.randn(B, T, D), None, torch.zeros(B, D))
    assert told.reason is not None
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_memory_is_not_kept_for_every_step() -> None:
    cell, (inputs, keys, values) = reader_and_tensors()
    cell.keys, cell.values = keys, values
    told = explain(cell, inputs, dtype=torch.float64, time_major=True, memory=Recompute())
    assert told.memory is not None
    assert told.memory.chosen.row_bytes == 8 * (2 * H + S)  # c, h and what was seen


def test_no_step_leaves_anything_as_large_as_a_memory() -> None:
    """Neither kept for backward, nor for what is computed after the loop over a chunk."""
    places, units = 16, 8
    attention = BahdanauAttention(units)
    cell = AttentionWrapper(LSTMCell(units), attention)
    attention.setup_memory(torch.randn(B, places, units, requires_grad=True))
    told = explain(cell, torch.randn(B, T, D), initial_state=cell.zero_state(B, torch.float32), dtype=torch.float32)
    for direction in (told.forward, told.backward):
        assert direction is not None
        lines = direction.program.splitlines()
        (left,) = [line.split()[1:] for line in lines if line.startswith("  emit ")]
        shapes = dict(re.findall(r"(\w+): \w+\[([^]]*)\]", direction.program))
        assert f"rows, {places}, {units}" in shapes.values()
        assert f"rows, {places}, {units}" not in {shapes[name.strip(",")] for name in left}


def test_another_memory_in_every_batch_is_read_and_needs_no_other_plan() -> None:
    cell, _ = reader_and_tensors()
    before = cache.traces
    for batch, policy in itertools.product((4, 3, 1), POLICIES):
        tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes_of(batch)]
        how = {"dtype": torch.float64, "time_major": True, "memory": policy}
        for _ in range(2):  # the second time at a glance
            found = everything(cell, tensors, lambda cell, inputs, how=how: dynamic_rnn(cell, inputs, **how))
            for one, other in zip(found, everything(cell, tensors, by_steps(None)), strict=True):
                torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
            tensors = [tensor.detach().mul(0.5).requires_grad_() for tensor in tensors]
    assert cache.traces <= before + 1  # none if another test has made it


def test_a_memory_for_another_batch_is_left_to_the_cell() -> None:
    cell, (inputs, keys, values) = reader_and_tensors()
    cell.keys, cell.values = keys[:3], values[:3]
    told = explain(cell, inputs, dtype=torch.float64, time_major=True)
    assert not told.planned
    assert told.reason is not None
    assert "no row for each of 4" in str(told.reason)


def test_gradients_of_gradients_reach_the_memory() -> None:
    cell, tensors = reader_and_tensors()
    inputs, keys, values = tensors

    def loss(inputs: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        cell.keys, cell.values = keys, values
        outputs, _ = dynamic_rnn(cell, inputs, LENGTHS, dtype=torch.float64, time_major=True)
        return outputs.sin().sum()

    (first,) = torch.autograd.grad(loss(inputs, keys, values), [keys], create_graph=True)
    (found,) = torch.autograd.grad(first.square().sum(), [values])
    cell.keys, cell.values = keys, values
    outputs = by_steps(LENGTHS)(cell, inputs)[0]
    (first,) = torch.autograd.grad(outputs.sin().sum(), [keys], create_graph=True)
    (expected,) = torch.autograd.grad(first.square().sum(), [values])
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
