"""Layers of LSTMs in a `MultiRNNCell`, the top one's last output into a dense layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_steps, n_inputs, n_neurons, n_layers = 4, 3, 4, 3


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="X")
    y = tf.placeholder(tf.float32, [None, 1], name="y")

    lstm_cells = [tf.nn.rnn_cell.BasicLSTMCell(num_units=n_neurons) for _ in range(n_layers)]
    multi_cell = tf.nn.rnn_cell.MultiRNNCell(lstm_cells)
    outputs, states = tf.nn.dynamic_rnn(multi_cell, x, dtype=tf.float32)
    top_layer_h_state = states[-1].h

    prediction = tf.layers.dense(top_layer_h_state, 1, name="prediction")
    loss = tf.reduce_mean(tf.square(prediction - y), name="mse")
    train = tf.train.AdamOptimizer(learning_rate=0.01).minimize(loss, name="train")
    return Program(
        placeholders=dict(x=x, y=y),
        feeds=feeds,
        fetches=dict(outputs=outputs, states=states, top=top_layer_h_state, prediction=prediction, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    x = normal(rng, 4, n_steps, n_inputs)
    return dict(x=x, y=x.sum((1, 2))[:, None] / 3)


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    cells = [np_rnn.lstm(variables, f"rnn/multi_rnn_cell/cell_{k}/basic_lstm_cell") for k in range(n_layers)]
    start = (np_rnn.zeros(4, n_neurons, n_neurons),) * n_layers
    outputs, states = np_rnn.unroll(np_rnn.stacked(*cells), feeds["x"], start)
    top = states[-1][1]
    prediction = np_rnn.dense(variables, "prediction", top)
    loss = np.mean((prediction - feeds["y"]) ** 2)
    return dict(outputs=outputs, states=states, top=top, prediction=prediction, loss=loss)
