"""`static_rnn` with lengths, and its bidirectional sister on the same inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_steps, n_inputs, n_neurons = 4, 3, 3


def build(tf: Any) -> Program:
    inputs = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="inputs")
    early_stop = tf.placeholder(tf.int32, [None], name="early_stop")
    steps = tf.unstack(inputs, n_steps, 1)

    with tf.variable_scope("forward"):
        cell = tf.nn.rnn_cell.GRUCell(n_neurons)
        outputs, state = tf.nn.static_rnn(cell, steps, dtype=tf.float32, sequence_length=early_stop)
    with tf.variable_scope("both"):
        lstm_fw_cell = tf.nn.rnn_cell.BasicLSTMCell(n_neurons, forget_bias=0.5)
        lstm_bw_cell = tf.nn.rnn_cell.BasicLSTMCell(n_neurons, forget_bias=0.5)
        both, state_fw, state_bw = tf.nn.static_bidirectional_rnn(
            lstm_fw_cell, lstm_bw_cell, steps, dtype=tf.float32, sequence_length=early_stop
        )

    loss = tf.add_n([tf.reduce_mean(tf.square(output - 0.3)) for output in outputs + both]) / (2.0 * n_steps)
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    return Program(
        placeholders=dict(inputs=inputs, early_stop=early_stop),
        feeds=feeds,
        fetches=dict(outputs=outputs, state=state, both=both, states=(state_fw, state_bw), loss=loss),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(inputs=normal(rng, 4, n_steps, n_inputs), early_stop=np.array([3, 1, 0, 2], np.int32))


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    x, lengths = feeds["inputs"], feeds["early_stop"]
    outputs, state = np_rnn.unroll(
        np_rnn.gru(variables, "forward/rnn/gru_cell"), x, np_rnn.zeros(4, n_neurons), lengths
    )
    start = np_rnn.zeros(4, n_neurons, n_neurons)
    fw = np_rnn.lstm(variables, "both/bidirectional_rnn/fw/basic_lstm_cell", 0.5)
    bw = np_rnn.lstm(variables, "both/bidirectional_rnn/bw/basic_lstm_cell", 0.5)
    outputs_fw, state_fw = np_rnn.unroll(fw, x, start, lengths)
    outputs_bw, state_bw = np_rnn.unroll(bw, np_rnn.reverse(x, lengths), start, lengths)
    both = np.concatenate([outputs_fw, np_rnn.reverse(outputs_bw, lengths)], 2)
    loss = (np.mean((outputs - 0.3) ** 2) + np.mean((both - 0.3) ** 2)) / 2
    return dict(
        outputs=list(outputs.swapaxes(0, 1)),
        state=state,
        both=list(both.swapaxes(0, 1)),
        states=(state_fw, state_bw),
        loss=loss,
    )
