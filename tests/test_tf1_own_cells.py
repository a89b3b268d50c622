"""Cells that are written with operations of the graph are planned like any other, with TensorFlow's names."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch

import unspool
from tests.tf1_sequences import BATCH, DEPTH, INPUTS, LENGTHS, STEPS, UNITS, gradients_of, inputs_placeholder, names
from unspool import tf1 as tf


class Leaky(tf.nn.rnn_cell.RNNCell):
    """A cell as TensorFlow 1's users write them."""

    def __init__(self, units: int, name: str | None = None) -> None:
        super().__init__(name=name)
        self._units = units

    @property
    def state_size(self) -> int:
        return self._units

    @property
    def output_size(self) -> int:
        return self._units

    def call(self, inputs: Any, state: Any) -> Any:
        kernel = tf.get_variable("kernel", [int(inputs.shape[1]) + self._units, self._units], inputs.dtype)
        state = 0.9 * state + 0.1 * tf.tanh(tf.matmul(tf.concat([inputs, state], 1), kernel))
        return state, state


class LeakyModule(unspool.RNNCell):
    """The same step in torch."""

    def __init__(self, kernel: Any) -> None:
        super().__init__()
        self.kernel = torch.nn.Parameter(torch.as_tensor(kernel))
        self.state_size = self.output_size = kernel.shape[1]

    def forward(self, x: Any, h: Any) -> Any:
        h = 0.9 * h + 0.1 * torch.tanh(torch.cat([x, h], 1) @ self.kernel)
        return h, h


def test_a_cell_of_ones_own_runs_as_written(caplog: pytest.LogCaptureFixture):
    x = inputs_placeholder()
    outputs, state = tf.nn.dynamic_rnn(Leaky(UNITS), x, LENGTHS, dtype=tf.float64)
    gradients = gradients_of(outputs, state)
    assert names() == ["rnn/leaky/kernel:0"]
    with tf.Session() as session, caplog.at_level(logging.INFO, "unspool"):
        session.run(tf.global_variables_initializer())
        kernel, *found = session.run([tf.trainable_variables()[0], outputs, state, *gradients], {x: INPUTS})
    assert "plain loop" not in caplog.text  # the engine plans it like any other
    module = LeakyModule(kernel)
    expected = unspool.dynamic_rnn(module, torch.as_tensor(INPUTS), LENGTHS, dtype=torch.float64)
    loss = sum(leaf.square().sum() for leaf in expected)
    for ours, theirs in zip(found, [*expected, *torch.autograd.grad(loss, [module.kernel])], strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-12, atol=1e-12)


def test_a_cell_of_ones_own_in_a_stack_and_in_wrappers_keeps_its_names():
    x = inputs_placeholder()
    cells = [tf.nn.rnn_cell.DropoutWrapper(Leaky(UNITS)), tf.nn.rnn_cell.GRUCell(2), Leaky(3, name="last")]
    outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.MultiRNNCell(cells), x, dtype=tf.float64)
    assert outputs.shape.as_list() == [None, STEPS, 3]
    assert {name for name in names() if "gru" not in name} == {
        "rnn/multi_rnn_cell/cell_0/leaky/kernel:0",
        "rnn/multi_rnn_cell/cell_2/last/kernel:0",
    }
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert [leaf.shape for leaf in session.run(state, {x: INPUTS})] == [(BATCH, UNITS), (BATCH, 2), (BATCH, 3)]


def test_a_cell_of_ones_own_may_read_the_graph_around_it():
    x, bias = inputs_placeholder(), tf.placeholder(tf.float64, [UNITS])

    class Shifted(Leaky):
        def call(self, inputs: Any, state: Any) -> Any:
            output, state = super().call(inputs, state)
            return output + bias, state

    outputs, _ = tf.nn.dynamic_rnn(Shifted(UNITS), x, dtype=tf.float64)
    slope = tf.gradients(tf.reduce_sum(outputs), bias)[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        zero, one, found = (
            session.run(fetch, {x: INPUTS, bias: np.full(UNITS, value)})
            for fetch, value in ((outputs, 0.0), (outputs, 1.0), (slope, 0.0))
        )
    np.testing.assert_allclose(one - zero, np.ones_like(one), atol=1e-15)
    np.testing.assert_allclose(found, np.full(UNITS, BATCH * STEPS))


class Zoneout(tf.nn.rnn_cell.RNNCell):
    """A cell around another, as TensorFlow 1's users write them."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self._cell = tf.nn.rnn_cell.GRUCell(units)

    @property
    def state_size(self) -> int:
        return self._cell.state_size

    @property
    def output_size(self) -> int:
        return self._cell.output_size

    def call(self, inputs: Any, state: Any) -> Any:
        output, new = self._cell(inputs, state)
        return output, 0.9 * new + 0.1 * state


class ZoneoutModule(unspool.RNNCellWrapper):
    """The same step in torch."""

    def forward(self, inputs: Any, state: Any) -> Any:
        output, new = self.cell(inputs, state)
        return output, 0.9 * new + 0.1 * state


@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_a_cell_of_ones_own_around_another_is_planned_as_a_whole(lengths: Any, caplog: pytest.LogCaptureFixture):
    x = inputs_placeholder()
    outputs, state = tf.nn.dynamic_rnn(Zoneout(UNITS), x, lengths, dtype=tf.float64)
    gradients = gradients_of(outputs, state)
    assert names()[0] == "rnn/zoneout/gru_cell/gates/kernel:0"
    with tf.Session() as session, caplog.at_level(logging.INFO, "unspool"):
        session.run(tf.global_variables_initializer())
        weights, *found = session.run([tf.trainable_variables(), outputs, state, *gradients], {x: INPUTS})
    assert "plain loop" not in caplog.text
    module = ZoneoutModule(unspool.GRUCell(UNITS, input_size=DEPTH).double())
    parameters = list(unspool.tf_variables(module).values())
    with torch.no_grad():
        for parameter, weight in zip(parameters, weights, strict=True):
            parameter.copy_(torch.as_tensor(weight))
    expected = unspool.dynamic_rnn(module, torch.as_tensor(INPUTS), lengths, dtype=torch.float64)
    loss = sum(leaf.square().sum() for leaf in expected)
    for ours, theirs in zip(found, [*expected, *torch.autograd.grad(loss, parameters)], strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-12, atol=1e-12)


def test_a_step_that_assigns_to_a_variable_is_refused():
    count = tf.get_variable("count", [], initializer=tf.zeros_initializer())

    class Counting(Leaky):
        def call(self, inputs: Any, state: Any) -> Any:
            with tf.control_dependencies([count.assign_add(1.0)]):
                return super().call(inputs, state)

    with pytest.raises(ValueError, match="Counting assigns to a variable"):
        tf.nn.dynamic_rnn(Counting(UNITS), inputs_placeholder(), dtype=tf.float64)
