"""A learning rate that decays with the global step, and gradients clipped one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_steps, n_inputs, n_neurons = 4, 3, 4


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="x")
    y = tf.placeholder(tf.float32, [None, n_neurons], name="y")
    _, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(n_neurons), x, dtype=tf.float32)
    loss = tf.nn.l2_loss(state - y)

    global_step = tf.train.get_or_create_global_step()
    learning_rate = tf.train.exponential_decay(0.1, global_step, decay_steps=7, decay_rate=0.5, staircase=True)
    smooth_rate = tf.train.exponential_decay(0.1, global_step, 7, 0.5)
    optimizer = tf.train.MomentumOptimizer(learning_rate, 0.9)
    gradients = optimizer.compute_gradients(loss)
    capped = [(tf.clip_by_value(gradient, -0.1, 0.1), variable) for gradient, variable in gradients]
    train = optimizer.apply_gradients(capped, global_step=global_step)
    return Program(
        placeholders=dict(x=x, y=y),
        feeds=feeds,
        fetches=dict(state=state, loss=loss, step=global_step, rate=learning_rate, smooth_rate=smooth_rate),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(x=normal(rng, 4, n_steps, n_inputs), y=normal(rng, 4, n_neurons))


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    step = np_rnn.gru(variables, "rnn/gru_cell")
    _, state = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(4, n_neurons))
    k = variables["global_step"]
    return dict(
        state=state,
        loss=0.5 * np.sum((state - feeds["y"]) ** 2),
        step=k,
        rate=0.1 * 0.5 ** (k // 7),
        smooth_rate=0.1 * 0.5 ** (k / 7),
    )
