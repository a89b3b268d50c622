"""TensorFlow's `rnn_cell_test.py`, `RawRNNTest`: a loop that is told what to do step by step."""

from __future__ import annotations

import pytest
import torch

from tests.tensorflow_tests.comparing import assert_same, gradients
from tests.tensorflow_tests.scopes import profiler_ranges, scopes
from tests.tensorflow_tests.toy_cells import PlusOne, fill_all
from unspool import LSTMCell, LSTMStateTuple, TensorArray, dynamic_rnn, raw_rnn, tf_variables

BATCH, DEPTH, UNITS = 3, 4, 2


def lstm():
    return fill_all(LSTMCell(UNITS, input_size=DEPTH, dtype=torch.float64), seed=1)


def reads(cell, inputs, lengths):
    """A `loop_fn` that does what `dynamic_rnn` does: the next of the time-major inputs until each row's length."""

    def loop_fn(time, output, state, loop_state):
        if output is None:
            state = cell.zero_state(BATCH, torch.float64)
        step = inputs[time] if time < len(inputs) else inputs.new_zeros(BATCH, DEPTH)
        return time >= torch.tensor(lengths), step, state, output, None

    return loop_fn


@pytest.mark.parametrize("lengths", [[10, 3, 0], [1, 10, 10], [7, 10, 4]])
def test_raw_rnn(lengths):
    cell, inputs = lstm(), torch.randn(10, BATCH, DEPTH, dtype=torch.float64, requires_grad=True)
    emitted, state, loop_state = raw_rnn(cell, reads(cell, inputs, lengths))
    outputs = emitted.stack()
    expected, expected_state = dynamic_rnn(cell, inputs, lengths, dtype=torch.float64, time_major=True)
    assert loop_state is None
    assert_same(outputs, expected)
    assert_same(state, expected_state)
    sources = [inputs, *cell.parameters()]
    for one, other in [(outputs, expected), (state, expected_state)]:
        assert_same(gradients(one, sources), gradients(other, sources))
        assert all(gradient.any() for gradient in gradients(one, sources))


def test_raw_rnn_rows_that_are_finished_stay_so():
    cell, cell_runs = PlusOne(DEPTH), 4

    def loop_fn(time, output, state, loop_state):
        assert time <= cell_runs, "the loop forgot that a row is finished"
        state = cell.zero_state(BATCH, torch.float32) if output is None else state
        finished = torch.tensor([time == 1, time >= cell_runs, time == 2])  # said once, not repeated
        return finished, torch.ones(BATCH, DEPTH), state, output, None

    emitted, state, _ = raw_rnn(cell, loop_fn)
    assert emitted.stack()[:, :, 0].T.tolist() == [[2, 0, 0, 0], [2, 2, 2, 2], [2, 2, 0, 0]]
    assert state[:, 0].tolist() == [1, 4, 2]


def test_raw_rnn_zero_length():
    cell, inputs = lstm(), torch.zeros(0, BATCH, DEPTH, dtype=torch.float64)
    emitted, state, _ = raw_rnn(cell, reads(cell, inputs, [0] * BATCH))
    expected, expected_state = dynamic_rnn(cell, inputs, [0] * BATCH, dtype=torch.float64, time_major=True)
    assert emitted.stack().shape == (0, BATCH, UNITS)
    assert_same(emitted.stack(), expected)
    assert isinstance(state, LSTMStateTuple)
    assert_same(state, expected_state)
    assert not any(leaf.any() for leaf in state)


def counting(next_loop_state, first, steps=10):
    """A `loop_fn` of `steps` steps over ones whose loop state is what `next_loop_state(time, before)` says."""
    cell = PlusOne(DEPTH)

    def loop_fn(time, output, state, loop_state):
        if output is None:
            state, loop_state = cell.zero_state(BATCH, torch.float32), first
        else:
            loop_state = next_loop_state(time, loop_state)
        return torch.full((BATCH,), time >= steps), torch.ones(BATCH, DEPTH), state, output, loop_state

    return cell, loop_fn


def test_loop_state():
    _, state, loop_state = raw_rnn(*counting(lambda time, count: count + 1, first=torch.tensor([0])))
    assert loop_state.tolist() == [10]
    assert torch.equal(state, torch.full((BATCH, DEPTH), 10.0))


def test_loop_state_with_tensor_array():
    first = TensorArray(torch.int64, size=5).write(0, torch.tensor([1]))
    _, _, array = raw_rnn(*counting(lambda time, array: array.write(time, array.read(time - 1) + time), first, steps=4))
    assert array.stack().flatten().tolist() == [1, 2, 4, 7, 11]


def test_emit_different_structure_than_cell_output():
    cell, lengths = PlusOne(DEPTH), torch.tensor([10, 2, 10])

    def loop_fn(time, output, state, loop_state):
        if output is None:  # the template: one row, without the batch
            state = cell.zero_state(BATCH, torch.float32)
            emit = (torch.zeros(2, 3, dtype=torch.int32), torch.zeros(1, dtype=torch.int64))
        else:
            emit = (torch.full((BATCH, 2, 3), time, dtype=torch.int32), torch.full((BATCH, 1), -time))
        return time >= lengths, torch.ones(BATCH, DEPTH), state, emit, None

    emitted, _, _ = raw_rnn(cell, loop_fn)
    assert isinstance(emitted, tuple)
    first, second = (array.stack() for array in emitted)
    assert (first.shape, first.dtype) == ((10, BATCH, 2, 3), torch.int32)
    assert (second.shape, second.dtype) == ((10, BATCH, 1), torch.int64)
    assert first[:, 0, 1, 2].tolist() == list(range(1, 11))
    assert second[:, 1, 0].tolist() == [-1, -2] + [0] * 8


def test_emit_different_structure_than_cell_output_template_has_no_batch():
    cell = PlusOne(DEPTH)

    def loop_fn(time, output, state, loop_state):
        state = cell.zero_state(BATCH, torch.float32) if output is None else state
        return torch.full((BATCH,), time >= 2), torch.ones(BATCH, DEPTH), state, torch.ones(BATCH, 2), None

    with pytest.raises(ValueError, match="template, which has no batch dimension"):
        raw_rnn(cell, loop_fn)


@scopes(default="rnn")
def test_raw_rnn_scope(scope, prefix):
    cell, inputs = lstm(), torch.zeros(2, BATCH, DEPTH, dtype=torch.float64)
    assert prefix in profiler_ranges(lambda: raw_rnn(cell, reads(cell, inputs, [2] * BATCH), scope=scope))
    assert list(tf_variables(cell, scope=prefix)) == [f"{prefix}/lstm_cell/kernel", f"{prefix}/lstm_cell/bias"]
