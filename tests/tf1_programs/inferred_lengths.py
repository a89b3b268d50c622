"""Lengths told from the padding, and each row's last relevant output gathered."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_steps, n_inputs, n_units, n_classes = 5, 2, 4, 3


def build(tf: Any) -> Program:
    data = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="data")
    target = tf.placeholder(tf.float32, [None, n_classes], name="target")

    used = tf.sign(tf.reduce_max(tf.abs(data), axis=2))
    length = tf.cast(tf.reduce_sum(used, axis=1), tf.int32)
    output, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(n_units), data, dtype=tf.float32, sequence_length=length)

    batch_size = tf.shape(output)[0]
    max_length = int(output.get_shape()[1])
    output_size = int(output.get_shape()[2])
    index = tf.range(0, batch_size) * max_length + (length - 1)
    last = tf.gather(tf.reshape(output, [-1, output_size]), index)
    also_last = tf.gather_nd(output, tf.stack([tf.range(batch_size), length - 1], axis=1))

    weight = tf.Variable(tf.truncated_normal([n_units, n_classes], stddev=0.01))
    bias = tf.Variable(tf.constant(0.1, shape=[n_classes]))
    prediction = tf.nn.softmax(tf.matmul(last, weight) + bias)
    cross_entropy = -tf.reduce_sum(target * tf.log(tf.clip_by_value(prediction, 1e-10, 1.0)))
    mistakes = tf.not_equal(tf.argmax(target, 1), tf.argmax(prediction, 1))
    error = tf.reduce_mean(tf.cast(mistakes, tf.float32))
    train = tf.train.RMSPropOptimizer(0.003, epsilon=1e-4).minimize(cross_entropy)
    return Program(
        placeholders=dict(data=data, target=target),
        feeds=feeds,
        fetches=dict(
            length=length,
            output=output,
            last=last,
            also_last=also_last,
            prediction=prediction,
            error=error,
            loss=cross_entropy,
        ),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    data = normal(rng, 4, n_steps, n_inputs)
    data[np.arange(n_steps) >= np.array([5, 2, 1, 4])[:, None]] = 0
    return dict(data=data, target=np_rnn.one_hot(rng.integers(0, n_classes, 4), n_classes).astype(np.float32))


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    data, target = feeds["data"], feeds["target"]
    length = data.any(2).sum(1)
    output, last = np_rnn.unroll(np_rnn.gru(variables, "rnn/gru_cell"), data, np_rnn.zeros(4, n_units), length)
    prediction = np_rnn.softmax(last @ variables["Variable"] + variables["Variable_1"])
    return dict(
        length=length,
        output=output,
        last=last,
        also_last=last,
        prediction=prediction,
        error=np.mean(prediction.argmax(1) != target.argmax(1)),
        loss=-np.sum(target * np.log(prediction)),
    )
