"""Decoding by planned steps: the same as with all rows at every step, and only for the rows that still run."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from unspool import (
    AttentionWrapper,
    BahdanauAttention,
    BasicDecoder,
    GreedyEmbeddingHelper,
    GRUCell,
    LSTMCell,
    MultiRNNCell,
    RNNCell,
    SampleEmbeddingHelper,
    TrainingHelper,
    dynamic_decode,
)
from unspool.decode.free_running import FreeRunning
from unspool.engine.plans import cache
from unspool.structure import flatten

B, V, E, H, END = 5, 7, 4, 6, 2


class Script(RNNCell):
    """Puts out the logits of a script; the state has the number of the step, and of the one at which the row ends."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size, self.output_size = (1, 1), V

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        time, end = state
        ids = torch.where(time + 1 >= end, END, 3 + time % 2)
        return torch.relu(1 - (torch.arange(V, dtype=x.dtype) - ids).abs()), (time + 1, end)


def model(kind: str) -> tuple[Any, nn.Module]:
    torch.manual_seed(0)
    cells: dict[str, Any] = {
        "LSTM": lambda: LSTMCell(H, input_size=E),
        "GRU": lambda: GRUCell(H, input_size=E),
        "stack": lambda: MultiRNNCell([LSTMCell(H, input_size=E), GRUCell(H, input_size=H)]),
    }
    if kind == "attention":
        memory = torch.randn(B, 3, H, dtype=torch.float64)
        mechanism = BahdanauAttention(H, memory, [3, 1, 2, 3, 2], dtype=torch.float64)
        cell: Any = AttentionWrapper(LSTMCell(H), mechanism, attention_layer_size=H)
    else:
        cell = cells[kind]()
    return cell.double(), nn.Linear(H, V).double()


