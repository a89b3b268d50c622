"""An LSTM from its formulas, with `split`, in a class, unrolled under `AUTO_REUSE`."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Program, normal

n_steps, n_inputs, n_units = 3, 2, 3


def build(tf: Any) -> Program:
    def lstm_step(x: Any, c: Any, h: Any) -> Any:
        with tf.variable_scope("lstm", reuse=tf.AUTO_REUSE):
            kernel = tf.get_variable(
                "kernel", [n_inputs + n_units, 4 * n_units], tf.float32, tf.glorot_uniform_initializer()
            )
            bias = tf.get_variable("bias", [4 * n_units], initializer=tf.initializers.zeros())
        gates = tf.nn.bias_add(tf.matmul(tf.concat(values=[x, h], axis=1), kernel), bias)
        i, j, f, o = tf.split(value=gates, num_or_size_splits=4, axis=1)
        c = tf.add(tf.multiply(tf.sigmoid(f), c), tf.sigmoid(i) * tf.tanh(j))
        return c, tf.multiply(tf.tanh(c), tf.nn.sigmoid(o))

    x = tf.placeholder("float", [None, n_steps, n_inputs], name="x")
    y = tf.placeholder("float", [None, 1], name="y")
    batch = tf.shape(x)[0]
    c = h = tf.zeros([batch, n_units])
    for step in tf.split(x, n_steps, axis=1):
        c, h = lstm_step(tf.squeeze(step, axis=1), c, h)

    weights = {"out": tf.Variable(tf.random_normal([n_units, 1]))}
    biases = {"out": tf.Variable(tf.random_normal([1]))}
    prediction = tf.add(tf.matmul(h, weights["out"]), biases["out"])
    loss = tf.reduce_mean(tf.pow(tf.subtract(prediction, y), 2))
    train = tf.train.GradientDescentOptimizer(learning_rate=0.2).minimize(loss)
    return Program(
        placeholders=dict(x=x, y=y),
        feeds=lambda rng: dict(x=normal(rng, 4, n_steps, n_inputs), y=normal(rng, 4, 1)),
        fetches=dict(state=(c, h), prediction=prediction, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    step = np_rnn.lstm(variables, "lstm", forget_bias=0.0)
    _, state = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(4, n_units, n_units))
    prediction = state[1] @ variables["Variable"] + variables["Variable_1"]
    return dict(state=state, prediction=prediction, loss=np.mean((prediction - feeds["y"]) ** 2))
