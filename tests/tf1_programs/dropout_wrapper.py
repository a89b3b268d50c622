"""Dropout around each layer, with its probability fed: 1 while nothing is to be dropped."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_steps, n_inputs, n_neurons, n_layers = 4, 3, 4, 2


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="x")
    y = tf.placeholder(tf.float32, [None, n_steps, n_neurons], name="y")
    keep_prob = tf.placeholder_with_default(1.0, shape=(), name="keep_prob")

    cells = [tf.nn.rnn_cell.BasicRNNCell(num_units=n_neurons) for _ in range(n_layers)]
    cells_drop = [tf.nn.rnn_cell.DropoutWrapper(cell, input_keep_prob=keep_prob) for cell in cells]
    multi_layer_cell = tf.nn.rnn_cell.MultiRNNCell(cells_drop)
    rnn_outputs, states = tf.nn.dynamic_rnn(multi_layer_cell, x, dtype=tf.float32)

    loss = tf.reduce_mean(tf.square(rnn_outputs - y))
    train = tf.train.AdamOptimizer(learning_rate=0.01).minimize(loss)

    def use(session: Any, feeds: Arrays) -> dict[str, Any]:
        """With the probability's default, and then with half of the inputs dropped."""
        feed_dict = {x: feeds["x"], y: feeds["y"]}
        kept = session.run(loss, feed_dict=feed_dict)
        feed_dict[keep_prob] = 0.5
        dropped = [session.run(loss, feed_dict=feed_dict) for _ in range(2)]
        return dict(kept=kept, is_random=np.array(dropped[0] != dropped[1]))

    return Program(
        placeholders=dict(x=x, y=y, keep_prob=keep_prob),
        feeds=feeds,
        fetches=dict(outputs=rnn_outputs, states=states, loss=loss),
        train=train,
        by_hand=by_hand,
        use=use,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(
        x=normal(rng, 4, n_steps, n_inputs), y=0.5 * normal(rng, 4, n_steps, n_neurons), keep_prob=np.float32(1)
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    cells = [np_rnn.basic_rnn(variables, f"rnn/multi_rnn_cell/cell_{k}/basic_rnn_cell") for k in range(n_layers)]
    start = np_rnn.zeros(4, n_neurons, n_neurons)
    outputs, states = np_rnn.unroll(np_rnn.stacked(*cells), feeds["x"], start)
    return dict(outputs=outputs, states=states, loss=np.mean((outputs - feeds["y"]) ** 2))
