"""The rows of `rnn_test.py` about Keras cells, with torch's own cells in their place.

A loop takes anything that looks like a cell, so a cell of another library needs no base class of ours.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.tensorflow_tests.comparing import assert_same
from tests.tensorflow_tests.toy_cells import fill_all
from unspool import BasicRNNCell, LSTMCell, MultiRNNCell, dynamic_rnn, static_rnn


class Foreign(nn.Module):
    """A cell of `torch.nn` with the four things a loop asks for."""

    def __init__(self, cell):
        super().__init__()
        self.inner = cell
        self.output_size = cell.hidden_size
        self.state_size = [cell.hidden_size] * 2 if isinstance(cell, nn.LSTMCell) else cell.hidden_size

    def zero_state(self, batch_size, dtype):
        zeros = torch.zeros(batch_size, self.output_size, dtype=dtype)
        return [zeros, zeros] if isinstance(self.inner, nn.LSTMCell) else zeros

    def forward(self, inputs, state):
        new = self.inner(inputs, state)
        return (new[0], list(new)) if isinstance(self.inner, nn.LSTMCell) else (new, new)


def assert_one_step_of_sgd_helps(cell, run):
    """The loss of `run()` reaches every weight, and a small step against its gradient makes it smaller."""
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.01)
    loss = (run() - 1).square().mean()
    loss.backward()
    assert all(weight.grad.abs().max() > 0 for weight in cell.parameters())
    optimizer.step()
    assert (run() - 1).square().mean() < loss


@pytest.fixture
def inputs():
    return torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("time_major", [False, True])
def test_rnn_with_keras_simple_rnn_cell(inputs, time_major):
    cell = Foreign(nn.RNNCell(3, 5))
    inputs = inputs.transpose(0, 1) if time_major else inputs
    outputs, state = dynamic_rnn(cell, inputs, dtype=torch.float32, time_major=time_major)
    assert outputs.shape == ((4, 2, 5) if time_major else (2, 4, 5))
    assert torch.equal(outputs[-1] if time_major else outputs[:, -1], state)
    assert_one_step_of_sgd_helps(cell, lambda: dynamic_rnn(cell, inputs, dtype="float32", time_major=time_major)[0])


def test_rnn_with_keras_gru_cell(inputs):
    cell = Foreign(nn.GRUCell(3, 5))
    outputs, state = dynamic_rnn(cell, inputs, dtype=torch.float32)
    assert outputs.shape == (2, 4, 5)
    assert torch.equal(outputs[:, -1], state)
    assert_one_step_of_sgd_helps(cell, lambda: dynamic_rnn(cell, inputs, dtype=torch.float32)[0])


def test_rnn_with_keras_lstm_cell(inputs):
    cell = Foreign(nn.LSTMCell(3, 5))
    outputs, state = dynamic_rnn(cell, inputs, dtype=torch.float32)
    assert outputs.shape == (2, 4, 5)
    assert isinstance(state, list)
    assert [leaf.shape for leaf in state] == [(2, 5), (2, 5)]
    assert torch.equal(outputs[:, -1], state[0])
    assert_one_step_of_sgd_helps(cell, lambda: dynamic_rnn(cell, inputs, dtype=torch.float32)[0])


def test_rnn_with_stack_keras_cell(inputs):
    stack = MultiRNNCell([Foreign(nn.LSTMCell(3, 10)), Foreign(nn.LSTMCell(10, 5))])
    outputs, state = dynamic_rnn(stack, inputs, dtype=torch.float32)
    assert outputs.shape == (2, 4, 5)
    assert [[leaf.shape for leaf in layer] for layer in state] == [[(2, 10), (2, 10)], [(2, 5), (2, 5)]]
    assert_one_step_of_sgd_helps(stack, lambda: dynamic_rnn(stack, inputs, dtype=torch.float32)[0])


def test_static_rnn_with_keras_simple_rnn_cell(inputs):
    cell = Foreign(nn.RNNCell(3, 5))
    outputs, state = static_rnn(cell, inputs.unbind(1), dtype=torch.float32)
    assert [output.shape for output in outputs] == [(2, 5)] * 4
    assert torch.equal(outputs[-1], state)
    assert_one_step_of_sgd_helps(cell, lambda: torch.stack(static_rnn(cell, inputs.unbind(1), dtype=torch.float32)[0]))


def test_keras_and_tf_rnn_layer_output_comparison(inputs):
    """A foreign cell in our loop is the foreign library's own layer."""
    layer, cell = nn.RNN(3, 5, batch_first=True), nn.RNNCell(3, 5)
    cell.load_state_dict({name: getattr(layer, f"{name}_l0") for name in cell.state_dict()})
    layer, cell, inputs = layer.double(), cell.double(), inputs.double()
    outputs, state = dynamic_rnn(Foreign(cell), inputs, dtype=torch.float64)
    expected, (final,) = layer(inputs)
    assert_same(outputs, expected)
    assert_same(state, final)


def test_keras_and_tf_rnn_layer_output_comparison_basic_rnn(inputs):
    """`[x, h] @ kernel` is torch's two products, one above the other."""
    cell = fill_all(BasicRNNCell(5, input_size=3, dtype=torch.float64), seed=2)
    layer = nn.RNN(3, 5, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(cell.kernel[:3].T)
        layer.weight_hh_l0.copy_(cell.kernel[3:].T)
        layer.bias_ih_l0.copy_(cell.bias)
        layer.bias_hh_l0.zero_()
    assert_same(dynamic_rnn(cell, inputs.double(), dtype=torch.float64)[0], layer(inputs.double())[0])


def test_keras_and_tf_rnn_layer_output_comparison_lstm(inputs):
    """Gates i, j, f, o against torch's i, f, g, o; the forget bias is added at run time and stored nowhere."""
    cell = fill_all(LSTMCell(5, num_proj=4, input_size=3, dtype=torch.float64), seed=3)
    layer = nn.LSTM(3, 5, proj_size=4, batch_first=True, dtype=torch.float64)
    i, j, f, o = torch.arange(20).chunk(4)
    columns = torch.cat([i, f, j, o])
    with torch.no_grad():
        layer.weight_ih_l0.copy_(cell.kernel[:3, columns].T)
        layer.weight_hh_l0.copy_(cell.kernel[3:, columns].T)
        layer.weight_hr_l0.copy_(cell.projection_kernel.T)
        layer.bias_ih_l0.copy_(cell.bias[columns])
        layer.bias_ih_l0[5:10] += 1
        layer.bias_hh_l0.zero_()
    outputs, state = dynamic_rnn(cell, inputs.double(), dtype=torch.float64)
    expected, (h, c) = layer(inputs.double())
    assert_same(outputs, expected)
    assert_same((state.c, state.h), (c[0], h[0]))