def decoded(kind: str, sample: bool, *, planned: bool, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Everything that a decode returns; `planned` or not."""
    cell, layer = model(kind)
    table = torch.randn(V, E, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    if sample:
        generator = torch.Generator().manual_seed(3)
        helper: Any = SampleEmbeddingHelper(table, [1] * B, END, 1.5, generator=generator)
    else:
        helper = GreedyEmbeddingHelper(table, [0, 1, 3, 4, 5], END)
    decoder = BasicDecoder(cell, helper, cell.zero_state(B, torch.float64), layer)
    if not planned:
        monkeypatch.setattr(BasicDecoder, "free_running", lambda *_: None)
    with torch.no_grad():
        outputs, state, lengths = dynamic_decode(decoder, maximum_iterations=12)
    return [*flatten(outputs), *flatten(state), lengths]


@pytest.mark.compiled
@pytest.mark.parametrize("emitter", ["c++", "interpreted"])
@pytest.mark.parametrize("sample", [False, True], ids=["greedy", "sampled"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "stack", "attention"])
def test_it_is_what_all_rows_at_every_step_give(
    kind: str, sample: bool, emitter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSPOOL_EMIT", emitter)
    runs: list[FreeRunning] = []
    make = FreeRunning.__init__
    monkeypatch.setattr(FreeRunning, "__init__", lambda self, *given: (runs.append(self), make(self, *given))[1])
    found = decoded(kind, sample, planned=True, monkeypatch=monkeypatch)
    expected = decoded(kind, sample, planned=False, monkeypatch=monkeypatch)
    assert len(runs) == 1
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_it_computes_as_many_rows_as_the_lengths_add_up_to(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[FreeRunning] = []
    make = FreeRunning.__init__
    monkeypatch.setattr(FreeRunning, "__init__", lambda self, *given: (runs.append(self), make(self, *given))[1])
    ends = torch.tensor([[4.0], [1.0], [9.0], [2.0], [9.0]])
    helper = GreedyEmbeddingHelper(torch.eye(V), [0] * B, END)
    decoder = BasicDecoder(Script(), helper, (torch.zeros(B, 1), ends))
    outputs, (time, _), lengths = dynamic_decode(decoder)
    assert lengths.tolist() == [4, 1, 9, 2, 9]
    assert torch.equal(time[:, 0], ends[:, 0])
    assert runs[0].row_steps == int(lengths.sum())
    for b, length in enumerate(lengths.tolist()):
        assert outputs.sample_id[b, length - 1 :].eq(END).all()
        assert not outputs.rnn_output[b, length:].any()


def test_only_samples_are_kept_if_nobody_asks_for_more() -> None:
    cell, layer = model("LSTM")
    helper = GreedyEmbeddingHelper(torch.eye(V, E, dtype=torch.float64), [0] * B, END)
    state = cell.zero_state(B, torch.float64)
    both = [
        dynamic_decode(BasicDecoder(cell, helper, state, layer, keep_outputs=keep), maximum_iterations=6)
        for keep in (True, False)
    ]
    assert both[1][0].rnn_output == ()
    assert torch.equal(both[0][0].sample_id, both[1][0].sample_id)
    with torch.no_grad():
        free = dynamic_decode(BasicDecoder(cell, helper, state, layer, keep_outputs=False), maximum_iterations=6)
    assert torch.equal(both[0][0].sample_id, free[0].sample_id)


def test_a_plan_is_made_once_for_a_model_however_often_it_decodes() -> None:
    cell, layer = model("GRU")
    helper = GreedyEmbeddingHelper(torch.eye(V, E, dtype=torch.float64), [0] * B, END)
    before = cache.traces
    for rows in (B, B, 2):
        own = GreedyEmbeddingHelper(torch.eye(V, E, dtype=torch.float64), [0] * rows, END) if rows < B else helper
        with torch.no_grad():
            dynamic_decode(BasicDecoder(cell, own, cell.zero_state(rows, torch.float64), layer), maximum_iterations=3)
    assert cache.traces <= before + 1


def test_gradients_are_not_given_up_for_it() -> None:
    cell, layer = model("GRU")
    helper = GreedyEmbeddingHelper(torch.eye(V, E, dtype=torch.float64), [0] * B, END)
    outputs, _, _ = dynamic_decode(
        BasicDecoder(cell, helper, cell.zero_state(B, torch.float64), layer), maximum_iterations=3
    )
    outputs.rnn_output.sum().backward()
    assert all(weight.grad is not None for weight in layer.parameters())


def test_a_cell_that_lets_rows_meet_is_decoded_with_all_of_them(caplog: pytest.LogCaptureFixture) -> None:
    class Meeting(RNNCell):
        def __init__(self) -> None:
            super().__init__()
            self.state_size = self.output_size = V

        def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
            state = torch.tanh(state + x.mean(0))
            return state, state

    helper = GreedyEmbeddingHelper(torch.eye(V), [0, 1, 3], END)
    with torch.no_grad(), caplog.at_level(logging.INFO, "unspool"):
        dynamic_decode(BasicDecoder(Meeting(), helper, torch.randn(3, V)), maximum_iterations=4)
    assert "decoded with all rows at every step" in caplog.text


# -- teacher forcing ---------------------------------------------------------------------------------------------------


def test_teacher_forcing_runs_by_one_plan_with_the_layer_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cell, layer = model("LSTM")
    monkeypatch.setattr(LSTMCell, "forward", _only_traced(LSTMCell.forward))
    inputs = torch.randn(B, 9, E, dtype=torch.float64)
    before = cache.traces
    for lengths in ([9, 2, 0, 5, 9], [1, 1, 1, 0, 3]):
        helper = TrainingHelper(inputs, lengths)
        decoder = BasicDecoder(cell, helper, cell.zero_state(B, torch.float64), layer)
        outputs, _, found = dynamic_decode(decoder)
        assert found.tolist() == lengths
        assert outputs.rnn_output.shape == (B, max(lengths), V)
        outputs.rnn_output.sum().backward()
    assert cache.traces <= before + 1
    assert all(weight.grad is not None for weight in [*cell.parameters(), *layer.parameters()])


def _only_traced(forward: Any) -> Any:
    """A step that may be traced, but not run."""

    def step(self: Any, inputs: Tensor, state: Any) -> Any:
        assert isinstance(inputs, FakeTensor) or inputs.__class__ is not Tensor, "a step was run in Python"
        return forward(self, inputs, state)

    return step


@pytest.mark.parametrize("most", [1, 3, 5, 6, 50])
def test_teacher_forcing_is_as_long_as_its_longest_row_whatever_the_bound(most: int) -> None:
    cell, layer = model("GRU")
    helper = TrainingHelper(torch.randn(B, 6, E, dtype=torch.float64), [5, 0, 2, 5, 1])
    decoder = BasicDecoder(cell, helper, cell.zero_state(B, torch.float64), layer)
    outputs, _, lengths = dynamic_decode(decoder, maximum_iterations=most)
    assert lengths.tolist() == [min(length, most) for length in (5, 0, 2, 5, 1)]
    assert outputs.rnn_output.shape == (B, min(5, most), V)
    assert outputs.sample_id.shape == (B, min(5, most))


def test_a_memory_that_wants_gradients_gets_them() -> None:
    memory = torch.randn(B, 3, H, requires_grad=True)
    cell = AttentionWrapper(GRUCell(H), BahdanauAttention(H, memory), attention_layer_size=H)
    table, layer = torch.randn(V, E), nn.Linear(H, V)
    helper = GreedyEmbeddingHelper(table, [1] * B, END)
    with torch.no_grad():
        cell(helper.initialize()[1], cell.zero_state(B, torch.float32))  # builds it
    for weight in [*cell.parameters(), *layer.parameters()]:
        weight.requires_grad_(False)
    outputs, _, _ = dynamic_decode(
        BasicDecoder(cell, helper, cell.zero_state(B, torch.float32), layer), maximum_iterations=3
    )
    (gradient,) = torch.autograd.grad(outputs.rnn_output.sum(), [memory])
    assert gradient.abs().sum() > 0


def test_a_layer_that_is_made_anew_for_every_decode_is_planned_once() -> None:
    cell, layer = model("GRU")
    for weight in layer.parameters():
        weight.requires_grad_(False)
    table = torch.randn(V, E, dtype=torch.float64)
    traces = cache.traces
    for _ in range(3):
        helper = GreedyEmbeddingHelper(table, [1] * B, END)
        decoder = BasicDecoder(cell, helper, cell.zero_state(B, torch.float64), lambda h: layer(h))
        with torch.no_grad():
            dynamic_decode(decoder, maximum_iterations=2)
    assert cache.traces == traces + 1


class Late(RNNCell):
    """Puts out the state that it was given, which the engine changes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = V

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return state, 0.5 * state + x


@pytest.mark.compiled
def test_outputs_are_not_changed_by_later_steps() -> None:
    table = torch.randn(V, V, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    start = torch.randn(B, V, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    before = start.clone()
    decoder = BasicDecoder(Late(), GreedyEmbeddingHelper(table, [0] * B, END), start)
    with torch.no_grad():
        outputs, _, _ = dynamic_decode(decoder, impute_finished=True, maximum_iterations=6)
    assert torch.equal(start, before)
    expected, steps = start, []
    inputs = table[torch.zeros(B, dtype=torch.int64)]
    for _ in range(6):
        steps.append(expected)
        expected, inputs = 0.5 * expected + inputs, table[expected.argmax(-1)]
    running = (outputs.sample_id[:, :-1] != END).cumprod(1).bool()
    there = torch.cat([torch.ones(B, 1, dtype=torch.bool), running], 1)
    wanted = torch.stack(steps, 1)[:, : outputs.rnn_output.shape[1]]
    torch.testing.assert_close(outputs.rnn_output[there], wanted[there], rtol=1e-12, atol=1e-12)
