"""Decoding and memories of rows on a GPU: the numbers of the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unspool import (
    AttentionWrapper,
    BahdanauAttention,
    BasicDecoder,
    BeamSearchDecoder,
    GreedyEmbeddingHelper,
    LSTMCell,
    LuongAttention,
    SampleEmbeddingHelper,
    dynamic_decode,
    dynamic_rnn,
    explain,
    stream,
    tile_batch,
)
from unspool.decode.blocks import Blocks
from unspool.decode.free_running import LOOKS, FreeRunning
from unspool.engine.emit.graphs.graphed import Graphed
from unspool.structure import flatten

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.compiled,
]

B, V, E, H, S, END = 5, 9, 4, 6, 3, 2
LENGTHS = [3, 1, 2, 3, 2]


def model(kind: str, device: str) -> tuple[Any, nn.Module, Tensor]:
    """A cell, its output layer and an embedding; the same numbers on every device."""
    torch.manual_seed(0)
    cell: Any = LSTMCell(H, input_size=E) if kind == "LSTM" else LSTMCell(H)
    layer, table = nn.Linear(H, V), torch.randn(V, E)
    if kind == "attention":
        mechanism = BahdanauAttention(H, torch.randn(B, S, H), LENGTHS)
        cell = AttentionWrapper(cell, mechanism, attention_layer_size=H)
        with torch.no_grad():
            dynamic_rnn(cell, torch.zeros(B, 1, E), dtype=torch.float32)  # builds it
    cell = cell.double().to(device)
    if kind == "attention":
        torch.manual_seed(5)
        memory = torch.randn(B, S, H, dtype=torch.float64)
        cell.attention_mechanisms[0].setup_memory(memory.to(device), torch.tensor(LENGTHS, device=device))
    return cell, layer.double().to(device), table.double().to(device)


def decoded(kind: str, sample: bool, device: str) -> list[Tensor]:
    cell, layer, table = model(kind, device)
    start = torch.ones(B, dtype=torch.int64, device=device)
    helper: Any = GreedyEmbeddingHelper(table, torch.arange(B, device=device) + 3, END)
    if sample:
        helper = SampleEmbeddingHelper(table, start, END, generator=torch.Generator().manual_seed(3))
    with torch.device(device):
        state = cell.zero_state(B, torch.float64)
    with torch.no_grad():
        outputs, final, lengths = dynamic_decode(BasicDecoder(cell, helper, state, layer), maximum_iterations=21)
    return [leaf.cpu() for leaf in [*flatten(outputs), *flatten(final), lengths]]


@pytest.mark.parametrize("kind", ["LSTM", "attention"])
def test_free_running_gives_the_numbers_of_the_cpu(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[FreeRunning] = []
    make = FreeRunning.__init__
    monkeypatch.setattr(FreeRunning, "__init__", lambda self, *given: (runs.append(self), make(self, *given))[1])
    found, expected = decoded(kind, True, "cuda"), decoded(kind, True, "cpu")
    assert len(runs) == 2
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)
    lengths = expected[-1]
    assert runs[0].row_steps <= int(lengths.sum()) + (LOOKS - 1) * B


@pytest.mark.parametrize("kind", ["LSTM", "attention"])
def test_blocks_of_steps_give_the_numbers_of_the_cpu(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Blocks, "STEPS", (4,))
    replays: list[int] = []
    replay: Any = Graphed._replay  # pyright: ignore[reportPrivateUsage]

    def noted(*given: Any) -> Any:
        replays.append(1)
        return replay(*given)

    monkeypatch.setattr(Graphed, "_replay", noted)
    expected = decoded(kind, False, "cpu")
    for _ in range(2):  # the second time, all blocks are replayed
        for one, other in zip(decoded(kind, False, "cuda"), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)
    assert replays


@pytest.mark.parametrize("rows", [1, 5, 64, 70])
def test_few_rows_in_float32_say_what_the_cpu_says_in_float64(rows: int) -> None:
    torch.manual_seed(0)
    cell, layer, table = LSTMCell(64, input_size=32), nn.Linear(64, 100), 3 * torch.randn(100, 32)
    start = torch.arange(rows) % 100
    said: list[Tensor] = []
    for device, dtype in (("cpu", torch.float64), *[("cuda", torch.float32)] * 3):  # at last, all blocks are replayed
        cell.to(device, dtype), layer.to(device, dtype)
        helper = GreedyEmbeddingHelper(table.to(device, dtype), start.to(device), 99)
        with torch.device(device):
            state = cell.zero_state(rows, dtype)
        with torch.no_grad():
            outputs, _, _ = dynamic_decode(
                BasicDecoder(cell, helper, state, layer, keep_outputs=False), maximum_iterations=70
            )
        said.append(outputs.sample_id.cpu())
    assert len(said[0].unique()) > 20
    assert all(torch.equal(each, said[0]) for each in said)


def test_a_greedy_stream_takes_single_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    cell, layer, table = model("LSTM", "cuda")
    helper = GreedyEmbeddingHelper(table, torch.arange(B, device="cuda") + 3, END)
    with torch.device("cuda"):
        state = cell.zero_state(B, torch.float64)
    decoder = BasicDecoder(cell, helper, state, layer)
    monkeypatch.setattr(Blocks, "run", lambda *_: pytest.fail("a stream hands out every step"))
    steps = list(stream(decoder, 9))
    monkeypatch.undo()
    with torch.no_grad():
        outputs, _, _ = dynamic_decode(decoder, maximum_iterations=9)
    assert torch.equal(torch.stack([step.sample_id for step in steps], 1), outputs.sample_id)


@pytest.mark.parametrize("mechanism", [BahdanauAttention, LuongAttention])
def test_attention_is_planned_and_trains_as_on_the_cpu(mechanism: Any) -> None:
    gradients: list[list[Tensor]] = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        own = mechanism(H, torch.randn(B, S, H), LENGTHS)
        cell = AttentionWrapper(LSTMCell(H), own, attention_layer_size=H)
        inputs = torch.randn(B, 7, E, dtype=torch.float64).to(device)
        with torch.no_grad():
            dynamic_rnn(cell, torch.zeros(B, 1, E), dtype=torch.float32)
        cell.double().to(device)
        torch.manual_seed(1)
        memory = torch.randn(B, S, H, dtype=torch.float64).to(device).requires_grad_()
        own.setup_memory(memory, torch.tensor(LENGTHS, device=device))
        assert explain(cell, inputs, [7, 0, 3, 7, 1], dtype=torch.float64).planned
        outputs, _ = dynamic_rnn(cell, inputs, [7, 0, 3, 7, 1], dtype=torch.float64)
        found = torch.autograd.grad(outputs.sin().sum(), [memory, *cell.parameters()])
        gradients.append([leaf.cpu() for leaf in (outputs.detach(), *found)])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_beam_search_gives_the_numbers_of_the_cpu() -> None:
    results: list[list[Tensor]] = []
    for device in ("cpu", "cuda"):
        cell, layer, table = model("LSTM", device)
        with torch.device(device):
            state = tile_batch(cell.zero_state(B, torch.float64), 3)
        start = torch.ones(B, dtype=torch.int64, device=device)
        decoder = BeamSearchDecoder(cell, table, start, END, state, 3, layer, length_penalty_weight=0.5)
        with torch.no_grad():
            outputs, _, lengths = dynamic_decode(decoder, maximum_iterations=12)
        results.append([leaf.cpu() for leaf in (outputs.predicted_ids, lengths)])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
