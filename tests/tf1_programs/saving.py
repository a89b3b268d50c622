"""Weights that are saved, spoilt and restored, and a graph whose tensors are found by name."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Program, normal

n_steps, n_inputs, n_neurons = 4, 3, 3


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="x")
    y = tf.placeholder(tf.float32, [None, 1], name="y")
    cell = tf.nn.rnn_cell.LSTMCell(n_neurons, initializer=tf.glorot_uniform_initializer())
    _, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    prediction = tf.identity(tf.layers.dense(state.h, 1, use_bias=False), name="prediction")
    loss = tf.reduce_mean(tf.square(prediction - y), name="loss")
    train = tf.train.AdamOptimizer(0.01).minimize(loss, name="train")

    init = tf.global_variables_initializer()
    saver = tf.train.Saver(max_to_keep=2)
    weights_only = tf.train.Saver(tf.trainable_variables())

    def use(session: Any, feeds: Arrays) -> dict[str, Any]:
        feed_dict = {"x:0": feeds["x"], "y:0": feeds["y"]}
        graph = tf.get_default_graph()
        found = graph.get_tensor_by_name("prediction:0")
        step = graph.get_operation_by_name("train")
        with tempfile.TemporaryDirectory() as folder:
            prefix = str(Path(folder) / "model.ckpt")
            path = saver.save(session, prefix)
            assert path == prefix
            numbered = saver.save(session, prefix, global_step=7)
            assert numbered == f"{prefix}-7"
            assert tf.train.latest_checkpoint(folder) == numbered
            weights = weights_only.save(session, str(Path(folder) / "weights.ckpt"))
            trained = session.run(found, feed_dict)
            session.run(init)
            session.run(step, feed_dict)
            spoilt = session.run("prediction:0", feed_dict)
            with tf.Session() as other:
                saver.restore(other, path)
                restored = other.run(prediction, feed_dict)
                other.run(train, feed_dict)
                further = other.run(loss, feed_dict)
            weights_only.restore(session, weights)
            again = session.run(prediction, feed_dict)
        np.testing.assert_array_equal(restored, trained)
        np.testing.assert_array_equal(again, trained)
        return dict(trained=trained, further=further, was_spoilt=np.array(not np.allclose(spoilt, trained)))

    return Program(
        placeholders=dict(x=x, y=y),
        feeds=lambda rng: dict(x=normal(rng, 4, n_steps, n_inputs), y=normal(rng, 4, 1)),
        fetches=dict(state=state, prediction=prediction, loss=loss),
        train=train,
        by_hand=by_hand,
        use=use,
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    step = np_rnn.lstm(variables, "rnn/lstm_cell")
    _, state = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(4, n_neurons, n_neurons))
    prediction = state[1] @ variables["dense/kernel"]
    return dict(state=state, prediction=prediction, loss=np.mean((prediction - feeds["y"]) ** 2))
