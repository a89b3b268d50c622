"""A cell of one's own, derived from `RNNCell`, with variables of `get_variable`."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_steps, n_inputs, n_units = 4, 3, 4


def build(tf: Any) -> Program:
    class MinimalGatedCell(tf.nn.rnn_cell.RNNCell):
        """One gate both to forget and to take in."""

        def __init__(self, num_units: int) -> None:
            super().__init__()
            self._num_units = num_units

        @property
        def state_size(self) -> int:
            return self._num_units

        @property
        def output_size(self) -> int:
            return self._num_units

        def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
            with tf.variable_scope(scope or type(self).__name__):
                with tf.variable_scope("gate"):
                    forget = tf.sigmoid(self._linear([inputs, state]))
                with tf.variable_scope("candidate"):
                    candidate = tf.tanh(self._linear([inputs, forget * state]))
                new_state = (1.0 - forget) * state + forget * candidate
            return new_state, new_state

        def _linear(self, parts: Any) -> Any:
            joined = tf.concat(parts, 1)
            w = tf.get_variable("w", [joined.get_shape()[1], self._num_units])
            b = tf.get_variable("b", [self._num_units], initializer=tf.constant_initializer(1.0))
            return tf.nn.bias_add(tf.matmul(joined, w), b)

    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="x")
    y = tf.placeholder(tf.float32, [None, n_units], name="y")
    lengths = tf.placeholder(tf.int64, [None], name="lengths")
    outputs, state = tf.nn.dynamic_rnn(MinimalGatedCell(n_units), x, lengths, dtype=tf.float32)
    loss = tf.reduce_mean(tf.square(state - y))
    train = tf.train.MomentumOptimizer(0.1, 0.5, use_nesterov=True).minimize(loss)
    return Program(
        placeholders=dict(x=x, y=y, lengths=lengths),
        feeds=feeds,
        fetches=dict(outputs=outputs, state=state, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(x=normal(rng, 3, n_steps, n_inputs), y=normal(rng, 3, n_units), lengths=np.array([4, 2, 3]))


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    def linear(name: str, *parts: np.ndarray) -> np.ndarray:
        scope = f"rnn/MinimalGatedCell/{name}"
        return np.concatenate(parts, 1) @ variables[f"{scope}/w"] + variables[f"{scope}/b"]

    def step(x: np.ndarray, h: np.ndarray) -> Any:
        forget = np_rnn.sigmoid(linear("gate", x, h))
        h = (1 - forget) * h + forget * np.tanh(linear("candidate", x, forget * h))
        return h, h

    outputs, state = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(3, n_units), feeds["lengths"])
    return dict(outputs=outputs, state=state, loss=np.mean((state - feeds["y"]) ** 2))
