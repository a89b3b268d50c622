"""`static_rnn` on one placeholder, through `transpose`, `unstack` and `stack`."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_steps, n_inputs, n_neurons = 4, 3, 5


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="X")
    target = tf.placeholder(tf.float32, [None, n_steps, n_neurons], name="y")
    x_seqs = tf.unstack(tf.transpose(x, perm=[1, 0, 2]))

    basic_cell = tf.nn.rnn_cell.BasicRNNCell(num_units=n_neurons, activation=tf.nn.relu)
    output_seqs, states = tf.nn.static_rnn(basic_cell, x_seqs, dtype=tf.float32)
    outputs = tf.transpose(tf.stack(output_seqs), perm=[1, 0, 2])

    with tf.name_scope("loss"):
        loss = tf.reduce_mean(tf.abs(outputs - target))
    with tf.name_scope("train"):
        train = tf.train.MomentumOptimizer(learning_rate=0.05, momentum=0.9).minimize(loss)
    return Program(
        placeholders=dict(x=x, target=target),
        feeds=feeds,
        fetches=dict(outputs=outputs, states=states, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(x=normal(rng, 4, n_steps, n_inputs), target=normal(rng, 4, n_steps, n_neurons))


def by_hand(variables: Arrays, feeds: Arrays) -> Arrays:
    step = np_rnn.basic_rnn(variables, "rnn/basic_rnn_cell", np_rnn.relu)
    outputs, state = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(4, n_neurons))
    return dict(outputs=outputs, states=state, loss=np.mean(np.abs(outputs - feeds["target"])))
