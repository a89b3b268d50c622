"""A `cond` that drops out only while training, and one that picks how to summarize the outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_steps, n_inputs, n_neurons = 4, 3, 4


def build(tf: Any) -> Program:
    tf.set_random_seed(42)
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="x")
    y = tf.placeholder(tf.float32, [None, n_neurons], name="y")
    is_training = tf.placeholder_with_default(False, shape=[], name="is_training")

    cell = tf.nn.rnn_cell.BasicRNNCell(n_neurons)
    outputs, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    dropped = tf.cond(is_training, lambda: tf.nn.dropout(outputs, keep_prob=0.5), lambda: outputs)
    summary = tf.cond(
        tf.reduce_mean(x) > 0.0,
        true_fn=lambda: tf.reduce_mean(dropped, axis=1),
        false_fn=lambda: tf.reduce_max(dropped, axis=1),
    )
    loss = tf.reduce_mean(tf.where(y > 0.0, tf.square(summary - y), tf.abs(summary)))
    train = tf.train.GradientDescentOptimizer(0.2).minimize(loss)

    def use(session: Any, feeds: Arrays) -> dict[str, Any]:
        given, kept = session.run([outputs, dropped], {x: feeds["x"], is_training: True})
        assert np.all((kept == 0) | np.isclose(kept, 2 * given))
        return dict(some=np.array(0 < np.mean(kept == 0) < 1))

    return Program(
        placeholders=dict(x=x, y=y),
        feeds=feeds,
        fetches=dict(outputs=outputs, state=state, dropped=dropped, summary=summary, loss=loss),
        train=train,
        by_hand=by_hand,
        use=use,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(x=normal(rng, 4, n_steps, n_inputs), y=normal(rng, 4, n_neurons))


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    step = np_rnn.basic_rnn(variables, "rnn/basic_rnn_cell")
    outputs, state = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(4, n_neurons))
    summary = outputs.mean(1) if feeds["x"].mean() > 0 else outputs.max(1)
    loss = np.mean(np.where(feeds["y"] > 0, (summary - feeds["y"]) ** 2, np.abs(summary)))
    return dict(outputs=outputs, state=state, dropped=outputs, summary=summary, loss=loss)
