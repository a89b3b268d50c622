"""`stream`: the steps of a decode as they come, stopped and resumed."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unspool import (
    AttentionWrapper,
    BasicDecoder,
    BeamSearchDecoder,
    GreedyEmbeddingHelper,
    GRUCell,
    LSTMCell,
    LSTMStateTuple,
    LuongAttention,
    SampleEmbeddingHelper,
    StreamPosition,
    TrainingHelper,
    dynamic_decode,
    stream,
)
from unspool.structure import flatten

B, V, E, H, END, STEPS = 6, 5, 4, 8, 2, 15
SEED = 16  # with which rows end early, late and never
KINDS = ["greedy", "sampled", "attention", "teacher forcing"]


def decoder(kind: str) -> BasicDecoder:
    """The same one every time."""
    torch.manual_seed(SEED)
    table, layer = 3 * torch.randn(V, E), nn.Linear(H, V)
    if kind == "attention":
        cell: Any = AttentionWrapper(GRUCell(H), LuongAttention(H, torch.randn(B, 3, H), [3, 1, 2, 3, 2, 1]))
        state = cell.zero_state(B, torch.float32).clone(cell_state=torch.randn(B, H))
    else:
        cell = LSTMCell(H, input_size=E)
        state = LSTMStateTuple(c=torch.randn(B, H), h=torch.randn(B, H))
    if kind == "teacher forcing":
        helper: Any = TrainingHelper(torch.randn(B, 7, E), [7, 1, 0, 3, 7, 2])
    elif kind == "sampled":
        helper = SampleEmbeddingHelper(table, [1] * B, END, generator=torch.Generator().manual_seed(7))
    else:
        helper = GreedyEmbeddingHelper(table, [0, 1, 3, 4, 0, 1], END)
    return BasicDecoder(cell, helper, state, layer)


def collected(steps: list[Any]) -> list[Tensor]:
    return [torch.stack(column, 1) for column in zip(*map(flatten, steps), strict=True)]


def assert_same(found: Any, expected: Any) -> None:
    # A step alone and many at once add up in another order.
    for one, other in zip(flatten(found), flatten(expected), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.compiled
@pytest.mark.parametrize("kind", KINDS)
def test_its_steps_are_those_of_dynamic_decode(kind: str) -> None:
    with torch.no_grad():
        outputs, state, lengths = dynamic_decode(decoder(kind), maximum_iterations=STEPS)
    steps = stream(decoder(kind), maximum_iterations=STEPS)
    assert_same(collected(list(steps)), outputs)
    assert_same(steps.state, state)
    assert steps.lengths.tolist() == lengths.tolist()
    assert steps.lengths.dtype == torch.int32
    assert lengths.min() < lengths.max(), "rows of different lengths were meant"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", [0, 1, 4])
def test_it_goes_on_where_it_stopped(kind: str, stop: int) -> None:
    whole = collected(list(stream(decoder(kind), STEPS)))
    steps = stream(decoder(kind), STEPS)
    before = list(itertools.islice(steps, stop))
    assert steps.time == stop
    assert_same(collected([*before, *steps]), whole)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sampled"])  # whose generator is the caller's
def test_another_stream_goes_on_from_its_position(kind: str, tmp_path: Path) -> None:
    whole = stream(decoder(kind), STEPS)
    everything = collected(list(whole))
    first = stream(decoder(kind))
    before = list(itertools.islice(first, 3))
    torch.save(first.position()._asdict(), tmp_path / "position")
    position = StreamPosition(**torch.load(tmp_path / "position", weights_only=False))
    assert bool(position.finished.any())
    second = stream(decoder(kind), STEPS - 3, position=position)
    assert_same(collected([*before, *second]), everything)
    assert second.time == whole.time
    assert second.lengths.tolist() == whole.lengths.tolist()
    assert_same(second.state, whole.state)


def test_a_position_stays_where_it_was_taken() -> None:
    steps = stream(decoder("greedy"), STEPS)
    next(steps)
    position = steps.position()
    kept = [leaf.clone() for leaf in flatten(tuple(position)) if isinstance(leaf, Tensor)]
    list(steps)
    assert_same([leaf for leaf in flatten(tuple(position)) if isinstance(leaf, Tensor)], kept)


def test_state_carries_over_to_a_decoder_with_other_inputs() -> None:
    steps = stream(decoder("greedy"), 4)
    list(steps)
    one = decoder("greedy")
    helper = GreedyEmbeddingHelper(one.helper.embedding, [3] * B, END)  # pyright: ignore[reportAttributeAccessIssue]
    again = BasicDecoder(one.cell, helper, steps.state, one.output_layer)
    assert next(stream(again)).sample_id.shape == (B,)


@pytest.mark.parametrize("kind", ["greedy", "sampled"])
def test_rows_that_have_ended_say_the_end_token_and_zeros(kind: str) -> None:
    ended = torch.zeros(B, dtype=torch.bool)
    steps = stream(decoder(kind), STEPS)
    for step in steps:
        assert (step.sample_id[ended] == END).all()
        assert (step.rnn_output[ended] == 0).all()
        ended = ended | (step.sample_id == END)
        assert steps.finished.tolist() == ended.tolist()
    assert ended.any()


def test_it_ends_when_all_rows_have() -> None:
    steps = stream(decoder("teacher forcing"))
    assert len(list(steps)) == 7
    assert bool(steps.finished.all())
    with pytest.raises(StopIteration):
        next(steps)


def test_nothing_to_do_is_nothing_done() -> None:
    assert list(stream(decoder("greedy"), maximum_iterations=0)) == []


def test_it_has_no_gradients() -> None:
    step = next(stream(decoder("greedy")))
    assert not step.rnn_output.requires_grad


def test_it_keeps_nothing_of_what_it_handed_out() -> None:
    steps = stream(decoder("greedy"), STEPS)
    next(steps)
    assert steps._progress.outputs._steps == []  # pyright: ignore[reportPrivateUsage]


def test_only_rows_that_run_are_computed() -> None:
    steps = stream(decoder("greedy"), STEPS)
    list(steps)
    assert steps._free is not None  # pyright: ignore[reportPrivateUsage]
    assert steps._free.row_steps == int(steps.lengths.sum())  # pyright: ignore[reportPrivateUsage]


def test_a_decoder_that_changes_its_outputs_in_the_end_is_refused() -> None:
    cell = GRUCell(H)
    beams = BeamSearchDecoder(cell, torch.randn(V, E), [1], END, cell.zero_state(2, torch.float32), 2, nn.Linear(H, V))
    with pytest.raises(TypeError, match=r"decoder is a BeamSearchDecoder, which changes its outputs"):
        stream(beams)


def test_what_is_no_decoder_is_refused() -> None:
    with pytest.raises(TypeError, match=r"decoder must be a Decoder, but is a GRUCell"):
        stream(GRUCell(3))  # pyright: ignore[reportArgumentType]


def test_what_is_no_position_is_refused() -> None:
    with pytest.raises(TypeError, match=r"position must be a StreamPosition, but is an int: 3"):
        stream(decoder("greedy"), position=3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": torch.zeros(B, E + 1)}, r"position.inputs has shape \[6, 5\], but what the decoder starts with"),
        ({"finished": torch.zeros(B - 1, dtype=torch.bool)}, r"position.finished has shape \[5\], but .* \[6\]"),
        ({"lengths": torch.zeros(B - 1, dtype=torch.int32)}, r"position.lengths has shape \[5\], but .* \[6\]"),
    ],
)
def test_a_position_of_another_decoder_is_refused(change: dict[str, Tensor], message: str) -> None:
    position = stream(decoder("greedy")).position()
    with pytest.raises(ValueError, match=message):
        stream(decoder("greedy"), position=position._replace(**change))


@pytest.mark.parametrize("time", [-1, 2.5, torch.tensor(3)])
def test_a_position_at_no_step_is_refused(time: Any) -> None:
    position = stream(decoder("greedy")).position()
    with pytest.raises(ValueError, match=r"position.time must be the number of steps taken, but is"):
        stream(decoder("greedy"), position=position._replace(time=time))


def test_what_was_handed_out_may_be_changed() -> None:
    cell = GRUCell(H, input_size=E)
    inputs = torch.randn(B, 4, E)
    decoders = [BasicDecoder(cell, TrainingHelper(inputs, [4] * B), torch.zeros(B, H)) for _ in range(2)]
    expected = [step.rnn_output for step in stream(decoders[0])]
    for step, right in zip(stream(decoders[1]), expected, strict=True):
        torch.testing.assert_close(step.rnn_output, right)
        step.rnn_output.zero_()


def test_a_negative_bound_is_refused() -> None:
    with pytest.raises(ValueError, match=r"maximum_iterations must not be negative, but is -1"):
        stream(decoder("greedy"), -1)
