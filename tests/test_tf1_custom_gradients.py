"""Gradients that programs write themselves, beyond the numbers in `tests/tf1_ops`: variables, cells, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unspool.tf1 as tf


def test_variables_have_gradients_of_their_own() -> None:
    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        weight = tf.get_variable("weight", [3], initializer=tf.ones_initializer())

        def gradient(dy: Any, variables: Any = None) -> Any:
            assert variables == [weight]
            return 2.0 * dy, [5.0 * tf.reduce_sum(dy, 0)]

        return x * weight, gradient

    x = tf.ones([2, 3])
    y = scaled(x)
    by_x, by_weight = tf.gradients(y, [x, *tf.trainable_variables()])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(by_x), np.full((2, 3), 2.0))
        np.testing.assert_array_equal(session.run(by_weight), [10.0, 10.0, 10.0])


class Clipping(tf.nn.rnn_cell.RNNCell):
    """A cell whose state passes gradients of at most a half."""

    state_size = output_size = 2

    def call(self, inputs: Any, state: Any) -> Any:
        new = inputs + clipped(state)
        return new, new


@tf.custom_gradient
def clipped(x: Any) -> Any:
    return tf.identity(x), lambda dy: tf.clip_by_value(dy, -0.5, 0.5)


@pytest.mark.filterwarnings("ignore:.* runs in the plain loop")
def test_a_step_may_have_one() -> None:
    x = tf.ones([1, 3, 2])
    _, state = tf.nn.dynamic_rnn(Clipping(), x, dtype=tf.float32)
    with tf.Session() as session:
        assert session.run(tf.gradients(state, x))[0][0].tolist() == [[0.5, 0.5], [0.5, 0.5], [1.0, 1.0]]


def test_what_is_wrong_with_a_gradient_is_said() -> None:
    @tf.custom_gradient
    def without_variables(x: Any) -> Any:
        return x * tf.get_variable("weight", []), lambda dy: dy

    with pytest.raises(TypeError, match="grad_fn must accept a 'variables' keyword argument"):
        without_variables(tf.zeros([2]))

    @tf.custom_gradient
    def of_one(x: Any, y: Any) -> Any:
        return x * y, lambda dy: dy

    with pytest.raises(ValueError, match="expected to return 2 gradients, but returned 1"):
        of_one(tf.zeros([2]), tf.zeros([2]))


def test_what_is_wrong_with_a_registration_is_said() -> None:
    graph = tf.get_default_graph()
    with pytest.raises(TypeError, match="op_type must be a string"):
        tf.RegisterGradient(3)
    tf.RegisterGradient("registered once")(lambda op, dy: dy)
    with pytest.raises(KeyError, match="Registering two gradient with name 'registered once'"):
        tf.RegisterGradient("registered once")(lambda op, dy: dy)
    with (
        pytest.raises(LookupError, match="gradient registry has no entry for: never registered"),
        graph.gradient_override_map({"Identity": "never registered"}),
    ):
        tf.identity(tf.ones([2]))
    for given in (["Identity"], {"Identity": 3}):
        with (
            pytest.raises(TypeError, match="`op_type_map` must be a dictionary mapping strings to strings"),
            graph.gradient_override_map(given),
        ):
            pass
    assert graph.gradient_name("Identity") is None
