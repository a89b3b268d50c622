"""TensorFlow's `decoder_test.py`: the loop that decodes."""

from __future__ import annotations

import pytest
import torch

from tests.tensorflow_tests.comparing import assert_same, gradients
from tests.tensorflow_tests.scopes import profiler_ranges, scopes
from tests.tensorflow_tests.toy_cells import PlusOne, fill_all
from unspool import LSTMCell, LSTMStateTuple, dynamic_rnn, tf_variables
from unspool.decode import BasicDecoder, BasicDecoderOutput, CustomHelper, TrainingHelper, dynamic_decode

LENGTHS = [3, 4, 3, 1, 0]
BATCH, STEPS, DEPTH, UNITS = 5, 8, 7, 10


def training(time_major=False):
    """An LSTM, inputs that want gradients, and a decoder that reads them."""
    cell = fill_all(LSTMCell(UNITS, input_size=DEPTH, dtype=torch.float64), seed=1)
    shape = (STEPS, BATCH, DEPTH) if time_major else (BATCH, STEPS, DEPTH)
    inputs = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    helper = TrainingHelper(inputs, LENGTHS, time_major=time_major)
    return cell, inputs, BasicDecoder(cell, helper, cell.zero_state(BATCH, torch.float64))


def assert_runs(time_major, maximum_iterations, steps):
    _, _, decoder = training(time_major)
    outputs, state, lengths = dynamic_decode(
        decoder, output_time_major=time_major, maximum_iterations=maximum_iterations
    )
    axes = (steps, BATCH) if time_major else (BATCH, steps)
    assert isinstance(outputs, BasicDecoderOutput)
    assert (outputs.rnn_output.shape, outputs.rnn_output.dtype) == ((*axes, UNITS), torch.float64)
    assert (outputs.sample_id.shape, outputs.sample_id.dtype) == (axes, torch.int32)
    assert isinstance(state, LSTMStateTuple)
    assert {leaf.shape for leaf in state} == {(BATCH, UNITS)}
    assert lengths.dtype == torch.int32
    assert lengths.tolist() == [min(length, steps) for length in LENGTHS]


def test_dynamic_decode_rnn_batch_major():
    assert_runs(time_major=False, maximum_iterations=None, steps=4)


def test_dynamic_decode_rnn_time_major():
    assert_runs(time_major=True, maximum_iterations=None, steps=4)


@pytest.mark.parametrize("time_major", [False, True])
def test_dynamic_decode_rnn_zero_max_iters(time_major):
    assert_runs(time_major, maximum_iterations=0, steps=0)


@pytest.mark.parametrize("time_major", [False, True])
def test_dynamic_decode_rnn_one_max_iter(time_major):
    assert_runs(time_major, maximum_iterations=1, steps=1)


def test_dynamic_decode_rnn_with_training_helper_matches_dynamic_rnn_with_seq_len():
    cell, inputs, decoder = training()
    outputs, state, _ = dynamic_decode(decoder)
    expected, expected_state = dynamic_rnn(cell, inputs, LENGTHS, dtype=torch.float64)
    assert_same(outputs.rnn_output, expected[:, :4])
    assert_same(state, expected_state)
    assert not expected[:, 4:].any()
    sources = [inputs, *cell.parameters()]
    for one, other in [(outputs.rnn_output, expected), (state, expected_state)]:
        assert_same(gradients(one, sources), gradients(other, sources))
        assert all(gradient.any() for gradient in gradients(one, sources))


def test_dynamic_decode_rnn_with_training_helper_matches_dynamic_rnn_no_seq_len():
    cell, inputs, decoder = training()
    outputs, state, _ = dynamic_decode(decoder, impute_finished=False)
    expected, expected_state = dynamic_rnn(cell, inputs[:, :4], dtype=torch.float64)
    assert_same(outputs.rnn_output, expected)
    assert_same(state, expected_state)
    sources = [inputs, *cell.parameters()]
    assert_same(gradients(outputs.rnn_output, sources), gradients(expected, sources))


SCRIPT = torch.tensor([[2, 3, 1, 4, 4], [1, 4, 4, 4, 4], [2, 3, 4, 2, 1]], dtype=torch.int32)
"""What each of three rows says, step by step; 1 is the end."""


def scripted():
    """A decoder whose rows say the script, and whose state counts the steps that it took."""
    helper = CustomHelper(
        initialize_fn=lambda: (torch.zeros(3, dtype=torch.bool), torch.zeros(3, 1)),
        sample_fn=lambda time, outputs, state: SCRIPT[:, time],
        next_inputs_fn=lambda time, outputs, state, sample_ids: (sample_ids == 1, torch.zeros(3, 1), state),
        end_token=1,
    )
    return BasicDecoder(PlusOne(1), helper, torch.zeros(3, 1))


def test_dynamic_decode_rnn_batch_major_of_a_script():
    outputs, state, lengths = dynamic_decode(scripted())
    assert lengths.tolist() == [3, 1, 5]
    # TensorFlow has zeros where a row is past its end.
    assert outputs.sample_id.tolist() == [[2, 3, 1, 1, 1], [1, 1, 1, 1, 1], [2, 3, 4, 2, 1]]
    assert outputs.rnn_output[:, :, 0].tolist() == [[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]]
    assert state.flatten().tolist() == [3, 1, 5]


def test_dynamic_decode_rnn_batch_major_of_a_script_that_runs_on():
    outputs, state, lengths = dynamic_decode(scripted(), impute_finished=False)
    assert lengths.tolist() == [3, 1, 5]
    assert outputs.sample_id.tolist() == SCRIPT.tolist()
    assert state.flatten().tolist() == [5, 5, 5]


@scopes(default="decoder")
def test_dynamic_decode_rnn_batch_major_scope(scope, prefix):
    cell, _, decoder = training()
    assert prefix in profiler_ranges(lambda: dynamic_decode(decoder, scope=scope))
    assert list(tf_variables(cell, scope=prefix)) == [f"{prefix}/lstm_cell/kernel", f"{prefix}/lstm_cell/bias"]
