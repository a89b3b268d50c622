"""TensorFlow's `rnn_test.py`: `dynamic_rnn` and what it asks of a cell."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

from tests.tensorflow_tests.comparing import ROUNDING, assert_same
from tests.tensorflow_tests.toy_cells import PlusOne, ScalarState, TensorArrayState, UnbalancedOutput, fill_all
from unspool import BasicLSTMCell, BasicRNNCell, GRUCell, LSTMCell, LSTMStateTuple, dynamic_rnn, tf_variables

FOUR_CELLS = pytest.mark.parametrize("make_cell", [BasicRNNCell, GRUCell, BasicLSTMCell, LSTMCell])


@pytest.fixture
def count_up():
    """One row of four steps: 1, 2, 3, 4."""
    return torch.arange(1.0, 5.0).reshape(1, 4, 1)


@pytest.mark.parametrize("lengths", [[[4]], 4], ids=["matrix", "scalar"])
def test_invalid_sequence_length_shape(lengths):
    with pytest.raises(ValueError, match="must be a vector"):
        dynamic_rnn(PlusOne(3), torch.ones(1, 4, 3), sequence_length=lengths, dtype=torch.float32)


@FOUR_CELLS
def test_invalid_dtype(make_cell):
    inputs = torch.zeros(3, 4, 5, dtype=torch.int32)
    with pytest.raises(ValueError, match="RNN cell only supports floating"):
        dynamic_rnn(make_cell(2, dtype=torch.int32), inputs, dtype=torch.int32)


@pytest.mark.parametrize("with_initial_state", [False, True])
def test_batch_size_from_input(with_initial_state):
    cell = PlusOne(5)
    for batch_size in (2, 7):
        inputs = torch.zeros(batch_size, 4, 5)
        start = cell.zero_state(batch_size, torch.float32) if with_initial_state else None
        outputs, state = dynamic_rnn(cell, inputs, initial_state=start, dtype=torch.float32)
        assert outputs.shape == (batch_size, 4, 5)
        assert state.shape == (batch_size, 5)


def test_scalar_state_is_accepted(count_up):
    outputs, state = dynamic_rnn(ScalarState(), count_up, sequence_length=[4], dtype=torch.float32)
    assert torch.equal(outputs, count_up)
    assert state.shape == ()
    assert state == 4


def test_scalar_state_counts_the_steps_that_ran(count_up):
    both = torch.cat([count_up, count_up])
    outputs, state = dynamic_rnn(ScalarState(), both, sequence_length=[1, 2], dtype=torch.float32)
    assert outputs.squeeze(2).tolist() == [[1, 0, 0, 0], [1, 2, 0, 0]]
    assert state == 2  # a number without rows is not held back at the end of the shorter one


def test_unbalanced_output_is_accepted(count_up):
    outputs, state = dynamic_rnn(UnbalancedOutput(), count_up, sequence_length=[4], dtype=torch.float32)
    assert isinstance(outputs, tuple)
    assert torch.equal(outputs[0], count_up)
    assert torch.equal(outputs[1], count_up.expand(1, 4, 2))
    assert state == 4


@pytest.mark.parametrize("lengths", [None, [3]])
def test_eager_memory(lengths):
    cell = LSTMCell(2)

    def run():
        inputs = torch.ones(1, 3, 4, requires_grad=True)
        outputs, state = dynamic_rnn(cell, inputs, lengths, dtype=torch.float32)
        outputs.sum().backward()
        return [weakref.ref(tensor) for tensor in (inputs, outputs, *state)]

    leftovers = run()
    gc.collect()
    assert [leftover() for leftover in leftovers] == [None] * 4


def test_tensor_array_state_is_accepted(count_up):
    _, (time, array) = dynamic_rnn(TensorArrayState(), count_up, sequence_length=[4], dtype=torch.float32)
    assert time == 4
    assert torch.equal(array.stack(), count_up.transpose(0, 1))


def test_cell_get_initial_state():
    cell, inputs = LSTMCell(3), torch.zeros(2, 4, dtype=torch.float64)
    for state in (cell.get_initial_state(inputs), cell.get_initial_state(None, 2, torch.float64)):
        assert_same(state, LSTMStateTuple(*torch.zeros(2, 2, 3, dtype=torch.float64)), atol=0)
    agreeing = cell.get_initial_state(inputs, batch_size=2, dtype=torch.float64)
    assert agreeing.c.shape == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "batch_size and dtype cannot be None"),
        ({"batch_size": 2}, "batch_size and dtype cannot be None"),
        ({"dtype": torch.float32}, "batch_size and dtype cannot be None"),
        ({"inputs": torch.zeros(2, 4), "batch_size": 1}, "batch size from input tensor is different from"),
        ({"inputs": torch.zeros(2, 4), "dtype": torch.float16}, "dtype from input tensor is different from"),
    ],
    ids=["nothing", "no_dtype", "no_batch", "other_batch", "other_dtype"],
)
def test_cell_get_initial_state_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        GRUCell(3).get_initial_state(**arguments)


@FOUR_CELLS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cells_build(make_cell, dtype):
    cell = make_cell(6, dtype=dtype)
    assert not cell.built
    cell.build(32)
    assert cell.built
    assert {weight.dtype for weight in cell.parameters()} == {dtype}
    weights = list(cell.parameters())
    output, _ = cell(torch.ones(5, 32, dtype=dtype), cell.zero_state(5, dtype))
    assert output.shape == (5, 6)
    assert output.dtype == dtype
    assert all(before is after for before, after in zip(weights, cell.parameters(), strict=True))


def test_simple_rnn_cell_and_basic_rnn_cell_comparison():
    theirs = nn.RNNCell(5, 3, dtype=torch.float64)
    cell = BasicRNNCell(3, dtype=torch.float64, input_size=5)
    with torch.no_grad():
        cell.kernel.copy_(torch.cat([theirs.weight_ih.T, theirs.weight_hh.T]))
        cell.bias.copy_(theirs.bias_ih + theirs.bias_hh)
    inputs, state = torch.randn(4, 5, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    assert_same(cell(inputs, state)[0], theirs(inputs, state))


def test_basic_lstm_cell_interchange_with_lstm_cell():
    basic = fill_all(BasicLSTMCell(3, dtype=torch.float64, input_size=5), seed=1)
    other = LSTMCell(3, dtype=torch.float64, name="basic_lstm_cell", input_size=5)
    checkpoint, mine = tf_variables(basic), tf_variables(other)
    assert list(checkpoint) == list(mine) == ["rnn/basic_lstm_cell/kernel", "rnn/basic_lstm_cell/bias"]
    with torch.no_grad():
        for name, value in checkpoint.items():
            mine[name].copy_(value)
    inputs = torch.randn(2, 4, 5, dtype=torch.float64)
    for run, expected in zip(
        dynamic_rnn(other, inputs, dtype=torch.float64), dynamic_rnn(basic, inputs, dtype=torch.float64), strict=True
    ):
        assert_same(run, expected, atol=ROUNDING)


@FOUR_CELLS
def test_rnn_cell_serialization(make_cell):
    cell = make_cell(4, activation="relu", name="mine", dtype="float64", input_size=3)
    config = cell.get_config()
    again = make_cell.from_config(config)
    assert again.get_config() == config
    assert (again.name, again.dtype, again.state_size) == ("mine", torch.float64, cell.state_size)
    again.load_state_dict(cell.state_dict())
    inputs, state = torch.randn(2, 3, dtype=torch.float64), cell.zero_state(2, torch.float64)
    assert_same(again(inputs, state), cell(inputs, state))
