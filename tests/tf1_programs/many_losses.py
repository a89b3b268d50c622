"""Every loss of `tf.losses` that introductions use, with and without weights, summed up by their collection."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_inputs, n_outputs = 4, 3


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_inputs], name="x")
    y = tf.placeholder(tf.float32, [None, n_outputs], name="y")
    classes = tf.placeholder(tf.int32, [None], name="classes")
    weights = tf.placeholder(tf.float32, [None], name="weights")

    prediction = tf.layers.dense(x, n_outputs)
    column = tf.expand_dims(weights, 1)
    losses = [
        tf.losses.mean_squared_error(y, prediction),
        tf.losses.mean_squared_error(labels=y, predictions=prediction, weights=column),
        tf.losses.absolute_difference(y, prediction, weights=0.5),
        tf.losses.huber_loss(y, prediction, delta=0.7),
        tf.losses.log_loss(tf.sigmoid(y), tf.sigmoid(prediction)),
        tf.losses.hinge_loss(tf.cast(y > 0, tf.float32), prediction),
        tf.losses.sigmoid_cross_entropy(tf.cast(y > 0, tf.float32), prediction, label_smoothing=0.1),
        tf.losses.softmax_cross_entropy(tf.one_hot(classes, n_outputs), prediction),
        tf.losses.softmax_cross_entropy(
            tf.one_hot(classes, n_outputs), prediction, weights=weights, label_smoothing=0.2
        ),
        tf.losses.sparse_softmax_cross_entropy(classes, prediction, weights=weights),
    ]
    l2 = 0.01 * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if "bias" not in v.name])
    tf.losses.add_loss(l2)
    total = tf.losses.get_total_loss()
    assert len(tf.losses.get_losses()) == len(losses) + 1
    assert len(tf.get_collection(tf.GraphKeys.LOSSES)) == len(losses) + 1
    train = tf.train.GradientDescentOptimizer(0.05).minimize(total)
    return Program(
        placeholders=dict(x=x, y=y, classes=classes, weights=weights),
        feeds=feeds,
        fetches=dict(prediction=prediction, losses=losses, l2=l2, loss=total),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(
        x=normal(rng, 5, n_inputs),
        y=normal(rng, 5, n_outputs),
        classes=rng.integers(0, n_outputs, 5).astype(np.int32),
        weights=np.array([1, 0, 0.5, 2, 0], np.float32),
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    x, y, classes, weights = (feeds[name] for name in ("x", "y", "classes", "weights"))
    prediction = np_rnn.dense(variables, "dense", x)
    error = prediction - y
    huber = np.where(np.abs(error) <= 0.7, 0.5 * error**2, 0.7 * np.abs(error) - 0.5 * 0.7**2)
    p, q, signs = np_rnn.sigmoid(prediction), np_rnn.sigmoid(y), y > 0
    smooth = signs * 0.9 + 0.05
    log_softmax = np.log(np_rnn.softmax(prediction))
    chosen = np_rnn.one_hot(classes, 3)
    xentropy = -(chosen * log_softmax).sum(1)
    smooth_xentropy = -((0.8 * chosen + 0.2 / 3) * log_softmax).sum(1)
    nonzero = np.count_nonzero(weights)
    losses = [
        np.mean(error**2),
        np.sum(weights[:, None] * error**2) / (nonzero * n_outputs),
        0.5 * np.mean(np.abs(error)),
        np.mean(huber),
        -np.mean(q * np.log(p + 1e-7) + (1 - q) * np.log(1 - p + 1e-7)),
        np.mean(np_rnn.relu(1 - (2 * signs - 1) * prediction)),
        np.mean(np.log1p(np.exp(prediction)) - smooth * prediction),
        np.mean(xentropy),
        np.sum(weights * smooth_xentropy) / nonzero,
        np.sum(weights * xentropy) / nonzero,
    ]
    l2 = 0.01 * 0.5 * np.sum(variables["dense/kernel"] ** 2)
    return dict(prediction=prediction, losses=losses, l2=l2, loss=sum(losses) + l2)
