"""Two steps of a recurrent layer, unrolled by hand from variables without names."""

from __future__ import annotations

from typing import Any

import numpy as np

from .program import Arrays, Generator, Program, normal

n_inputs, n_neurons = 3, 5


def build(tf: Any) -> Program:
    x0 = tf.placeholder(tf.float32, [None, n_inputs])
    x1 = tf.placeholder(tf.float32, [None, n_inputs])
    target = tf.placeholder(tf.float32, [None, n_neurons])

    w_x = tf.Variable(tf.random_normal(shape=[n_inputs, n_neurons], dtype=tf.float32))
    w_y = tf.Variable(tf.random_normal(shape=[n_neurons, n_neurons], dtype=tf.float32))
    b = tf.Variable(tf.zeros([1, n_neurons], dtype=tf.float32))

    y0 = tf.tanh(tf.matmul(x0, w_x) + b)
    y1 = tf.tanh(tf.matmul(y0, w_y) + tf.matmul(x1, w_x) + b)

    loss = tf.reduce_mean(tf.square(y1 - target))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return Program(
        placeholders=dict(x0=x0, x1=x1, target=target),
        feeds=feeds,
        fetches=dict(y0=y0, y1=y1, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(x0=normal(rng, 4, n_inputs), x1=normal(rng, 4, n_inputs), target=0.5 * normal(rng, 4, n_neurons))


def by_hand(variables: Arrays, feeds: Arrays) -> Arrays:
    w_x, w_y, b = variables["Variable"], variables["Variable_1"], variables["Variable_2"]
    y0 = np.tanh(feeds["x0"] @ w_x + b)
    y1 = np.tanh(y0 @ w_y + feeds["x1"] @ w_x + b)
    return dict(y0=y0, y1=y1, loss=np.mean((y1 - feeds["target"]) ** 2))
