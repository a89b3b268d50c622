"""`dynamic_rnn` with a placeholder for the lengths: zeros past the end, and the state of the last real step."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_steps, n_inputs, n_neurons = 5, 3, 4


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="X")
    seq_length = tf.placeholder(tf.int32, [None], name="seq_length")
    target = tf.placeholder(tf.float32, [None, n_neurons], name="target")

    basic_cell = tf.nn.rnn_cell.BasicRNNCell(num_units=n_neurons)
    outputs, states = tf.nn.dynamic_rnn(basic_cell, x, dtype=tf.float32, sequence_length=seq_length)

    loss = tf.reduce_mean(tf.square(states - target)) + 0.1 * tf.reduce_mean(outputs)
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    return Program(
        placeholders=dict(x=x, seq_length=seq_length, target=target),
        feeds=feeds,
        fetches=dict(outputs=outputs, states=states, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(
        x=normal(rng, 4, n_steps, n_inputs),
        seq_length=np.array([n_steps, 0, 2, 3], np.int32),
        target=0.5 * normal(rng, 4, n_neurons),
    )


def by_hand(variables: Arrays, feeds: Arrays) -> Arrays:
    step = np_rnn.basic_rnn(variables, "rnn/basic_rnn_cell")
    outputs, state = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(4, n_neurons), feeds["seq_length"])
    loss = np.mean((state - feeds["target"]) ** 2) + 0.1 * np.mean(outputs)
    return dict(outputs=outputs, states=state, loss=loss)
