"""A model that writes summaries for TensorBoard."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Program, normal

n_steps, n_inputs, n_neurons = 3, 2, 3


def build(tf: Any) -> Program:
    with tf.name_scope("inputs"):
        x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="x")
        y = tf.placeholder(tf.float32, [None, n_neurons], name="y")
    _, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicRNNCell(n_neurons), x, dtype=tf.float32)

    with tf.name_scope("loss") as scope:
        error = state - y
        loss = tf.reduce_mean(tf.square(error), name="mse")
    assert scope == "loss/"
    assert loss.op.name == "loss/mse"
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    tf.summary.scalar("mse", loss)
    tf.summary.histogram("state", state)
    merged = tf.summary.merge_all()

    def use(session: Any, feeds: Arrays) -> dict[str, Any]:
        feed_dict = {x: feeds["x"], y: feeds["y"]}
        with tempfile.TemporaryDirectory() as logdir:
            writer = tf.summary.FileWriter(logdir, tf.get_default_graph())
            for step in range(3):
                summary_str, _ = session.run([merged, train], feed_dict)
                writer.add_summary(summary_str, step)
            writer.flush()
            writer.close()
            files = [path.name for path in Path(logdir).iterdir()]
        assert isinstance(summary_str, bytes)
        return dict(
            is_tagged=np.array(b"mse" in summary_str),
            files=np.array([name.startswith("events.out.tfevents") for name in files]),
        )

    return Program(
        placeholders=dict(x=x, y=y),
        feeds=lambda rng: dict(x=normal(rng, 4, n_steps, n_inputs), y=normal(rng, 4, n_neurons)),
        fetches=dict(state=state, error=error, loss=loss),
        train=train,
        by_hand=by_hand,
        use=use,
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    step = np_rnn.basic_rnn(variables, "rnn/basic_rnn_cell")
    _, state = np_rnn.unroll(step, feeds["x"], np_rnn.zeros(4, n_neurons))
    return dict(state=state, error=state - feeds["y"], loss=np.mean((state - feeds["y"]) ** 2))
