"""`dynamic_rnn`; used with `eval` and `run`, and an interactive session."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_steps, n_inputs, n_neurons = 5, 3, 5


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs])
    target = tf.placeholder(tf.float32, [None, n_neurons])

    basic_cell = tf.nn.rnn_cell.BasicRNNCell(num_units=n_neurons)
    outputs, states = tf.nn.dynamic_rnn(basic_cell, x, dtype=tf.float32)

    loss = tf.reduce_sum((states - target) ** 2) / tf.cast(tf.shape(x)[0], tf.float32)
    train = tf.train.AdamOptimizer(learning_rate=0.01).minimize(loss)

    def use(session: Any, feeds: Arrays) -> dict[str, Any]:
        feed_dict = {x: feeds["x"], target: feeds["target"]}
        with session.as_default():
            before = loss.eval(feed_dict=feed_dict)
            train.run(feed_dict=feed_dict)
            after = loss.eval(feed_dict)
        interactive = tf.InteractiveSession()
        tf.global_variables_initializer().run()
        bias = tf.trainable_variables()[1].eval()
        interactive.close()
        shapes = [outputs.shape.as_list(), states.get_shape().as_list()]
        assert shapes == [[None, n_steps, n_neurons], [None, n_neurons]]
        return dict(before=before, after=after, bias=bias, run_again=session.run(loss, feed_dict=feed_dict))

    return Program(
        placeholders=dict(x=x, target=target),
        feeds=feeds,
        fetches=dict(outputs=outputs, states=states, loss=loss),
        train=train,
        by_hand=by_hand,
        use=use,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(x=normal(rng, 4, n_steps, n_inputs), target=0.5 * normal(rng, 4, n_neurons))


def by_hand(variables: Arrays, feeds: Arrays) -> Arrays:
    step = np_rnn.basic_rnn(variables, "rnn/basic_rnn_cell")
    outputs, state = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(4, n_neurons))
    return dict(outputs=outputs, states=state, loss=np.sum((state - feeds["target"]) ** 2) / 4)
