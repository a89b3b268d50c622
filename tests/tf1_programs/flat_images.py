"""Images through `layers.flatten` and dense layers, with a loss of `tf.losses` and accuracies."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

height, width, n_hidden, n_classes = 3, 4, 6, 5


def build(tf: Any) -> Program:
    images = tf.placeholder(tf.float32, shape=(None, height, width, 1), name="images")
    labels = tf.placeholder(tf.int64, shape=(None), name="labels")

    flat = tf.layers.flatten(images)
    hidden1 = tf.layers.dense(flat, n_hidden, activation=tf.nn.relu, name="hidden1")
    hidden2 = tf.layers.dense(
        hidden1, n_hidden, activation=tf.nn.sigmoid, kernel_initializer=tf.initializers.he_normal()
    )
    normed = tf.nn.l2_normalize(hidden2, 1)
    logits = tf.layers.Dense(n_classes, name="out")(normed)

    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    probabilities = tf.nn.softmax(logits)
    top1 = tf.nn.in_top_k(logits, labels, 1)
    top2 = tf.nn.in_top_k(predictions=logits, targets=labels, k=2)
    values, indices = tf.nn.top_k(probabilities, k=2)
    correct_prediction = tf.equal(tf.argmax(logits, 1), labels)
    accuracy = tf.reduce_mean(tf.cast(correct_prediction, tf.float32))
    train = tf.train.AdamOptimizer().minimize(loss)
    return Program(
        placeholders=dict(images=images, labels=labels),
        feeds=feeds,
        fetches=dict(
            flat=flat,
            hidden=[hidden1, hidden2],
            logits=logits,
            probabilities=probabilities,
            top1=top1,
            top2=top2,
            best=(values, indices),
            accuracy=accuracy,
            loss=loss,
        ),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(images=normal(rng, 6, height, width, 1), labels=rng.integers(0, n_classes, 6))


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    labels = feeds["labels"]
    flat = feeds["images"].reshape(6, -1)
    hidden1 = np_rnn.relu(np_rnn.dense(variables, "hidden1", flat))
    hidden2 = np_rnn.sigmoid(np_rnn.dense(variables, "dense", hidden1))
    logits = np_rnn.dense(variables, "out", hidden2 / np.linalg.norm(hidden2, axis=1, keepdims=True))
    probabilities = np_rnn.softmax(logits)
    order = np.argsort(-logits, 1)[:, :2]
    return dict(
        flat=flat,
        hidden=[hidden1, hidden2],
        logits=logits,
        probabilities=probabilities,
        top1=order[:, 0] == labels,
        top2=(order == labels[:, None]).any(1),
        best=(np.take_along_axis(probabilities, order, 1), order),
        accuracy=np_rnn.accuracy(logits, labels),
        loss=np.mean(np_rnn.cross_entropy(logits, labels)),
    )
