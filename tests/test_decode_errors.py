"""Every error of decoding, by type and by what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.cells import Nested, Plus1, Returns
from unspool import GRUCell, LSTMCell
from unspool.decode import (
    BasicDecoder,
    CustomHelper,
    Decoder,
    GreedyEmbeddingHelper,
    InferenceHelper,
    SampleEmbeddingHelper,
    ScheduledEmbeddingTrainingHelper,
    ScheduledOutputTrainingHelper,
    SequenceLoss,
    TrainingHelper,
    dynamic_decode,
    sequence_loss,
    sequence_mask,
)

B, T, D, V = 2, 4, 3, 5
X, LENGTHS, STATE = torch.zeros(B, T, D), [4, 2], torch.zeros(B, D)
TABLE = torch.zeros(V, D)


def training(**kwargs: Any) -> TrainingHelper:
    return TrainingHelper(**{"inputs": X, "sequence_length": LENGTHS, **kwargs})


# -- dynamic_decode ----------------------------------------------------------------------------------------------------


class Scripted(Decoder):
    """Returns what it is told to; by default all is well, and it ends after two steps."""

    batch_size: Any = B
    output_size: Any = 1
    output_dtype: Any = torch.float32
    first_finished: Any = torch.tensor([False, True])
    first_inputs: Any = torch.zeros(B, 2)
    first_state: Any = (torch.zeros(B, 3),)

    def __init__(self, **returned: Any) -> None:
        self.output, self.finished = torch.zeros(B, 1), torch.tensor([False, False])
        self.state, self.inputs = self.first_state, self.first_inputs
        vars(self).update(returned)

    def initialize(self) -> Any:
        return self.first_finished, self.first_inputs, self.first_state

    def step(self, time: int, inputs: Any, state: Any) -> Any:
        return self.output, self.state, self.inputs, self.finished | (time == 1)


def test_a_script_without_faults_runs() -> None:
    assert dynamic_decode(Scripted())[2].tolist() == [2, 0]


@pytest.mark.parametrize("decoder", [None, GRUCell(3), Scripted, "decoder"])
def test_dynamic_decode_refuses_what_is_no_decoder(decoder: Any) -> None:
    with pytest.raises(TypeError, match="decoder must be a Decoder, but is a"):
        dynamic_decode(decoder)


@pytest.mark.parametrize("limit", [[1, 2], torch.tensor([3]), np.array([[1]])])
def test_maximum_iterations_must_be_a_scalar(limit: Any) -> None:
    with pytest.raises(ValueError, match=r"maximum_iterations must be a scalar, but has shape \["):
        dynamic_decode(Scripted(), maximum_iterations=limit)


@pytest.mark.parametrize("limit", [2.0, True, "3", torch.tensor(1.5), {}])
def test_maximum_iterations_must_be_an_int(limit: Any) -> None:
    with pytest.raises(TypeError, match="maximum_iterations must be an int, but is"):
        dynamic_decode(Scripted(), maximum_iterations=limit)


def test_maximum_iterations_must_not_be_negative() -> None:
    with pytest.raises(ValueError, match="maximum_iterations must not be negative, but is -1"):
        dynamic_decode(Scripted(), maximum_iterations=-1)


def test_dynamic_decode_checks_parallel_iterations_and_scope() -> None:
    with pytest.raises(TypeError, match="parallel_iterations must be positive, but is -1"):
        dynamic_decode(Scripted(), parallel_iterations=-1)
    with pytest.raises(AssertionError, match="parallel_iterations must be an int"):
        dynamic_decode(Scripted(), parallel_iterations=1.5)  # pyright: ignore
    with pytest.raises(TypeError, match="scope must be a string, but is 3"):
        dynamic_decode(Scripted(), scope=3)


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (dict(first_finished=torch.tensor(False)), ValueError, "finished must have a bool for each row"),
        (dict(first_finished=torch.tensor([0, 1])), TypeError, "finished must be bool, but is torch.int64"),
        (dict(first_finished=[False] * 3), ValueError, r"finished has shape \[3\], but the decoder has a batch of 2"),
        (
            dict(first_finished=torch.zeros(B, 3, dtype=torch.bool)),
            ValueError,
            r"impute_finished needs one bool for each row, but finished has shape \[2, 3\]",
        ),
        (dict(first_state=None), ValueError, "state: None values not supported"),
        (
            dict(first_inputs=torch.zeros(3, 2)),
            ValueError,
            r"an input has shape \[3, 2\], but inputs have a batch of 2",
        ),
        (dict(first_state=(torch.zeros(6, 3),)), ValueError, r"the state has shape \[6, 3\], but .* a batch of 2"),
        (dict(output_size=None), ValueError, "decoder.output_size must be fully defined"),
        (dict(output_dtype=(torch.int32,) * 2), ValueError, "decoder.output_size has 1 leaves, but .* has 2"),
        (
            dict(output=(torch.zeros(B, 1),)),
            ValueError,
            "the decoder's output is a tuple of 1, but decoder.output_size",
        ),
        (dict(output=torch.zeros(B, 2)), ValueError, r"output has shape \[2, 2\], but .*batch_size say \[2, 1\]"),
        (dict(output=torch.zeros(B, 1).int()), TypeError, "output is torch.int32, but expected torch.float32"),
        (dict(output=0), TypeError, "the decoder's output must be made of tensors, but has an int"),
        (dict(state=[torch.zeros(B, 3)]), TypeError, "the decoder's next state is a list, but the state is a tuple"),
        (
            dict(state=(torch.zeros(B, 4),)),
            ValueError,
            r"the decoder's next state has shape \[2, 4\], but the state may",
        ),
        (
            dict(inputs=torch.zeros(B, 3)),
            ValueError,
            r"the decoder's next inputs has shape \[2, 3\], but the inputs may",
        ),
        (
            dict(inputs=torch.zeros(B, 2).double()),
            TypeError,
            "next inputs is torch.float64, but expected torch.float32",
        ),
        (dict(finished=torch.tensor([0, 0])), TypeError, "finished must be bool, but is torch.int64"),
        (
            dict(finished=torch.tensor([False] * 3)),
            ValueError,
            r"finished must have shape \[2\], but has shape \[3\]",
        ),
    ],
)
def test_dynamic_decode_checks_what_a_decoder_says(fault: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        dynamic_decode(Scripted(**fault))


def test_a_step_must_return_four_things() -> None:
    class Short(Scripted):
        def step(self, time: int, inputs: Any, state: Any) -> Any:
            return super().step(time, inputs, state)[:3]

    with pytest.raises(TypeError, match=r"must return \(outputs, next_state, .*\), but .* returned a tuple of 3"):
        dynamic_decode(Short())


# -- BasicDecoder ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(cell=nn.Linear(3, 3)), TypeError, r"The argument 'cell' .*is not an RNNCell"),
        (dict(helper=None), TypeError, "helper must be a Helper, but is a NoneType: None"),
        (dict(helper=TrainingHelper), TypeError, "helper must be a Helper, but is the class TrainingHelper"),
        (dict(output_layer=3), TypeError, "output_layer must be a module or a function, but is an int: 3"),
        (dict(output_layer=nn.Linear), TypeError, "output_layer must be .*, but is the class Linear"),
        (dict(initial_state=torch.float32), TypeError, "initial_state is torch.float32, but must be a state"),
        (dict(initial_state=None), ValueError, "initial_state: None values not supported"),
        (
            dict(cell=LSTMCell(3), initial_state=(STATE, STATE)),
            TypeError,
            r"initial_state is a tuple, but cell.state_size is an LSTMStateTuple\(c, h\)",
        ),
    ],
)
def test_basic_decoder_checks_its_arguments(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        BasicDecoder(**{"cell": Plus1(D), "helper": training(), "initial_state": STATE, **arguments})


def test_basic_decoder_refuses_a_state_of_other_rows() -> None:
    cell = GRUCell(D)
    with pytest.raises(ValueError, match=r"initial_state has shape \[6, 3\], but inputs have a batch of 2"):
        dynamic_decode(BasicDecoder(cell, training(), torch.zeros(6, D)))
    assert not cell.built


def test_basic_decoder_needs_a_dtype() -> None:
    cell = Returns((), D, lambda inputs, state: (inputs, state))
    with pytest.raises(ValueError, match="initial_state has no tensor, so the dtype of the cell's output is unknown"):
        dynamic_decode(BasicDecoder(cell, training(), ()))


@pytest.mark.parametrize("kind", [TrainingHelper, GreedyEmbeddingHelper])
@pytest.mark.parametrize(
    "layer", [lambda output: output[:, :, None], lambda output: (output, output), lambda _: _[:, :0]]
)
def test_outputs_must_be_logits(kind: Any, layer: Any) -> None:
    helper = training() if kind is TrainingHelper else GreedyEmbeddingHelper(TABLE, [0, 0], 1)
    with pytest.raises(ValueError, match=f"{kind.__name__} samples from one vector of logits a row, but the size"):
        dynamic_decode(BasicDecoder(Plus1(D), helper, STATE, layer))


def test_outputs_of_a_nested_cell_need_a_layer() -> None:
    cell = Nested(D)
    helper = training(inputs={"x": X, "image": torch.zeros(B, T, 2, D)})
    with pytest.raises(ValueError, match="an output_layer can make logits of it"):
        dynamic_decode(BasicDecoder(cell, helper, cell.zero_state(B, torch.float32)))


def test_a_cell_must_leave_its_state_alone() -> None:
    cell = Returns(D, D, lambda inputs, state: (inputs, state.add_(1)))
    with pytest.raises(RuntimeError, match="the cell changed its inputs or its state in place"):
        dynamic_decode(BasicDecoder(cell, training(), torch.zeros(B, D)))


def test_a_cell_must_keep_its_containers() -> None:
    cell = Returns(D, D, lambda inputs, state: (inputs, (state,)))
    with pytest.raises(ValueError, match="the cell's new state is a tuple of 1, but its state is a Tensor"):
        dynamic_decode(BasicDecoder(cell, training(), STATE))


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


# -- the loss ----------------------------------------------------------------------------------------------------------

LOGITS, TARGETS, WEIGHTS = torch.zeros(B, T, V), torch.zeros(B, T, dtype=torch.int64), torch.ones(B, T)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(logits=LOGITS[0]), ValueError, r"logits must have shape \[batch, time, classes\], but has \[4, 5\]"),
        (dict(targets=TARGETS[0]), ValueError, r"targets must have shape \[batch, time\], but has \[4\]"),
        (dict(targets=LOGITS.long()), ValueError, r"targets must have shape \[batch, time\], but has \[2, 4, 5\]"),
        (dict(weights=WEIGHTS[0]), ValueError, r"weights must have shape \[batch, time\], but has \[4\]"),
        (
            dict(targets=TARGETS[:, :3]),
            ValueError,
            r"targets has shape \[2, 3\], but logits have batch and time \[2, 4\]",
        ),
        (dict(weights=WEIGHTS[:1]), ValueError, r"weights has shape \[1, 4\], but logits have batch and time \[2, 4\]"),
        (dict(logits=LOGITS.long()), TypeError, "logits must be floating-point numbers, but are torch.int64"),
        (dict(targets=TARGETS.float()), TypeError, "targets must be ids, which are ints, but are torch.float32"),
        (dict(targets=TARGETS + V), ValueError, r"targets\[0, 0\] is 5, but logits have 5 classes"),
        (dict(targets=TARGETS - 1), ValueError, r"targets\[0, 0\] is -1, but logits have 5 classes"),
        (dict(weights=None), ValueError, "weights: None values not supported"),
        (
            dict(sum_over_timesteps=True),
            ValueError,
            "average_across_timesteps and sum_over_timesteps exclude each other",
        ),
        (dict(sum_over_batch=True), ValueError, "average_across_batch and sum_over_batch exclude each other"),
        (
            dict(sum_over_batch=True, average_across_batch=False),
            ValueError,
            "average_across_timesteps and sum_over_batch exclude each other: both axes",
        ),
    ],
)
def test_sequence_loss_checks_its_arguments(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sequence_loss(**{"logits": LOGITS, "targets": TARGETS, "weights": WEIGHTS, **arguments})


def test_sequence_loss_class_checks_its_reductions() -> None:
    with pytest.raises(ValueError, match="average_across_batch and sum_over_batch exclude each other"):
        SequenceLoss(average_across_batch=True)


def test_sequence_mask_checks_its_arguments() -> None:
    with pytest.raises(TypeError, match=r"lengths must hold ints, but is torch.float32"):
        sequence_mask([1.0, 2.0])
    with pytest.raises(ValueError, match="maxlen must not be negative, but is -1"):
        sequence_mask([1, 2], -1)
