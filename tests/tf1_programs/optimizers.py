"""One small model, and each optimizer of `tf.train`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_steps, n_inputs, n_neurons = 3, 2, 4

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "gradient_descent": lambda tf: tf.train.GradientDescentOptimizer(learning_rate=0.1),
    "momentum": lambda tf: tf.train.MomentumOptimizer(learning_rate=0.01, momentum=0.9),
    "nesterov": lambda tf: tf.train.MomentumOptimizer(learning_rate=0.01, momentum=0.9, use_nesterov=True),
    "adam": lambda tf: tf.train.AdamOptimizer(learning_rate=0.01, beta1=0.8, beta2=0.99, epsilon=1e-4),
    "rmsprop": lambda tf: tf.train.RMSPropOptimizer(learning_rate=0.01),
    "rmsprop_momentum": lambda tf: tf.train.RMSPropOptimizer(0.01, decay=0.8, momentum=0.5, epsilon=1e-3),
    "rmsprop_centered": lambda tf: tf.train.RMSPropOptimizer(0.01, momentum=0.3, epsilon=1e-2, centered=True),
    "adagrad": lambda tf: tf.train.AdagradOptimizer(learning_rate=0.1),
}


def build(tf: Any, optimizer: str) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="x")
    y = tf.placeholder(tf.float32, [None], name="y")
    cell = tf.nn.rnn_cell.BasicRNNCell(n_neurons)
    _, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    weights = tf.Variable(tf.truncated_normal([n_neurons, 1], stddev=0.1), name="weights")
    bias = tf.Variable(tf.constant(0.1, shape=[1]), name="bias")
    prediction = tf.squeeze(tf.matmul(state, weights) + bias, 1)
    loss = tf.reduce_mean(tf.square(prediction - y))
    train = OPTIMIZERS[optimizer](tf).minimize(loss)
    return Program(
        placeholders=dict(x=x, y=y),
        feeds=feeds,
        fetches=dict(state=state, prediction=prediction, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    x = normal(rng, 4, n_steps, n_inputs)
    return dict(x=x, y=x[:, 0].sum(1) - x[:, -1, 0])


def by_hand(variables: Arrays, feeds: Arrays) -> Arrays:
    step = np_rnn.basic_rnn(variables, "rnn/basic_rnn_cell")
    _, state = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(4, n_neurons))
    prediction = (state @ variables["weights"] + variables["bias"])[:, 0]
    return dict(state=state, prediction=prediction, loss=np.mean((prediction - feeds["y"]) ** 2))
