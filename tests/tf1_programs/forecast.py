"""Forecasts a series one step ahead; all outputs are projected at once, as one long batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program

n_steps, n_inputs, n_neurons, n_outputs = 8, 1, 10, 1


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="X")
    y = tf.placeholder(tf.float32, [None, n_steps, n_outputs], name="y")

    cell = tf.nn.rnn_cell.BasicRNNCell(num_units=n_neurons, activation=tf.nn.relu)
    rnn_outputs, states = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    stacked_rnn_outputs = tf.reshape(rnn_outputs, [-1, n_neurons])
    stacked_outputs = tf.layers.dense(stacked_rnn_outputs, n_outputs)
    outputs = tf.reshape(stacked_outputs, [-1, n_steps, n_outputs])

    loss = tf.reduce_mean(tf.square(outputs - y))
    optimizer = tf.train.AdamOptimizer(learning_rate=0.001)
    train = optimizer.minimize(loss)

    def use(session: Any, feeds: Arrays) -> dict[str, Any]:
        """Goes on from what it was given, forecast by forecast."""
        sequence = [float(value) for value in feeds["x"][0, :, 0]]
        for _ in range(6):
            window = np.array(sequence[-n_steps:]).reshape(1, n_steps, 1)
            forecast = session.run(outputs, feed_dict={x: window})
            sequence.append(forecast[0, -1, 0])
        return dict(sequence=np.array(sequence, np.float32))

    return Program(
        placeholders=dict(x=x, y=y),
        feeds=feeds,
        fetches=dict(rnn_outputs=rnn_outputs, states=states, outputs=outputs, loss=loss),
        train=train,
        by_hand=by_hand,
        use=use,
    )


def feeds(rng: Generator) -> Arrays:
    start = rng.uniform(0, 30, (4, 1))
    t = start + 0.1 * np.arange(n_steps + 1)
    series = (t * np.sin(t) / 3 + 2 * np.sin(t * 5)).astype(np.float32)[:, :, None] / 5
    return dict(x=series[:, :-1], y=series[:, 1:])


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    step = np_rnn.basic_rnn(variables, "rnn/basic_rnn_cell", np_rnn.relu)
    rnn_outputs, states = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(4, n_neurons))
    outputs = np_rnn.dense(variables, "dense", rnn_outputs)
    loss = np.mean((outputs - feeds["y"]) ** 2)
    return dict(rnn_outputs=rnn_outputs, states=states, outputs=outputs, loss=loss)
