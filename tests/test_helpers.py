"""Helpers: what each of them samples, reads next and calls finished."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.cells import Plus1
from unspool import GRUCell
from unspool.decode import (
    BasicDecoder,
    CustomHelper,
    GreedyEmbeddingHelper,
    InferenceHelper,
    SampleEmbeddingHelper,
    ScheduledEmbeddingTrainingHelper,
    ScheduledOutputTrainingHelper,
    TrainingHelper,
    dynamic_decode,
)
from unspool.structure import flatten

B, T, D, V = 3, 5, 4, 6
LENGTHS = [3, 0, 4]
STATE = torch.zeros(B, D)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def decoded(helper: Any, cell: Any = None, **kwargs: Any) -> Any:
    """What a decode comes to; the cell adds 1 to what it reads, unless another is given."""
    return dynamic_decode(BasicDecoder(cell or Plus1(D), helper, STATE, **kwargs), maximum_iterations=10)


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("kind", [torch.tensor, np.array, list])
def test_training_reads_step_by_step_and_zeros_at_last(time_major: bool, kind: Any) -> None:
    inputs = torch.randn(B, T, D)
    helper = TrainingHelper(inputs.transpose(0, 1).numpy() if time_major else inputs, kind(LENGTHS), time_major)
    assert helper.batch_size == B
    assert helper.bound == 4
    finished, first = helper.initialize()
    assert finished.tolist() == [False, True, False]
    assert first.equal(inputs[:, 0])
    for time, expected in enumerate([[False, True, False], [False, True, False], [True, True, False], [True] * 3]):
        finished, following, state = helper.next_inputs(time, torch.zeros(B, V), "state", torch.zeros(B))
        assert finished.tolist() == expected
        assert following.equal(inputs[:, time + 1] if time < 3 else torch.zeros(B, D))
        assert state == "state"


def test_training_reads_nested_inputs() -> None:
    helper = TrainingHelper({"a": torch.ones(B, T), "b": (torch.ones(B, T, 2, 3),)}, LENGTHS)
    _, inputs = helper.initialize()
    assert [leaf.shape for leaf in flatten(inputs)] == [(B,), (B, 2, 3)]


def test_training_reads_nothing_from_no_steps() -> None:
    helper = TrainingHelper(torch.zeros(B, 0, D), [0] * B)
    finished, inputs = helper.initialize()
    assert finished.all()
    assert inputs.shape == (B, D)


def test_training_takes_no_rows() -> None:
    cell = Plus1(D)
    helper = TrainingHelper(torch.zeros(0, T, D), [])
    outputs, _, lengths = dynamic_decode(BasicDecoder(cell, helper, torch.zeros(0, D)))
    assert outputs.rnn_output.shape == (0, 0, D)
    assert lengths.shape == (0,)


# -- embeddings --------------------------------------------------------------------------------------------------------


def embeddings() -> Tensor:
    """The id `k` stands for a vector that is largest at `k + 1`, so that a cell that adds 1 counts up to 3, then 0."""
    return torch.eye(D).roll(1, 1)


@pytest.mark.parametrize("kind", ["matrix", "array", "module", "function"])
def test_greedy_reads_its_own_ids(kind: str) -> None:
    embedding: Any = embeddings()
    if kind == "array":
        embedding = embedding.numpy()
    elif kind == "module":
        embedding = nn.Embedding.from_pretrained(embedding)
    elif kind == "function":

        def embedding(ids: Tensor) -> Tensor:
            return nn.functional.one_hot((ids + 1) % D, D).float()  # which takes int64 alone

    outputs, state, lengths = decoded(GreedyEmbeddingHelper(embedding, [0, 2, 1], end_token=3))
    assert outputs.sample_id.tolist() == [[1, 2, 3], [3, 3, 3], [2, 3, 3]]
    assert outputs.sample_id.dtype == torch.int32
    assert lengths.tolist() == [3, 1, 2]
    assert state[:, 0].tolist() == [3, 1, 2]


@pytest.mark.parametrize("tokens", [torch.tensor([0, 2, 1], dtype=torch.int32), np.array([0, 2, 1], dtype=np.uint8)])
def test_tokens_may_be_ints_of_any_kind(tokens: Any) -> None:
    helper = GreedyEmbeddingHelper(embeddings(), tokens, end_token=np.int16(3))
    assert helper.end_token == 3
    assert decoded(helper)[2].tolist() == [3, 1, 2]


def test_gradients_reach_the_embedding_and_the_start() -> None:
    embedding = (embeddings() * 2).requires_grad_()
    outputs, _, lengths = decoded(GreedyEmbeddingHelper(embedding, [0, 2, 1], end_token=3))
    assert lengths.tolist() == [3, 1, 2]
    (gradient,) = torch.autograd.grad(outputs.rnn_output.sum(), embedding)
    assert gradient[:, 0].tolist() == [1, 2, 3, 0]  # how often each was read


def test_sampling_goes_through_the_helper_options() -> None:
    helper = SampleEmbeddingHelper(embeddings(), [0, 2, 1], 3, top_k=1, seed=0)
    assert decoded(helper)[0].sample_id.tolist() == [[1, 2, 3], [3, 3, 3], [2, 3, 3]]
    helper = SampleEmbeddingHelper(embeddings(), [0, 2, 1], 3, top_p=0.01)
    assert decoded(helper)[0].sample_id.tolist() == [[1, 2, 3], [3, 3, 3], [2, 3, 3]]
    helper = SampleEmbeddingHelper(embeddings(), [0, 2, 1], 3, softmax_temperature=0.001)
    assert decoded(helper)[0].sample_id.tolist() == [[1, 2, 3], [3, 3, 3], [2, 3, 3]]


# -- scheduled sampling ------------------------------------------------------------------------------------------------


def scheduled_embedding(probability: Any, **kwargs: Any) -> ScheduledEmbeddingTrainingHelper:
    # Logits of hundreds: what is drawn is the argmax.
    return ScheduledEmbeddingTrainingHelper(torch.zeros(B, T, D), LENGTHS, 100 * embeddings(), probability, **kwargs)


def test_a_schedule_of_zero_is_teacher_forcing() -> None:
    outputs, _, lengths = decoded(scheduled_embedding(0.0))
    assert lengths.tolist() == LENGTHS
    assert outputs.sample_id.tolist() == [[-1, -1, -1, 0], [0] * 4, [-1] * 4]
    assert outputs.rnn_output[2].equal(torch.ones(4, D))


def test_a_schedule_of_one_reads_its_own_ids() -> None:
    outputs, _, _ = decoded(scheduled_embedding(1, seed=0))
    ids = outputs.sample_id[2].tolist()
    assert ids == [(ids[0] + k) % D for k in range(4)]
    assert 0 in ids[:3]  # an id like any other
    assert outputs.rnn_output[2].amax(-1).tolist() == [1, 101, 101, 101]


def test_a_schedule_may_differ_by_row() -> None:
    outputs, _, _ = decoded(scheduled_embedding([0.0, 0.0, 1.0]))
    assert outputs.sample_id[0, :3].tolist() == [-1] * 3
    assert min(outputs.sample_id[2].tolist()) >= 0


def test_a_schedule_is_drawn_apart_from_the_ids() -> None:
    def ids(seed: int, scheduling_seed: int) -> Tensor:
        torch.manual_seed(0)
        helper = ScheduledEmbeddingTrainingHelper(
            torch.zeros(64, 9, D), [9] * 64, embeddings(), 0.5, seed=seed, scheduling_seed=scheduling_seed
        )
        return dynamic_decode(BasicDecoder(Plus1(D), helper, torch.zeros(64, D)))[0].sample_id

    assert ids(1, 2).equal(ids(1, 2))
    assert (ids(1, 2) == -1).equal(ids(3, 2) == -1)
    assert not ids(1, 2).equal(ids(3, 2))
    assert not (ids(1, 2) == -1).equal(ids(1, 3) == -1)
    share = (ids(1, 2) >= 0).float().mean()
    assert abs(share - 0.5) < 0.08  # 576 draws: four standard deviations are 0.083


def test_a_generator_draws_schedule_and_ids() -> None:
    one, other = (decoded(scheduled_embedding(0.5, generator=torch.Generator().manual_seed(3))) for _ in range(2))
    assert one[0].sample_id.equal(other[0].sample_id)


def scheduled_output(probability: Any, **kwargs: Any) -> ScheduledOutputTrainingHelper:
    return ScheduledOutputTrainingHelper(torch.zeros(B, T, D), LENGTHS, probability, **kwargs)


def test_outputs_are_read_where_the_schedule_says() -> None:
    outputs, _, _ = decoded(scheduled_output([0.0, 1.0, 1.0]))
    assert outputs.rnn_output[0, :, 0].tolist() == [1, 1, 1, 0]
    assert outputs.rnn_output[2, :, 0].tolist() == [1, 2, 3, 4]
    assert outputs.sample_id.tolist() == [[0] * 4, [0] * 4, [1] * 4]


def test_outputs_are_read_through_a_function() -> None:
    outputs, _, _ = decoded(scheduled_output(1.0, next_inputs_fn=lambda outputs: outputs * 10))
    assert outputs.rnn_output[2, :, 0].tolist() == [1, 11, 111, 1111]


@pytest.mark.parametrize("time_major", [False, True])
def test_auxiliary_inputs_are_beside_whatever_is_read(time_major: bool) -> None:
    beside = torch.randn(B, T, 2)
    seen: list[Tensor] = []

    class Sees(Plus1):
        def forward(self, inputs: Tensor, state: Tensor) -> Any:
            seen.append(inputs)
            return super().forward(inputs[:, :D], state)

    helper = ScheduledOutputTrainingHelper(
        torch.zeros(T, B, D) if time_major else torch.zeros(B, T, D),
        [4, 4, 4],
        [0.0, 1.0, 1.0],
        time_major,
        auxiliary_inputs=beside.transpose(0, 1) if time_major else beside,
    )
    decoded(helper, Sees(D))
    assert torch.stack(seen, 1)[:, :, D:].equal(beside[:, :4])
    assert torch.stack(seen, 1)[1, :, 0].tolist() == [0, 1, 2, 3]


def test_gradients_go_through_the_outputs_that_are_read() -> None:
    cell, inputs = GRUCell(D), torch.randn(B, T, D, requires_grad=True)
    helper = ScheduledOutputTrainingHelper(inputs, [4, 4, 4], [0.0, 1.0, 1.0])
    outputs, _, _ = decoded(helper, cell)
    (gradient,) = torch.autograd.grad(outputs.rnn_output[:, 3].sum(), inputs)
    assert gradient[0, :4].any(-1).all()
    assert gradient[1:, 0].any(-1).all()  # through four steps of the cell's own outputs
    assert not gradient[1:, 1:].any()


# -- functions ---------------------------------------------------------------------------------------------------------


def test_inference_reads_its_samples_as_they_are() -> None:
    helper = InferenceHelper(
        sample_fn=lambda outputs: outputs * 2,
        sample_shape=torch.Size([D]),
        sample_dtype="float32",
        start_inputs=torch.tensor([[0.0] * D, [1.0] * D, [50.0] * D]),
        end_fn=lambda samples: samples[:, 0] > 20,
    )
    outputs, _, lengths = decoded(helper)
    assert outputs.sample_id[:, :, 0].tolist() == [[2, 6, 14, 30], [4, 10, 22, 0], [102, 0, 0, 0]]
    assert lengths.tolist() == [4, 3, 1]


def test_a_custom_helper_knows_its_batch_once_it_has_begun() -> None:
    helper = CustomHelper(
        initialize_fn=lambda: ([False] * B, torch.zeros(B, D)),
        sample_fn=lambda time, outputs, state: outputs[:, :2].double() + time,
        next_inputs_fn=lambda time, outputs, state, sample_ids: (torch.arange(B) <= time, outputs, state),
        sample_ids_shape=[2],
        sample_ids_dtype=np.float64,
        end_token=-1,
    )
    with pytest.raises(ValueError, match="batch_size is not known before initialize"):
        _ = helper.batch_size
    outputs, _, lengths = decoded(helper)
    assert helper.batch_size == B
    assert lengths.tolist() == [1, 2, 3]
    assert outputs.sample_id.dtype == torch.float64
    assert outputs.sample_id[:, :, 1].tolist() == [[1, -1, -1], [1, 3, -1], [1, 3, 5]]
