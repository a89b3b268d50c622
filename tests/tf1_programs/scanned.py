"""A recurrent layer by `scan`, its outputs projected by `map_fn`."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Program, normal

n_steps, n_inputs, n_neurons, n_outputs = 5, 3, 4, 2


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="x")
    y = tf.placeholder(tf.float32, [None, n_outputs], name="y")
    wx = tf.get_variable("Wx", shape=[n_inputs, n_neurons], initializer=tf.initializers.random_normal(stddev=0.3))
    wh = tf.get_variable("Wh", shape=[n_neurons, n_neurons])
    b = tf.get_variable("b", shape=[n_neurons], initializer=tf.zeros_initializer)
    wo = tf.get_variable("Wo", shape=[n_neurons, n_outputs])

    def recurrence(previous: Any, step: Any) -> Any:
        return tf.tanh(tf.matmul(previous, wh) + tf.matmul(step, wx) + b)

    start = tf.zeros([tf.shape(x)[0], n_neurons])
    states = tf.scan(recurrence, tf.transpose(x, [1, 0, 2]), initializer=start)
    projected = tf.map_fn(lambda h: tf.matmul(h, wo), states)
    totals = tf.cumsum(projected, axis=0)
    last = projected[-1]

    loss = tf.reduce_mean(tf.square(last - y)) + 0.01 * tf.reduce_mean(totals)
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    return Program(
        placeholders=dict(x=x, y=y),
        feeds=lambda rng: dict(x=normal(rng, 4, n_steps, n_inputs), y=normal(rng, 4, n_outputs)),
        fetches=dict(states=states, projected=projected, totals=totals, last=last, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    def step(x: np.ndarray, h: np.ndarray) -> Any:
        h = np.tanh(h @ variables["Wh"] + x @ variables["Wx"] + variables["b"])
        return h, h

    outputs, _ = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(4, n_neurons))
    states = outputs.swapaxes(0, 1)
    projected = states @ variables["Wo"]
    totals = np.cumsum(projected, 0)
    loss = np.mean((projected[-1] - feeds["y"]) ** 2) + 0.01 * np.mean(totals)
    return dict(states=states, projected=projected, totals=totals, last=projected[-1], loss=loss)
