"""TensorFlow's `basic_decoder_test.py`: one step with each helper."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.tensorflow_tests.comparing import assert_same
from tests.tensorflow_tests.toy_cells import fill_all
from unspool import LSTMCell, LSTMStateTuple
from unspool.decode import (
    BasicDecoder,
    BasicDecoderOutput,
    GreedyEmbeddingHelper,
    InferenceHelper,
    SampleEmbeddingHelper,
    ScheduledEmbeddingTrainingHelper,
    ScheduledOutputTrainingHelper,
    TrainingHelper,
)

LENGTHS = [3, 4, 3, 1, 0]
BATCH, STEPS, DEPTH, UNITS, VOCABULARY = 5, 8, 7, 10, 7
START, END = 0, 1


def decoder_of(helper, depth=DEPTH, units=UNITS, output_layer=None):
    cell = fill_all(LSTMCell(units, input_size=depth), seed=1)
    state = LSTMStateTuple(c=torch.randn(BATCH, units), h=torch.randn(BATCH, units))
    return BasicDecoder(cell, helper, state, output_layer)


def first_step(decoder, width=UNITS, ids=((), torch.int32)):
    """Takes the first step, checks what is the same for all helpers, and returns `(outputs, next_inputs, finished)`."""
    assert decoder.batch_size == BATCH
    shape, dtype = ids
    finished, inputs, state = decoder.initialize()
    assert decoder.output_size == BasicDecoderOutput(width, torch.Size(shape))
    assert decoder.output_dtype == BasicDecoderOutput(torch.float32, dtype)
    assert finished.dtype == torch.bool
    outputs, next_state, next_inputs, next_finished = decoder.step(0, inputs, state)
    assert isinstance(outputs, BasicDecoderOutput)
    assert (outputs.rnn_output.shape, outputs.rnn_output.dtype) == ((BATCH, width), torch.float32)
    assert (outputs.sample_id.shape, outputs.sample_id.dtype) == ((BATCH, *shape), dtype)
    assert isinstance(next_state, LSTMStateTuple)
    output, expected_state = decoder.cell(inputs, state)
    assert_same(next_state, expected_state)
    assert_same(outputs.rnn_output, output if decoder.output_layer is None else decoder.output_layer(output))
    assert next_inputs.shape == inputs.shape
    return outputs, next_inputs, next_finished


# -- TrainingHelper ----------------------------------------------------------------------------------------------------


def assert_training(output_layer, width):
    inputs = torch.randn(BATCH, STEPS, DEPTH)
    decoder = decoder_of(TrainingHelper(inputs, LENGTHS), output_layer=output_layer)
    finished, first_inputs, _ = decoder.initialize()
    assert finished.tolist() == [False, False, False, False, True]
    assert torch.equal(first_inputs, inputs[:, 0])
    outputs, next_inputs, finished = first_step(decoder, width)
    assert finished.tolist() == [False, False, False, True, True]
    assert outputs.sample_id.tolist() == outputs.rnn_output.argmax(1).tolist()
    assert torch.equal(next_inputs, inputs[:, 1])


def test_step_with_training_helper_no_output_layer():
    assert_training(None, UNITS)


def test_step_with_training_helper_with_output_layer():
    layer = nn.Linear(UNITS, 3, bias=False)
    assert_training(layer, 3)
    assert len(list(layer.parameters())) == 1


# -- embeddings --------------------------------------------------------------------------------------------------------


def assert_reads_its_samples(helper, embeddings):
    outputs, next_inputs, finished = first_step(decoder_of(helper, DEPTH, VOCABULARY), VOCABULARY)
    ids = outputs.sample_id.long()
    assert torch.equal(helper.initialize()[1], embeddings[START].expand(BATCH, -1))
    assert not helper.initialize()[0].any()
    assert torch.equal(finished, ids == END)
    assert torch.equal(next_inputs, embeddings[ids])
    return outputs


def test_step_with_greedy_embedding_helper():
    embeddings = torch.randn(VOCABULARY, DEPTH)
    outputs = assert_reads_its_samples(GreedyEmbeddingHelper(embeddings, [START] * BATCH, END), embeddings)
    assert outputs.sample_id.tolist() == outputs.rnn_output.argmax(1).tolist()


def test_step_with_greedy_embedding_helper_reads_start_tokens_once_all_rows_are_finished():
    embeddings = torch.randn(VOCABULARY, DEPTH)
    helper = GreedyEmbeddingHelper(embeddings, [START] * BATCH, END)
    helper.initialize()
    ids = torch.full((BATCH,), END, dtype=torch.int32)
    finished, inputs, _ = helper.next_inputs(0, torch.zeros(BATCH, VOCABULARY), (), ids)
    assert finished.all()
    assert torch.equal(inputs, embeddings[START].expand(BATCH, -1))


def test_step_with_sample_embedding_helper():
    embeddings = torch.randn(VOCABULARY, DEPTH)
    helper = SampleEmbeddingHelper(embeddings, [START] * BATCH, END, seed=0)
    outputs = assert_reads_its_samples(helper, embeddings)
    assert ((outputs.sample_id >= 0) & (outputs.sample_id < VOCABULARY)).all()


@pytest.mark.parametrize("probability", [0.5, [0.0, 1.0, 0.0, 1.0, 0.5]])
def test_step_with_scheduled_embedding_training_helper(probability):
    inputs, embeddings = torch.randn(BATCH, STEPS, DEPTH), torch.randn(VOCABULARY, DEPTH)
    helper = ScheduledEmbeddingTrainingHelper(inputs, LENGTHS, embeddings, probability, seed=1, scheduling_seed=2)
    outputs, next_inputs, finished = first_step(decoder_of(helper, DEPTH, VOCABULARY), VOCABULARY)
    assert finished.tolist() == [False, False, False, True, True]
    ids = outputs.sample_id.tolist()
    assert -1 in ids
    assert max(ids) >= 0
    if isinstance(probability, list):
        assert (ids[0], ids[2]) == (-1, -1)
        assert min(ids[1], ids[3]) >= 0
    for row, chosen in enumerate(ids):
        assert -1 <= chosen < VOCABULARY
        assert torch.equal(next_inputs[row], inputs[row, 1] if chosen == -1 else embeddings[chosen])


# -- outputs that are read ---------------------------------------------------------------------------------------------


def assert_scheduled_output(probability, next_inputs_fn=None, auxiliary_depth=0):
    inputs = torch.randn(BATCH, STEPS, DEPTH)
    beside = torch.randn(BATCH, STEPS, auxiliary_depth)
    helper = ScheduledOutputTrainingHelper(
        inputs,
        LENGTHS,
        probability,
        seed=1,
        next_inputs_fn=next_inputs_fn,
        auxiliary_inputs=beside if auxiliary_depth else None,
    )
    decoder = decoder_of(helper, DEPTH + auxiliary_depth, DEPTH)
    assert torch.equal(decoder.initialize()[1], torch.cat([inputs, beside], 2)[:, 0])
    outputs, next_inputs, finished = first_step(decoder, DEPTH)
    assert finished.tolist() == [False, False, False, True, True]
    own = outputs.rnn_output if next_inputs_fn is None else next_inputs_fn(outputs.rnn_output)
    for row, chosen in enumerate(outputs.sample_id.tolist()):
        assert torch.equal(next_inputs[row, :DEPTH], own[row] if chosen else inputs[row, 1])
        assert torch.equal(next_inputs[row, DEPTH:], beside[row, 1])
    return outputs.sample_id.tolist()


def test_step_with_scheduled_output_training_helper_without_next_inputs_fn_or_aux_inputs():
    assert set(assert_scheduled_output(0.5)) == {0, 1}


def test_step_with_scheduled_output_training_helper_with_next_inputs_fn():
    assert set(assert_scheduled_output(0.5, next_inputs_fn=lambda outputs: outputs * 2)) == {0, 1}


def test_step_with_scheduled_output_training_helper_with_auxiliary_inputs():
    assert set(assert_scheduled_output(0.5, auxiliary_depth=4)) == {0, 1}


def test_step_with_scheduled_output_training_helper_with_next_inputs_fn_and_aux_inputs():
    assert set(assert_scheduled_output(0.5, lambda outputs: outputs * 2, auxiliary_depth=4)) == {0, 1}


def test_step_with_scheduled_output_training_helper_with_no_sampling():
    assert assert_scheduled_output(0.0) == [0] * BATCH


# -- samples of any kind -----------------------------------------------------------------------------------------------


def test_step_with_inference_helper_categorical():
    embeddings = torch.randn(VOCABULARY, DEPTH)
    helper = InferenceHelper(
        sample_fn=lambda outputs: outputs.argmax(-1).int(),
        sample_shape=(),
        sample_dtype=torch.int32,
        start_inputs=embeddings[START].expand(BATCH, -1),
        end_fn=lambda ids: ids == END,
        next_inputs_fn=lambda ids: embeddings[ids.long()],
    )
    outputs = assert_reads_its_samples(helper, embeddings)
    assert outputs.sample_id.tolist() == outputs.rnn_output.argmax(1).tolist()


def test_step_with_inference_helper_multilabel():
    start = torch.zeros(BATCH, VOCABULARY)
    start[:, START] = 1
    helper = InferenceHelper(
        sample_fn=lambda outputs: outputs.sigmoid() > 0.5,
        sample_shape=[VOCABULARY],
        sample_dtype=torch.bool,
        start_inputs=start,
        end_fn=lambda samples: samples[:, END],
        next_inputs_fn=lambda samples: samples.float(),
    )
    decoder = decoder_of(helper, VOCABULARY, VOCABULARY)
    outputs, next_inputs, finished = first_step(decoder, VOCABULARY, ids=([VOCABULARY], torch.bool))
    assert torch.equal(outputs.sample_id, outputs.rnn_output > 0)
    assert torch.equal(next_inputs, outputs.sample_id.float())
    assert torch.equal(finished, outputs.sample_id[:, END])
