"""What helpers refuse, with what they say."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.cells import Plus1
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

B, T, D, V = 2, 4, 3, 5
X, LENGTHS, STATE = torch.zeros(B, T, D), [4, 2], torch.zeros(B, D)
TABLE = torch.zeros(V, D)


def training(**kwargs: Any) -> TrainingHelper:
    return TrainingHelper(**{"inputs": X, "sequence_length": LENGTHS, **kwargs})


# -- TrainingHelper ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(sequence_length=3), ValueError, r"sequence_length must be a vector of length batch_size.* shape \[\]"),
        (dict(sequence_length=[[4, 2]]), ValueError, r"sequence_length must be a vector .* shape \[1, 2\]"),
        (dict(sequence_length=None), ValueError, "sequence_length: None values not supported"),
        (dict(sequence_length=[4.0, 2.0]), TypeError, "sequence_length must hold ints, but is torch.float32"),
        (dict(sequence_length=[4]), ValueError, "sequence_length has 1 entries, but inputs have a batch of 2"),
        (dict(sequence_length=[4, 5]), ValueError, r"sequence_length\[1\] is 5, but inputs have only 4 steps"),
        (dict(sequence_length=[-1, 4]), ValueError, r"sequence_length\[0\] is -1, but a length cannot be negative"),
        (dict(inputs=torch.zeros(B)), ValueError, r"inputs must have rank at least 2, \[batch, time, ...\], .*\[2\]"),
        (dict(inputs=()), ValueError, r"inputs is empty: \(\) has no tensor to read"),
        (dict(inputs=None), ValueError, "inputs: None values not supported"),
        (dict(inputs="words"), TypeError, "inputs must be made of tensors or arrays, but has a str"),
        (dict(inputs=(X, X[:, :3])), ValueError, r"Time steps is not the same .* \[4, 3\]"),
        (dict(inputs=(X, X[:1])), ValueError, r"Batch_size is not the same .* \[2, 1\]"),
    ],
)
def test_training_helper_checks_its_arguments(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        training(**arguments)


# -- embeddings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [GreedyEmbeddingHelper, SampleEmbeddingHelper])
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(start_tokens=0), ValueError, r"start_tokens must be a vector \[batch\], but has shape \[\]"),
        (dict(start_tokens=[[0]]), ValueError, r"start_tokens must be a vector \[batch\], but has shape \[1, 1\]"),
        (dict(start_tokens=[0.5]), TypeError, "start_tokens must hold ints, but is torch.float32"),
        (dict(start_tokens=["a"]), TypeError, r"start_tokens must hold ints, but is a list of 1: \['a'\]"),
        (dict(start_tokens=None), ValueError, "start_tokens: None values not supported"),
        (dict(start_tokens=[0, 5]), ValueError, r"start_tokens\[1\] is 5, which is not in the vocabulary: .* 5 rows"),
        (dict(end_token=[1]), ValueError, r"end_token must be a scalar, but has shape \[1\]"),
        (dict(end_token=1.0), TypeError, "end_token must hold ints, but is torch.float32"),
        (dict(end_token=True), TypeError, "end_token must hold ints, but is torch.bool"),
        (dict(end_token=5), ValueError, "end_token is 5, which is not in the vocabulary: the embedding has 5 rows"),
        (dict(end_token=-1), ValueError, "end_token is -1, which is not in the vocabulary"),
        (dict(embedding=nn.Embedding(3, D), end_token=3), ValueError, "end_token is 3, .* the embedding has 3 rows"),
        (dict(embedding=lambda ids: ids, end_token=-1), ValueError, "end_token is -1, which is no id"),
        (dict(embedding=torch.zeros(V)), ValueError, r"embedding must be a matrix or a function, but has shape \[5\]"),
        (dict(embedding=nn.Embedding), TypeError, "embedding is the class Embedding, not something made from it"),
        (dict(embedding="table"), TypeError, "embedding must be made of tensors or arrays, but has a str"),
    ],
)
def test_embedding_helpers_check_their_arguments(
    kind: Any, arguments: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        kind(**{"embedding": TABLE, "start_tokens": [0, 0], "end_token": 1, **arguments})


def test_an_end_token_must_have_a_logit() -> None:
    helper = GreedyEmbeddingHelper(lambda ids: TABLE[ids], [0, 0], end_token=4)
    with pytest.raises(ValueError, match="end_token is 4, which is not in the vocabulary: there are 3 logits"):
        dynamic_decode(BasicDecoder(Plus1(D), helper, STATE))


def test_what_is_sampled_must_have_an_embedding() -> None:
    helper = GreedyEmbeddingHelper(TABLE, [0, 0], end_token=4)
    with pytest.raises(ValueError, match="the output has 6 logits, but the embedding has only 5 rows"):
        dynamic_decode(BasicDecoder(Plus1(D), helper, STATE, nn.Linear(D, V + 1)))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(softmax_temperature=0), ValueError, "softmax_temperature must be above 0, but is 0.0; .*Greedy"),
        (dict(softmax_temperature=-1.0), ValueError, "softmax_temperature must be above 0, but is -1.0"),
        (dict(softmax_temperature=float("nan")), ValueError, "softmax_temperature must be above 0, but is nan"),
        (dict(softmax_temperature="hot"), TypeError, "softmax_temperature must be a number, but is 'hot'"),
        (dict(top_k=0), ValueError, "top_k must be at least 1, but is 0"),
        (dict(top_k=1.5), TypeError, "top_k must be an int, but is 1.5"),
        (dict(top_p=0.0), ValueError, "top_p must be above 0 and at most 1, but is 0.0"),
        (dict(top_p=1.01), ValueError, "top_p must be above 0 and at most 1, but is 1.01"),
        (dict(top_p=[0.5]), TypeError, r"top_p must be a number, but is \[0.5\]"),
        (dict(seed="a"), TypeError, "seed must be an int, but is 'a'"),
        (dict(generator=3), TypeError, "generator must be a torch.Generator, but is 3"),
        (dict(seed=1, generator=torch.Generator()), ValueError, "seed and generator exclude each other"),
    ],
)
def test_sample_helper_checks_how_it_samples(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SampleEmbeddingHelper(TABLE, [0, 0], 1, **arguments)


# -- scheduled sampling ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ScheduledEmbeddingTrainingHelper, ScheduledOutputTrainingHelper])
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(sampling_probability=torch.zeros(1, B)), ValueError, r"sampling_probability must be a scalar.*\[1, 2\]"),
        (dict(sampling_probability=[0.5] * 3), ValueError, r"sampling_probability must be .* 2 rows, not \[3\]"),
        (dict(sampling_probability=1.5), ValueError, "sampling_probability must be between 0 and 1, but is 1.5"),
        (dict(sampling_probability=[0.5, float("nan")]), ValueError, "sampling_probability must be between 0 and 1"),
        (dict(sampling_probability=None), ValueError, "sampling_probability: None values not supported"),
        (dict(sequence_length=3), ValueError, "sequence_length must be a vector"),
        (dict(sequence_length=[5, 1]), ValueError, r"sequence_length\[0\] is 5"),
        (dict(inputs=(X, X)), TypeError, "inputs must be one tensor, but is a structure of several: tuple"),
        (dict(seed=1, generator=torch.Generator()), ValueError, "seed and generator exclude each other"),
    ],
)
def test_scheduled_helpers_check_their_arguments(
    kind: Any, arguments: Any, error: type[Exception], message: str
) -> None:
    given = {"inputs": X, "sequence_length": LENGTHS, "sampling_probability": 0.5, **arguments}
    if kind is ScheduledEmbeddingTrainingHelper:
        given["embedding"] = TABLE
    with pytest.raises(error, match=message):
        kind(**given)


def test_scheduling_seed_and_generator_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="scheduling_seed and generator exclude each other"):
        ScheduledEmbeddingTrainingHelper(X, LENGTHS, TABLE, 0.5, scheduling_seed=1, generator=torch.Generator())


def test_scheduled_embeddings_need_a_row_for_each_logit() -> None:
    helper = ScheduledEmbeddingTrainingHelper(X, LENGTHS, TABLE[:2], 0.5)
    with pytest.raises(ValueError, match="the output has 3 logits, but the embedding has only 2 rows"):
        dynamic_decode(BasicDecoder(Plus1(D), helper, STATE))


def test_outputs_that_are_read_must_be_as_wide_as_inputs() -> None:
    helper = ScheduledOutputTrainingHelper(X, LENGTHS, 0.5)
    with pytest.raises(ValueError, match=r"the output has width 5, but the inputs have \[3\]: a next_inputs_fn can"):
        dynamic_decode(BasicDecoder(Plus1(D), helper, STATE, nn.Linear(D, V)))


@pytest.mark.parametrize("beside", [torch.zeros(B, T), torch.zeros(B, T + 1, 2), torch.zeros(1, T, 2)])
def test_auxiliary_inputs_must_fit(beside: Any) -> None:
    with pytest.raises(ValueError, match="auxiliary_inputs must have the shape of the inputs but for the last axis"):
        ScheduledOutputTrainingHelper(X, LENGTHS, 0.5, auxiliary_inputs=beside)


def test_scheduled_outputs_need_a_function_that_can_be_called() -> None:
    with pytest.raises(TypeError, match="next_inputs_fn must be callable, but is an int: 3"):
        ScheduledOutputTrainingHelper(X, LENGTHS, 0.5, next_inputs_fn=3)  # pyright: ignore


# -- functions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(sample_fn=None), TypeError, "sample_fn must be callable, but is a NoneType: None"),
        (dict(end_fn=1), TypeError, "end_fn must be callable, but is an int: 1"),
        (dict(next_inputs_fn=1), TypeError, "next_inputs_fn must be callable, but is an int: 1"),
        (dict(sample_shape=["a"]), ValueError, "sample_shape must be fully defined"),
        (dict(sample_dtype="words"), TypeError, "sample_dtype must be a dtype or its name"),
        (dict(start_inputs=1.0), ValueError, "start_inputs must have a row for each row of the batch, but is a scalar"),
    ],
)
def test_inference_helper_checks_its_arguments(arguments: Any, error: type[Exception], message: str) -> None:
    def same(value: Any) -> Any:
        return value

    given = dict(sample_fn=same, sample_shape=[], sample_dtype=torch.int32, start_inputs=STATE, end_fn=same)
    with pytest.raises(error, match=message):
        InferenceHelper(**{**given, **arguments})


def test_samples_must_be_what_the_helper_says() -> None:
    helper = InferenceHelper(lambda outputs: outputs, [2], torch.float32, STATE, lambda samples: samples[:, 0] > 0)
    with pytest.raises(ValueError, match=r"the decoder's output has shape \[2, 3\], but .* say \[2, 2\]"):
        dynamic_decode(BasicDecoder(Plus1(D), helper, STATE))


@pytest.mark.parametrize("missing", ["initialize_fn", "sample_fn", "next_inputs_fn"])
def test_custom_helper_needs_functions(missing: str) -> None:
    functions: dict[str, Any] = {name: lambda: None for name in ["initialize_fn", "sample_fn", "next_inputs_fn"]}
    with pytest.raises(TypeError, match=f"{missing} must be callable, but is a NoneType"):
        CustomHelper(**{**functions, missing: None})


def test_custom_helper_needs_a_bool_for_each_row() -> None:
    helper = CustomHelper(lambda: (False, X[:, 0]), lambda **_: None, lambda **_: (None, None, None))
    with pytest.raises(ValueError, match="finished must have a bool for each row"):
        helper.initialize()
    with pytest.raises(ValueError, match="batch_size is not known before initialize"):
        _ = helper.batch_size
