"""Images read row by row; the final state goes into a classifier, trained with Adam."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program

n_steps, n_inputs, n_outputs = 8, 8, 10


def build(tf: Any, n_neurons: int = 12, learning_rate: float = 0.002) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="X")
    y = tf.placeholder(tf.int32, [None], name="y")

    with tf.variable_scope("encoder", initializer=tf.variance_scaling_initializer()):
        cell = tf.nn.rnn_cell.BasicRNNCell(num_units=n_neurons)
        _, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)

    logits = tf.layers.dense(state, n_outputs, name="logits")
    xentropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    loss = tf.reduce_mean(xentropy, name="loss")
    optimizer = tf.train.AdamOptimizer(learning_rate=learning_rate)
    train = optimizer.minimize(loss)

    correct = tf.nn.in_top_k(logits, y, 1)
    accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
    return Program(
        placeholders=dict(x=x, y=y),
        feeds=feeds,
        fetches=dict(state=state, logits=logits, loss=loss, accuracy=accuracy),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(
        x=rng.integers(0, 17, (4, n_steps, n_inputs)).astype(np.float32) / 16,
        y=rng.integers(0, n_outputs, 4).astype(np.int32),
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    step = np_rnn.basic_rnn(variables, "encoder/rnn/basic_rnn_cell")
    n_neurons = variables["encoder/rnn/basic_rnn_cell/bias"].size
    _, state = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(4, n_neurons))
    logits = np_rnn.dense(variables, "logits", state)
    loss = np.mean(np_rnn.cross_entropy(logits, feeds["y"]))
    return dict(state=state, logits=logits, loss=loss, accuracy=np_rnn.accuracy(logits, feeds["y"]))
