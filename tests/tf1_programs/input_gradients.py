"""Which inputs mattered: gradients with respect to the inputs, to the states, and of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Program, normal

n_steps, n_inputs, n_neurons = 3, 2, 3


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="x")
    h0 = tf.placeholder(tf.float32, [None, n_neurons], name="h0")
    cell = tf.nn.rnn_cell.BasicRNNCell(n_neurons)
    outputs, state = tf.nn.dynamic_rnn(cell, x, initial_state=h0)
    score = tf.reduce_sum(state[:, 0])

    saliency, blame = tf.gradients(score, [x, h0])
    weighted = tf.gradients(ys=outputs, xs=x, grad_ys=tf.ones_like(outputs) * 0.5)[0]
    unrelated = tf.placeholder(tf.float32, [2])
    assert tf.gradients(score, unrelated) == [None]

    w = tf.Variable([0.5, -1.0], name="w")
    curve = tf.reduce_sum(tf.pow(w, 3) * tf.stop_gradient(w))
    slope = tf.gradients(curve, w)[0]
    bend = tf.gradients(slope, w)[0]

    penalty = tf.reduce_sum(slope**2)
    loss = 0.1 * penalty - score
    train = tf.train.GradientDescentOptimizer(0.02).minimize(loss)
    return Program(
        placeholders=dict(x=x, h0=h0),
        feeds=lambda rng: dict(x=normal(rng, 4, n_steps, n_inputs), h0=normal(rng, 4, n_neurons)),
        fetches=dict(
            outputs=outputs, saliency=saliency, blame=blame, weighted=weighted, slope=slope, bend=bend, loss=loss
        ),
        train=train,
        by_hand=by_hand,
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    kernel = variables["rnn/basic_rnn_cell/kernel"]
    step = np_rnn.basic_rnn(variables, "rnn/basic_rnn_cell")
    outputs, state = np_rnn.unroll(step, feeds["x"], feeds["h0"])

    def backwards(grad_outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        grad_x, grad_h = np.zeros_like(feeds["x"]), np.zeros_like(state)
        for t in reversed(range(n_steps)):
            both = (grad_outputs[:, t] + grad_h) * (1 - outputs[:, t] ** 2) @ kernel.T
            grad_x[:, t], grad_h = both[:, :n_inputs], both[:, n_inputs:]
        return grad_x, grad_h

    only_last = np.zeros_like(outputs)
    only_last[:, -1, 0] = 1
    saliency, blame = backwards(only_last)
    weighted, _ = backwards(np.full_like(outputs, 0.5))
    w = variables["w"]
    slope, bend = 3 * w**3, 6 * w**2
    loss = 0.1 * np.sum(slope**2) - np.sum(state[:, 0])
    return dict(outputs=outputs, saliency=saliency, blame=blame, weighted=weighted, slope=slope, bend=bend, loss=loss)
