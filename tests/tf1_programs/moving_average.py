"""Weights that are averaged while they are trained, only some of which are trained."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Program, normal

n_inputs, n_hidden = 3, 4


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_inputs], name="x")
    y = tf.placeholder(tf.float32, [None, 1], name="y")
    with tf.variable_scope("frozen"):
        hidden = tf.layers.dense(x, n_hidden, activation=tf.nn.softplus)
    with tf.variable_scope("head"):
        output = tf.layers.dense(hidden, 1, kernel_initializer=tf.constant_initializer(0.1))
        gain = tf.get_variable("gain", initializer=tf.constant(2.0))
    loss = tf.reduce_mean(tf.square(gain * output - y))

    global_step = tf.train.get_or_create_global_step()
    head = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope="head")
    assert [variable.op.name for variable in head] == ["head/dense/kernel", "head/dense/bias", "head/gain"]
    step = tf.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=global_step, var_list=head)
    averages = tf.train.ExponentialMovingAverage(decay=0.9)
    with tf.control_dependencies([step]):
        train = averages.apply(head)
    averaged = [averages.average(variable) for variable in head]

    def use(session: Any, feeds: Arrays) -> dict[str, Any]:
        increment = tf.assign_add(global_step, 5)
        return dict(averaged=session.run(averaged), step=session.run(increment), head=session.run(head))

    return Program(
        placeholders=dict(x=x, y=y),
        feeds=lambda rng: dict(x=normal(rng, 4, n_inputs), y=normal(rng, 4, 1)),
        fetches=dict(hidden=hidden, output=output, loss=loss),
        train=train,
        by_hand=by_hand,
        use=use,
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    hidden = np.log1p(np.exp(np_rnn.dense(variables, "frozen/dense", feeds["x"])))
    output = np_rnn.dense(variables, "head/dense", hidden)
    loss = np.mean((variables["head/gain"] * output - feeds["y"]) ** 2)
    return dict(hidden=hidden, output=output, loss=loss)
