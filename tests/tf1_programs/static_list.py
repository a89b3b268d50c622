"""`static_rnn` on a list of placeholders, one a step."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_inputs, n_neurons = 3, 5


def build(tf: Any) -> Program:
    x0 = tf.placeholder(tf.float32, [None, n_inputs], name="x0")
    x1 = tf.placeholder(tf.float32, [None, n_inputs], name="x1")
    target = tf.placeholder(tf.float32, shape=(None, n_neurons), name="target")

    basic_cell = tf.nn.rnn_cell.BasicRNNCell(num_units=n_neurons)
    output_seqs, states = tf.nn.static_rnn(basic_cell, [x0, x1], dtype=tf.float32)
    y0, y1 = output_seqs

    loss = tf.reduce_mean(tf.squared_difference(states, target), name="loss")
    optimizer = tf.train.GradientDescentOptimizer(learning_rate=0.2)
    train = optimizer.minimize(loss)
    return Program(
        placeholders=dict(x0=x0, x1=x1, target=target),
        feeds=feeds,
        fetches=dict(y0=y0, y1=y1, states=states, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(x0=normal(rng, 4, n_inputs), x1=normal(rng, 4, n_inputs), target=0.5 * normal(rng, 4, n_neurons))


def by_hand(variables: Arrays, feeds: Arrays) -> Arrays:
    step = np_rnn.basic_rnn(variables, "rnn/basic_rnn_cell")
    y0, state = step(feeds["x0"], np_rnn.zeros(4, n_neurons))
    y1, state = step(feeds["x1"], state)
    return dict(y0=y0, y1=y1, states=state, loss=np.mean((state - feeds["target"]) ** 2))
