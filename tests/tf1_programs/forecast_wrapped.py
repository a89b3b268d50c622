"""Forecasts a series with contrib's `OutputProjectionWrapper` around the cell."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .forecast import feeds
from .program import Arrays, Program

n_steps, n_inputs, n_neurons, n_outputs = 8, 1, 6, 1


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs])
    y = tf.placeholder(tf.float32, [None, n_steps, n_outputs])

    cell = tf.contrib.rnn.OutputProjectionWrapper(
        tf.contrib.rnn.BasicRNNCell(num_units=n_neurons, activation=tf.nn.relu), output_size=n_outputs
    )
    outputs, states = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)

    loss = tf.reduce_mean(tf.square(outputs - y))
    train = tf.train.AdamOptimizer(learning_rate=0.001).minimize(loss)
    return Program(
        placeholders=dict(x=x, y=y),
        feeds=feeds,
        fetches=dict(outputs=outputs, states=states, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    step = np_rnn.basic_rnn(variables, "rnn/output_projection_wrapper/basic_rnn_cell", np_rnn.relu)
    rnn_outputs, states = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(4, n_neurons))
    outputs = np_rnn.dense(variables, "rnn/output_projection_wrapper", rnn_outputs)
    return dict(outputs=outputs, states=states, loss=np.mean((outputs - feeds["y"]) ** 2))
