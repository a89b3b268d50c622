"""Batch normalization by hand: `cond` takes the batch's moments, or their moving averages."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_inputs, n_hidden = 3, 4


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_inputs], name="x")
    y = tf.placeholder(tf.float32, [None, 1], name="y")
    is_training = tf.placeholder(tf.bool, shape=(), name="is_training")

    with tf.variable_scope("hidden"):
        w = tf.get_variable("w", [n_inputs, n_hidden])
        z = tf.matmul(x, w)
        scale = tf.get_variable("scale", [n_hidden], initializer=tf.ones_initializer())
        offset = tf.get_variable("offset", [n_hidden], initializer=tf.zeros_initializer())
        pop_mean = tf.get_variable("pop_mean", [n_hidden], initializer=tf.zeros_initializer(), trainable=False)
        pop_var = tf.Variable(tf.ones([n_hidden]), trainable=False, name="pop_var")

        def batch_moments() -> Any:
            mean, var = tf.nn.moments(z, [0])
            update_mean = tf.assign(pop_mean, pop_mean * 0.9 + mean * 0.1)
            update_var = tf.assign(pop_var, pop_var * 0.9 + var * 0.1)
            with tf.control_dependencies([update_mean, update_var]):
                return tf.identity(mean), tf.identity(var)

        mean, var = tf.cond(is_training, batch_moments, lambda: (tf.identity(pop_mean), tf.identity(pop_var)))
        hidden = tf.nn.elu(tf.nn.batch_normalization(z, mean, var, offset, scale, 1e-3))

    prediction = tf.layers.dense(hidden, 1)
    loss = tf.losses.mean_squared_error(y, prediction)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    def use(session: Any, feeds: Arrays) -> dict[str, Any]:
        """The averages move in a run that trains, and stay in one that does not."""
        feed_dict = {x: feeds["x"], is_training: False}
        still = session.run([prediction, pop_mean, pop_var], feed_dict)
        feed_dict[is_training] = True
        session.run(prediction, feed_dict)
        return dict(still=still, moved=session.run([pop_mean, pop_var]))

    return Program(
        placeholders=dict(x=x, y=y, is_training=is_training),
        feeds=feeds,
        fetches=dict(mean=mean, var=var, hidden=hidden, prediction=prediction, loss=loss),
        train=train,
        by_hand=by_hand,
        use=use,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(x=normal(rng, 5, n_inputs), y=normal(rng, 5, 1), is_training=np.array(True))


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    z = feeds["x"] @ variables["hidden/w"]
    mean, var = z.mean(0), z.var(0)
    normalized = (z - mean) / np.sqrt(var + 1e-3) * variables["hidden/scale"] + variables["hidden/offset"]
    hidden = np.where(normalized > 0, normalized, np.expm1(normalized))
    prediction = np_rnn.dense(variables, "dense", hidden)
    return dict(mean=mean, var=var, hidden=hidden, prediction=prediction, loss=np.mean((prediction - feeds["y"]) ** 2))
