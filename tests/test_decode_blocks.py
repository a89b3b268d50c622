"""Greedy decoding in blocks of steps, which is for GPUs, on the CPU: the same as step by step."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unspool import (
    AttentionWrapper,
    BasicDecoder,
    BasicDecoderOutput,
    GreedyEmbeddingHelper,
    GRUCell,
    LSTMCell,
    LSTMStateTuple,
    LuongAttention,
    RNNCell,
    SampleEmbeddingHelper,
    dynamic_decode,
)
from unspool.decode import decoder as decoders
from unspool.decode.blocks import Blocks
from unspool.engine.plans import making
from unspool.structure import flatten

B, V, E, H, END = 6, 5, 4, 8, 2
SEED = 16  # with which rows end early, late and never


def decoder(kind: str, **options: Any) -> BasicDecoder:
    """The same one every time."""
    torch.manual_seed(SEED)
    table, layer = 3 * torch.randn(V, E), nn.Linear(H, V)
    if kind == "attention":
        cell: Any = AttentionWrapper(GRUCell(H), LuongAttention(H, torch.randn(B, 3, H), [3, 1, 2, 3, 2, 1]))
        state: Any = cell.zero_state(B, torch.float32).clone(cell_state=torch.randn(B, H))
    else:
        cell = LSTMCell(H, input_size=E)
        state = LSTMStateTuple(c=torch.randn(B, H), h=torch.randn(B, H))
    embedding: Any = nn.Embedding.from_pretrained(table) if kind == "module" else table
    if kind == "looking":

        def embedding(ids: Tensor) -> Tensor:
            return torch.stack([table[number] for number in ids.tolist()])

    helper = GreedyEmbeddingHelper(embedding, [0, 1, 3, 4, 0, 1], END)
    return BasicDecoder(cell, helper, state, layer, **options)


class Clock(RNNCell):
    """Ends each row after as many steps as its state says."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size, self.output_size = 1, V

    def forward(self, x: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
        said = torch.where(left <= 1, END, 3)
        return (torch.arange(V) == said).float(), left - 1


def decoded(kind: str, bound: int, **options: Any) -> list[Tensor]:
    with torch.no_grad():
        outputs, state, lengths = dynamic_decode(decoder(kind, **options), maximum_iterations=bound)
    return [*flatten(outputs), *flatten(state), lengths]


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> list[Blocks]:
    """Decodes in blocks, here too; the list has them."""
    made: list[Blocks] = []
    make = Blocks.__init__

    def note(self: Blocks, *given: Any) -> None:
        made.append(self)
        make(self, *given)

    monkeypatch.setattr(decoders, "IN_BLOCKS", ("cpu",))
    monkeypatch.setattr(Blocks, "__init__", note)
    return made


@pytest.mark.parametrize("kind", ["matrix", "module", "attention"])
@pytest.mark.parametrize("bound", [1, 4, 7, 15])
@pytest.mark.parametrize("steps", [(1,), (2, 3), (16,)])
def test_blocks_are_the_same_as_steps(
    kind: str, bound: int, steps: tuple[int, ...], in_blocks: list[Blocks], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(decoders, "IN_BLOCKS", ())
        expected = decoded(kind, bound)
    assert not in_blocks
    monkeypatch.setattr(Blocks, "STEPS", steps)
    found = decoded(kind, bound)
    assert len(in_blocks) == 1
    for one, other in zip(found, expected, strict=True):
        # Many rows at once, or few, add up in another order.
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lengths", [[3, 3, 3, 30], [3, 3, 3, 3, 20], [1], [16, 16], [5, 50, 17, 16, 33]])
def test_every_row_ends_where_it_says(lengths: list[int], in_blocks: list[Blocks]) -> None:
    helper = GreedyEmbeddingHelper(torch.zeros(V, 2), [0] * len(lengths), END)
    left = torch.tensor(lengths)[:, None].float()
    with torch.no_grad():
        outputs, state, found = dynamic_decode(BasicDecoder(Clock(), helper, left), maximum_iterations=200)
    assert in_blocks
    assert found.tolist() == lengths
    assert state.flatten().tolist() == [0] * len(lengths)
    assert outputs.sample_id.tolist() == [
        [3] * (length - 1) + [END] * (max(lengths) - length + 1) for length in lengths
    ]


def test_no_rows_are_decoded_to_nothing(in_blocks: list[Blocks]) -> None:
    helper = GreedyEmbeddingHelper(torch.zeros(V, 2), torch.zeros(0, dtype=torch.int64), END)
    with torch.no_grad():
        outputs, _, lengths = dynamic_decode(BasicDecoder(Clock(), helper, torch.zeros(0, 1)), maximum_iterations=20)
    assert not in_blocks
    assert outputs.sample_id.shape == (0, 0)
    assert lengths.shape == (0,)


def test_a_decoder_says_what_stands_past_the_end(in_blocks: list[Blocks]) -> None:
    class Padded(BasicDecoder):
        @property
        def output_padding(self) -> Any:
            return BasicDecoderOutput(9.0, -1)

    helper = GreedyEmbeddingHelper(torch.zeros(V, 2), [0, 0], END)
    with torch.no_grad():
        outputs, _, _ = dynamic_decode(Padded(Clock(), helper, torch.tensor([[1.0], [3.0]])), maximum_iterations=20)
    assert in_blocks
    assert outputs.sample_id[0].tolist() == [END, -1, -1]
    assert outputs.rnn_output[0, 1:].tolist() == [[9.0] * V] * 2


def test_a_trainable_embedding_gets_its_gradient(in_blocks: list[Blocks]) -> None:
    embedding = nn.Embedding(V, V)
    cell = GRUCell(V, input_size=V)
    for weight in cell.parameters():
        weight.requires_grad_(False)
    helper = GreedyEmbeddingHelper(embedding, [0, 1], END)
    outputs, _, _ = dynamic_decode(BasicDecoder(cell, helper, torch.zeros(2, V)), maximum_iterations=2)
    assert not in_blocks
    assert outputs.rnn_output.requires_grad


def test_outputs_need_not_be_kept(in_blocks: list[Blocks]) -> None:
    with torch.no_grad():
        kept, _, _ = dynamic_decode(decoder("matrix"), maximum_iterations=15)
        outputs, _, _ = dynamic_decode(decoder("matrix", keep_outputs=False), maximum_iterations=15)
    assert outputs.rnn_output == ()
    assert torch.equal(outputs.sample_id, kept.sample_id)
    assert len(in_blocks) == 2


def test_a_decode_without_a_bound_ends_with_its_last_row(in_blocks: list[Blocks]) -> None:
    one = decoder("matrix", keep_outputs=False)
    one.output_layer.bias.data[END] = 20.0  # pyright: ignore
    with torch.no_grad():
        outputs, _, lengths = dynamic_decode(one)
    assert in_blocks
    assert outputs.sample_id.shape[1] == int(lengths.max())


def test_rows_that_have_ended_are_left_out(in_blocks: list[Blocks], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Blocks, "STEPS", (1,))
    monkeypatch.setattr(Blocks, "FEW", 2)
    lengths = decoded("matrix", 15)[-1]
    assert lengths.min() < lengths.max()
    (blocks,) = in_blocks
    assert blocks.rows < B


def test_a_decode_like_the_last_one_is_seen_at_a_glance(
    in_blocks: list[Blocks], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = decoder("module")
    helper: Any = one.helper

    def ids(end_token: int) -> Tensor:
        again = GreedyEmbeddingHelper(one.helper.embedding.as_module(), helper.start_tokens, end_token)  # pyright: ignore
        same = BasicDecoder(one.cell, again, one.initial_state, one.output_layer)
        with torch.no_grad():
            return dynamic_decode(same, maximum_iterations=7)[0].sample_id

    first = ids(END)
    fingerprint = making.Fingerprint
    monkeypatch.setattr(making, "Fingerprint", lambda _: pytest.fail("a second look"))
    assert torch.equal(ids(END), first)
    monkeypatch.setattr(making, "Fingerprint", fingerprint)
    assert not torch.equal(ids(3), first)  # another model
    assert len(in_blocks) == 3


def test_a_decode_does_not_keep_its_cell(in_blocks: list[Blocks]) -> None:
    one = decoder("module")
    with torch.no_grad():
        dynamic_decode(one, maximum_iterations=3)
    kept = weakref.ref(one.cell)
    in_blocks.clear()
    del one
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("why", ["gradients", "looking", "sampling"])
def test_what_needs_single_steps_gets_them(why: str, in_blocks: list[Blocks]) -> None:
    one = decoder("looking" if why == "looking" else "matrix")  # at ids, which no plan does
    if why == "sampling":
        one.helper = SampleEmbeddingHelper(torch.randn(V, E), [1] * B, END, seed=0)
    with torch.set_grad_enabled(why == "gradients"):
        outputs, _, _ = dynamic_decode(one, maximum_iterations=3)
    assert not in_blocks
    assert outputs.rnn_output.requires_grad is (why == "gradients")
