"""TensorFlow's `rnn_cell_test.py`, `RNNCellTest`: the numbers, names and errors of single cells and stacks.

Where nothing else is said, kernels are 0.5, inputs 1, states 0.1, and biases what the cell makes them.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.tensorflow_tests.comparing import SIX_DIGITS, assert_all_equal_to
from tests.tensorflow_tests.toy_cells import fill_kernels
from unspool import (
    BasicLSTMCell,
    BasicRNNCell,
    GRUCell,
    LSTMCell,
    LSTMStateTuple,
    MultiRNNCell,
    RNNCell,
    dynamic_rnn,
    tf_variables,
)


def built(cell, depth, dtype=torch.float32):
    """`cell` for inputs of `depth`, with its kernels filled."""
    cell.build(depth, dtype=dtype)
    return fill_kernels(cell)


def tenths(*widths, dtype=torch.float32):
    """A state of 0.1 everywhere: one tensor, or an `LSTMStateTuple` of two."""
    states = [torch.full((1, width), 0.1, dtype=dtype) for width in widths]
    return LSTMStateTuple(*states) if len(states) == 2 else states[0]


def assert_row(tensor, numbers, atol=SIX_DIGITS):
    torch.testing.assert_close(tensor.double(), torch.tensor([numbers], dtype=torch.float64), rtol=0, atol=atol)


def test_basic_rnn_cell():
    cell = BasicRNNCell(2)
    output, state = cell(torch.zeros(1, 2), torch.zeros(1, 2))
    assert output.shape == (1, 2)
    assert output is state
    weights = tf_variables(cell, scope="root")
    assert list(weights) == ["root/basic_rnn_cell/kernel", "root/basic_rnn_cell/bias"]
    assert all(weight.requires_grad for weight in weights.values())


@pytest.mark.parametrize("when", ["before_building", "after_building"])
def test_basic_rnn_cell_not_trainable(when):
    cell, inputs = BasicRNNCell(2), torch.zeros(1, 2, requires_grad=True)
    if when == "after_building":
        cell(inputs, torch.zeros(1, 2))
    cell.requires_grad_(False)
    output, _ = cell(inputs, torch.zeros(1, 2))
    assert list(tf_variables(cell, scope="root")) == ["root/basic_rnn_cell/kernel", "root/basic_rnn_cell/bias"]
    assert [weight.requires_grad for weight in cell.parameters()] == [False, False]
    output.sum().backward()
    assert inputs.grad is not None
    assert [weight.grad for weight in cell.parameters()] == [None, None]


def test_basic_rnn_cell_not_trainable_by_its_author():
    class Frozen(RNNCell):
        def __init__(self, units):
            super().__init__(trainable=False)
            self.state_size = self.output_size = units

        def build(self, input_size, **where):
            self.add_weight("kernel", (input_size, self.output_size), nn.init.ones_, **where)

        def forward(self, inputs, state):
            output = inputs @ self.kernel + state
            return output, output

    cell = Frozen(3)
    assert_all_equal_to(dynamic_rnn(cell, torch.ones(1, 1, 2), dtype=torch.float32)[0], 2.0, atol=0)
    assert [weight.requires_grad for weight in cell.parameters()] == [False]


@pytest.mark.parametrize(("depth", "number"), [(2, 0.175991), (3, 0.156736)])
def test_gru_cell(depth, number):
    output, state = built(GRUCell(2), depth)(torch.ones(1, depth), tenths(2))
    assert_all_equal_to(output, number)
    assert output is state


# Half precision rounds each of a few operations on numbers below 1 by up to 2**-12.
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, SIX_DIGITS), (torch.float16, 1e-3)])
def test_basic_lstm_cell(dtype, atol):
    cell = MultiRNNCell([BasicLSTMCell(2, state_is_tuple=False) for _ in range(2)], state_is_tuple=False)
    inputs, state = torch.ones(1, 2, dtype=dtype), tenths(8, dtype=dtype)
    assert cell.dtype is None
    cell(inputs, state)  # the weights take the dtype of the first inputs
    weights = tf_variables(cell, scope="root")
    assert list(weights) == [
        f"root/multi_rnn_cell/cell_{k}/basic_lstm_cell/{name}" for k in range(2) for name in ("kernel", "bias")
    ]
    assert {weight.dtype for weight in weights.values()} == {dtype}
    assert all(weight.requires_grad for weight in weights.values())
    output, state = fill_kernels(cell)(inputs, state)
    assert output.dtype == state.dtype == dtype
    assert_row(output, [0.24024698] * 2, atol)
    memory = [0.68967271, 0.44848421, 0.39897051, 0.24024698]
    assert_row(state, [number for number in memory for _ in range(2)], atol)


def test_basic_lstm_cell_of_another_depth():
    output, state = built(BasicLSTMCell(2, state_is_tuple=False), 3)(torch.ones(1, 3), tenths(4))
    assert output.shape == (1, 2)
    assert state.shape == (1, 4)
    assert torch.equal(state[:, 2:], output)


@pytest.mark.parametrize("state_is_tuple", [False, True])
def test_basic_lstm_cell_dimension_0_error(state_is_tuple):
    cell = BasicLSTMCell(2, state_is_tuple=state_is_tuple)
    with pytest.raises(ValueError, match=r"shape \[3, 2\], expected \[2, 2\]"):
        cell(torch.zeros(2, 2), cell.zero_state(3, torch.float32))


@pytest.mark.parametrize("width", [6, 3, 2])
def test_basic_lstm_cell_state_size_error(width):
    with pytest.raises(ValueError, match="basic_lstm_cell"):
        BasicLSTMCell(2, state_is_tuple=False)(torch.zeros(3, 2), torch.zeros(3, width))


def test_basic_lstm_cell_state_tuple_type():
    cell = MultiRNNCell([BasicLSTMCell(2) for _ in range(2)])
    assert all(isinstance(size, LSTMStateTuple) for size in cell.state_size)
    assert all(isinstance(state, LSTMStateTuple) for state in cell.zero_state(1, torch.float32))
    plain = tuple((torch.zeros(1, 2), torch.zeros(1, 2)) for _ in range(2))
    with pytest.raises(TypeError, match=r"write LSTMStateTuple\(c=..., h=...\)"):  # which order they are in is not told
        cell(torch.zeros(1, 2), plain)
    _, states = cell(torch.zeros(1, 2), tuple(LSTMStateTuple(*each) for each in plain))
    assert type(states) is tuple
    assert all(isinstance(state, LSTMStateTuple) for state in states)


def test_basic_lstm_cell_with_state_tuple():
    cell = built(MultiRNNCell([BasicLSTMCell(2) for _ in range(2)]), 2)
    output, (lower, upper) = cell(torch.ones(1, 2), (tenths(2, 2), tenths(2, 2)))
    assert_row(output, [0.24024698] * 2)
    for state, numbers in [(lower, (0.68967271, 0.44848421)), (upper, (0.39897051, 0.24024698))]:
        for leaf, number in zip(state, numbers, strict=True):
            assert_row(leaf, [number] * 2)


def test_lstm_cell():
    cell = built(LSTMCell(8, num_proj=6, forget_bias=1.0, state_is_tuple=False), 4)
    inputs = torch.tensor([1.0, 2.0, 3.0])[:, None].expand(3, 4)
    output, state = cell(inputs, torch.full((3, 14), 0.1))
    assert output.shape == (3, 6)
    assert state.shape == (3, 14)
    for tensor in (output, state):  # each row by its own inputs
        assert (tensor[1:] - tensor[:-1]).norm(dim=1).min() > 1e-2


def test_lstm_cell_variables():
    cell = LSTMCell(8, num_proj=6, state_is_tuple=False)
    cell(torch.zeros(3, 4), torch.zeros(3, 14))
    weights = {name: tuple(weight.shape) for name, weight in tf_variables(cell, scope="root").items()}
    assert list(weights.items()) == [
        ("root/lstm_cell/kernel", (10, 32)),
        ("root/lstm_cell/bias", (32,)),
        ("root/lstm_cell/projection/kernel", (8, 6)),
    ]


def test_multi_rnn_cell():
    cell = built(MultiRNNCell([GRUCell(2) for _ in range(2)], state_is_tuple=False), 2)
    output, state = cell(torch.ones(1, 2), tenths(4))
    assert_row(state, [0.175991, 0.175991, 0.13248, 0.13248])
    assert torch.equal(output, state[:, 2:])
    assert list(cell.cells) == [cell.cell_0, cell.cell_1]
    assert list(tf_variables(cell, scope="")) == [
        f"multi_rnn_cell/cell_{k}/gru_cell/{name}"
        for k in range(2)
        for name in ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias")
    ]
    assert len(list(cell.parameters())) == 8


def test_multi_rnn_cell_with_state_tuple():
    cell = built(MultiRNNCell([GRUCell(2) for _ in range(2)]), 2)
    _, states = cell(torch.ones(1, 2), (tenths(2), tenths(2)))
    assert type(states) is tuple
    assert_row(states[0], [0.175991] * 2)
    assert_row(states[1], [0.13248] * 2)
    with pytest.raises(ValueError, match=r"Expected state .* a tuple"):
        cell(torch.ones(1, 2), tenths(4))
