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


class Stepping(tf.nn.rnn_cell.RNNCell):
    """A cell whose step does something more with its new state."""

    state_size = output_size = 4

    def __init__(self, more: Any) -> None:
        super().__init__()
        self._more = more

    def call(self, inputs: Any, state: Any) -> Any:
        state = self._more(inputs + tf.get_variable("gain", [4]) * state)
        return state, state


SIZES = {
    "reshape": lambda y: tf.reshape(tf.reshape(y, [-1, 2, 2]), [tf.shape(y)[0], 4]),
    "half": lambda y: tf.reshape(tf.reshape(y, [2 * tf.shape(y)[0], 2]), tf.shape(y)),
    "zeros": lambda y: y + tf.zeros([tf.shape(y)[0], 4]) + tf.fill([4], 0.0),
    "ones": lambda y: y * tf.ones([tf.shape(y)[0], 1]),
    "tile": lambda y: tf.tile(y[:, :2], [1, 2]) * 0 + y,
    "slice": lambda y: tf.concat([tf.slice(y, [0, 0], [-1, 1]), tf.slice(y, [0, 1], [tf.shape(y)[0], 3])], 1),
    "broadcast": lambda y: y + tf.broadcast_to(tf.constant([[0.0]]), tf.stack([tf.shape(y)[0], 4])),
}


@pytest.mark.parametrize("rows", [None, 2])
@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_a_step_computes_are_no_reason_for_the_plain_loop(name: str, rows: int | None) -> None:
    values = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    x = tf.placeholder(tf.float32, [rows, 3, 4])
    outputs, _ = tf.nn.dynamic_rnn(Stepping(SIZES[name]), x, dtype=tf.float32)
    (variable,) = tf.trainable_variables()
    gradients = tf.gradients(outputs, [x, variable])
    with tf.Session() as session, unspool.strict():
        variable.load(np.full(4, 0.5), session)
        found, by_x, by_gain = session.run([outputs, *gradients], {x: values})
    expected = [values[:, 0], values[:, 1] + 0.5 * values[:, 0]]
    expected.append(values[:, 2] + 0.5 * expected[1])
    np.testing.assert_allclose(found, np.stack(expected, 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(by_x, np.broadcast_to([[1.75], [1.5], [1.0]], (2, 3, 4)), rtol=1e-6)
    # d/dg of x0 + (x1 + g x0) + (x2 + g (x1 + g x0))
    np.testing.assert_allclose(by_gain, (2 * values[:, 0] + values[:, 1]).sum(0), rtol=1e-5, atol=1e-6)


DRAWS = {
    "dropout": lambda y: tf.nn.dropout(y, 0.5),
    "rate": lambda y: tf.layers.dropout(y, 0.5, training=tf.constant(True)),
    "noise_shape": lambda y: tf.nn.dropout(y, 0.5, noise_shape=[tf.shape(y)[0], 1]),
    "normal": lambda y: y * tf.random_normal(tf.shape(y)),
    "uniform": lambda y: y * tf.random_uniform([tf.shape(y)[0], 4], -1.0, 1.0),
}


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("name", DRAWS)
def test_what_a_step_draws_is_drawn_by_a_plan_and_repeated_by_a_seed(name: str, seed: int | None) -> None:
    tf.set_random_seed(seed)
    x = tf.ones([64, 3, 4])  # so many rows that no two draws are the same by chance
    outputs, _ = tf.nn.dynamic_rnn(Stepping(lambda y: DRAWS[name](tf.get_variable("k", []) * y)), x, dtype=tf.float32)
    gain, k = tf.trainable_variables()
    gradient = tf.gradients(outputs, [k])[0]
    runs = []
    for _ in range(2):
        with tf.Session() as session, unspool.strict():
            gain.load(np.zeros(4), session)
            k.load(2.0, session)
            runs += [session.run([outputs, gradient]) for _ in range(2)]
    for drawn, by_k in runs:  # what forward has drawn, backward multiplies by
        np.testing.assert_allclose(by_k, drawn.sum() / 2, rtol=1e-5)
    first, second = runs[0][0], runs[1][0]
    assert not np.array_equal(first[:, 0], first[:, 1])
    assert not np.array_equal(first, second)
    assert np.array_equal(first, runs[2][0]) == (seed is not None)
    assert np.array_equal(second, runs[3][0]) == (seed is not None)


def test_a_dropout_that_keeps_everything_changes_nothing() -> None:
    keep = tf.placeholder(tf.float32, [])
    x = tf.ones([2, 3, 4])
    outputs, _ = tf.nn.dynamic_rnn(Stepping(lambda y: tf.nn.dropout(y, keep)), x, dtype=tf.float32)
    with tf.Session() as session, unspool.strict():
        tf.trainable_variables()[0].load(np.zeros(4), session)
        assert session.run(outputs, {keep: 1.0}).tolist() == np.ones((2, 3, 4)).tolist()
        assert set(session.run(outputs, {keep: 0.5}).reshape(-1)) == {0.0, 2.0}


@pytest.mark.filterwarnings("ignore:MultiRNNCell was given the same cell object")
def test_one_cell_in_two_layers_is_planned() -> None:
    values = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    cell = tf.nn.rnn_cell.GRUCell(4)
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.MultiRNNCell([cell] * 2), tf.constant(values), dtype=tf.float32)
    below, _ = tf.nn.dynamic_rnn(cell, tf.constant(values), dtype=tf.float32)
    above, _ = tf.nn.dynamic_rnn(cell, below, dtype=tf.float32)
    weights = tf.trainable_variables()
    assert len(weights) == 4
    with tf.Session() as session, unspool.strict():
        session.run(tf.global_variables_initializer())
        one, two = session.run([[each, *tf.gradients(each, weights)] for each in (outputs, above)])
    for found, expected in zip(one, two, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)  # gradients are sums of both layers'


def test_another_cell_of_the_session_is_no_reason_for_the_plain_loop() -> None:
    x = tf.ones([2, 3, 4])
    own, _ = tf.nn.dynamic_rnn(Stepping(tf.tanh), x, dtype=tf.float32)
    looks = tf.contrib.seq2seq.LuongAttention(4, x)
    cell = tf.contrib.seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(4), looks, attention_layer_size=4)
    outputs, _ = tf.nn.dynamic_rnn(cell, own, dtype=tf.float32, scope="attention")
    with tf.Session() as session, unspool.strict():
        session.run(tf.global_variables_initializer())
        session.run(outputs)
        session.run(own[:, :2])
        assert session.run(outputs).shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (lambda y: tf.cond(tf.reduce_sum(y) > 0, lambda: y, lambda: -y), "depend on the values of tensors"),
        (lambda y: y + tf.truncated_normal([4]), "depend on the values of tensors"),
        (lambda y: y + tf.random_uniform([4]), "draws the same numbers for all rows"),
    ],
)
def test_the_reason_for_the_plain_loop_is_what_the_operation_does(more: Any, reason: str) -> None:
    outputs, _ = tf.nn.dynamic_rnn(Stepping(more), tf.ones([2, 3, 4]), dtype=tf.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with unspool.strict(), pytest.raises(tf.errors.InvalidArgumentError, match=reason):
            session.run(outputs)
        with pytest.warns(unspool.PerformanceWarning, match=reason):
            assert session.run(outputs).shape == (2, 3, 4)
