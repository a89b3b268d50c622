"""Metrics that add up over several runs, in local variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Program, normal

n_inputs, n_classes = 3, 4


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_inputs], name="x")
    labels = tf.placeholder(tf.int64, [None], name="labels")
    logits = tf.layers.dense(x, n_classes, use_bias=True, bias_initializer=tf.constant_initializer(0.5))
    predictions = tf.argmax(logits, axis=1, output_type=tf.int64)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train = tf.train.AdagradOptimizer(0.1, initial_accumulator_value=0.5).minimize(loss)

    accuracy, update_accuracy = tf.metrics.accuracy(labels, predictions)
    mean_loss, update_loss = tf.metrics.mean(loss)
    assert len(tf.local_variables()) == 4

    def use(session: Any, feeds: Arrays) -> dict[str, Any]:
        session.run(tf.local_variables_initializer())
        for rows in (slice(0, 2), slice(2, 6)):
            session.run([update_accuracy, update_loss], {x: feeds["x"][rows], labels: feeds["labels"][rows]})
        return dict(zip(("accuracy", "mean_loss"), session.run([accuracy, mean_loss]), strict=True))

    return Program(
        placeholders=dict(x=x, labels=labels),
        feeds=lambda rng: dict(x=normal(rng, 6, n_inputs), labels=rng.integers(0, n_classes, 6)),
        fetches=dict(logits=logits, predictions=predictions, loss=loss),
        train=train,
        by_hand=by_hand,
        use=use,
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    logits = np_rnn.dense(variables, "dense", feeds["x"])
    loss = np.mean(np_rnn.cross_entropy(logits, feeds["labels"]))
    return dict(logits=logits, predictions=logits.argmax(1), loss=loss)
