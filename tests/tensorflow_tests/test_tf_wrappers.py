"""TensorFlow's `rnn_cell_test.py`, `RNNCellTest`: wrappers around a cell, and how they are saved."""

from __future__ import annotations

import copy
import io

import pytest
import torch

from tests.tensorflow_tests.comparing import assert_same
from tests.tensorflow_tests.toy_cells import Echo, fill_all
from unspool import (
    BasicRNNCell,
    DeviceWrapper,
    DropoutWrapper,
    GRUCell,
    LSTMCell,
    LSTMStateTuple,
    MultiRNNCell,
    ResidualWrapper,
    RNNCellWrapper,
    dynamic_rnn,
    tf_variables,
)


def gru(depth=3):
    return fill_all(GRUCell(3, input_size=depth, dtype=torch.float64), seed=1)


def one_row(width):
    return torch.full((1, width), 1.0, dtype=torch.float64), torch.full((1, 3), 0.1, dtype=torch.float64)


@pytest.mark.parametrize(
    "wrap", [DropoutWrapper, ResidualWrapper, lambda cell: MultiRNNCell([cell])], ids=["dropout", "residual", "stack"]
)
def test_wrapper_checkpointing(wrap):
    cell = BasicRNNCell(1)
    wrapper = wrap(cell)
    state = torch.zeros(1, 1) if not isinstance(wrapper, MultiRNNCell) else (torch.zeros(1, 1),)
    before, _ = wrapper(torch.ones(1, 1), state)
    child = "cell_0" if isinstance(wrapper, MultiRNNCell) else "cell"
    assert list(wrapper.state_dict()) == [f"{child}.kernel", f"{child}.bias"]
    file = io.BytesIO()
    torch.save(wrapper.state_dict(), file)
    torch.nn.init.constant_(cell.bias, 40.0)
    assert not torch.allclose(wrapper(torch.ones(1, 1), state)[0], before)
    file.seek(0)
    wrapper.load_state_dict(torch.load(file))
    assert cell.bias.item() == 0.0
    assert torch.equal(wrapper(torch.ones(1, 1), state)[0], before)


def test_residual_wrapper():
    cell, (inputs, state) = gru(), one_row(3)
    output, new_state = cell(inputs, state)
    residual_output, residual_state = ResidualWrapper(cell)(inputs, state)
    assert_same(residual_output, output + 1)
    assert_same(residual_state, new_state)
    assert list(tf_variables(ResidualWrapper(cell))) == list(tf_variables(cell))


def test_residual_wrapper_with_slice():
    cell, (inputs, state) = gru(depth=5), one_row(5)
    inputs = inputs * torch.arange(5)
    output, new_state = cell(inputs, state)
    wrapper = ResidualWrapper(cell, lambda inputs, outputs: inputs[:, :3] + outputs)
    residual_output, residual_state = wrapper(inputs, state)
    assert_same(residual_output, output + torch.arange(3))
    assert_same(residual_state, new_state)


def test_device_wrapper():
    wrapper = DeviceWrapper(GRUCell(3), "cpu")
    output, state = wrapper(torch.zeros(1, 2), torch.zeros(1, 3))
    assert output.device.type == state.device.type == "cpu"


def test_device_wrapper_takes_everything_along():
    """The meta device computes shapes only, but it is a device every machine has besides its CPU."""
    wrapper = DeviceWrapper(LSTMCell(3, input_size=2), "meta")
    start = wrapper.zero_state(1, torch.float32)
    output, state = wrapper(torch.zeros(1, 2), LSTMStateTuple(*torch.zeros(2, 1, 3)))
    assert {tensor.device.type for tensor in (*start, output, *state, *wrapper.parameters())} == {"meta"}


def test_device_wrapper_dynamic_execution_nodes_are_all_properly_located():
    seen = []

    class Witness(Echo):
        def forward(self, inputs, state):
            seen.extend([inputs.device.type, state.device.type])
            return super().forward(inputs, state)

    inputs = torch.zeros(2, 4, 3)
    outputs, state = dynamic_rnn(DeviceWrapper(Witness(3), "meta"), inputs, dtype=torch.float32)
    assert set(seen) == {"meta"}
    assert outputs.device.type == state.device.type == "meta"
    assert inputs.device.type == "cpu"


def restored(wrapper):
    """Another wrapper by way of its configuration; a wrapper needs a real cell in it."""
    config = copy.deepcopy(wrapper.get_config())
    assert config["cell"] == {"class_name": "BasicRNNCell", "config": wrapper.cell.get_config()}
    with pytest.raises(ValueError, match="put an RNNCell at"):
        type(wrapper).from_config(config)
    cell = BasicRNNCell.from_config(config["cell"]["config"])
    again = type(wrapper).from_config({**config, "cell": cell})
    assert again.cell is cell
    assert again.get_config() == wrapper.get_config()
    return again


def test_device_wrapper_serialization():
    assert restored(DeviceWrapper(BasicRNNCell(3), "cpu")).device == torch.device("cpu")


def halfway(inputs, outputs):
    return (inputs + outputs) / 2


def keep_the_state(state):
    return False


@pytest.mark.parametrize("residual_fn", [None, halfway, lambda inputs, outputs: inputs - outputs])
def test_residual_wrapper_serialization(residual_fn):
    wrapper = ResidualWrapper(fill_all(BasicRNNCell(3, input_size=3, dtype=torch.float64), seed=1), residual_fn)
    again = restored(wrapper)
    again.load_state_dict(wrapper.state_dict())
    inputs, state = one_row(3)
    assert_same(again(inputs, state), wrapper(inputs, state))


@pytest.mark.parametrize(("visitor", "dropped"), [(None, True), (keep_the_state, False), (lambda state: False, False)])
def test_dropout_wrapper_serialization(visitor, dropped):
    wrapper = DropoutWrapper(
        BasicRNNCell(3), input_keep_prob=0.5, state_keep_prob=1e-6, seed=7, dropout_state_filter_visitor=visitor
    )
    again = restored(wrapper)
    assert (again.input_keep_prob, again.output_keep_prob, again.state_keep_prob) == (0.5, 1.0, 1e-6)
    wrapper.build(3)
    again.load_state_dict(wrapper.state_dict())
    inputs, state = torch.ones(1, 3), torch.ones(1, 3)
    _, new_state = again(inputs, state)
    assert_same(new_state, wrapper(inputs, state)[1], atol=0)
    assert bool(new_state.any()) is not dropped


@pytest.mark.parametrize("wrap", [RNNCellWrapper, DropoutWrapper, ResidualWrapper, lambda c: DeviceWrapper(c, "cpu")])
def test_wrapped_cell_property(wrap):
    cell = BasicRNNCell(10)
    assert wrap(cell).wrapped_cell is cell
