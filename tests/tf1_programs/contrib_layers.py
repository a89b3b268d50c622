"""A classifier of every step with contrib's `fully_connected` and `sequence_loss`."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_steps, n_inputs, n_units, n_classes = 4, 3, 4, 3


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs])
    y = tf.placeholder(tf.int32, [None, n_steps])
    weights = tf.placeholder(tf.float32, [None, n_steps])

    cell = tf.contrib.rnn.BasicLSTMCell(num_units=n_units, state_is_tuple=True)
    initial_state = cell.zero_state(3, tf.float32)
    outputs, states = tf.nn.dynamic_rnn(cell, x, initial_state=initial_state, dtype=tf.float32)
    flat = tf.reshape(outputs, [-1, n_units])
    hidden = tf.contrib.layers.fully_connected(flat, n_units)
    logits = tf.contrib.layers.fully_connected(inputs=hidden, num_outputs=n_classes, activation_fn=None)
    logits = tf.reshape(logits, [3, n_steps, n_classes])

    loss = tf.contrib.seq2seq.sequence_loss(logits=logits, targets=y, weights=weights)
    train = tf.train.AdamOptimizer(learning_rate=0.01).minimize(loss)
    return Program(
        placeholders=dict(x=x, y=y, weights=weights),
        feeds=feeds,
        fetches=dict(states=states, logits=logits, prediction=tf.argmax(logits, axis=2), loss=loss),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(
        x=normal(rng, 3, n_steps, n_inputs),
        y=rng.integers(0, n_classes, (3, n_steps)).astype(np.int32),
        weights=np.array([[1, 1, 0.5, 0], [1, 0, 0, 0], [1, 1, 1, 1]], np.float32),
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    def connected(name: str, x: np.ndarray) -> np.ndarray:
        return x @ variables[f"{name}/weights"] + variables[f"{name}/biases"]

    step = np_rnn.lstm(variables, "rnn/basic_lstm_cell")
    outputs, states = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(3, n_units, n_units))
    logits = connected("fully_connected_1", np_rnn.relu(connected("fully_connected", outputs)))
    loss = np.sum(np_rnn.cross_entropy(logits, feeds["y"]) * feeds["weights"]) / feeds["weights"].sum()
    return dict(states=states, logits=logits, prediction=logits.argmax(2), loss=loss)
