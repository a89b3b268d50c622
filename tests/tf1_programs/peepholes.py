"""An LSTM with peepholes and a projection, clipped, within a residual layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Program, normal

n_steps, n_inputs, n_units = 4, 3, 5


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="x")
    y = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="y")
    cell = tf.nn.rnn_cell.LSTMCell(
        num_units=n_units,
        use_peepholes=True,
        num_proj=n_inputs,
        cell_clip=1.0,
        initializer=tf.truncated_normal_initializer(stddev=0.1),
    )
    cell = tf.nn.rnn_cell.ResidualWrapper(cell)
    outputs, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, swap_memory=True, parallel_iterations=8)
    loss = tf.reduce_mean(tf.square(outputs - y))
    train = tf.train.RMSPropOptimizer(0.01, decay=0.9, epsilon=1e-3).minimize(loss)
    return Program(
        placeholders=dict(x=x, y=y),
        feeds=lambda rng: dict(x=normal(rng, 4, n_steps, n_inputs), y=normal(rng, 4, n_steps, n_inputs)),
        fetches=dict(outputs=outputs, state=state, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    own = {name.removeprefix("rnn/lstm_cell/"): value for name, value in variables.items()}

    def step(x: np.ndarray, state: Any) -> Any:
        c, m = state
        i, j, f, o = np.split(np.concatenate([x, m], 1) @ own["kernel"] + own["bias"], 4, 1)
        c = np_rnn.sigmoid(f + 1 + own["w_f_diag"] * c) * c + np_rnn.sigmoid(i + own["w_i_diag"] * c) * np.tanh(j)
        c = np.clip(c, -1, 1)
        m = np_rnn.sigmoid(o + own["w_o_diag"] * c) * np.tanh(c) @ own["projection/kernel"]
        return m + x, (c, m)

    outputs, state = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(4, n_units, n_inputs))
    return dict(outputs=outputs, state=state, loss=np.mean((outputs - feeds["y"]) ** 2))
