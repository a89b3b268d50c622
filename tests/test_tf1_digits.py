"""A classifier of digits, read as sequences of rows, learns within a minute."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tests.tf1_programs import row_classifier
from unspool import tf1


def test_test_accuracy_is_over_95_percent():
    assert trained_accuracy(tf1) > 0.95


def trained_accuracy(tf: Any, n_epochs: int = 40, batch_size: int = 50) -> float:
    digits = load_digits()
    images, labels = (digits.images / 16).astype(np.float32), digits.target.astype(np.int32)
    x_train, x_test, y_train, y_test = train_test_split(images, labels, test_size=0.25, random_state=0)

    with tf.Graph().as_default():
        tf.set_random_seed(0)
        program = row_classifier.build(tf, n_neurons=64)
        x, y = program.placeholders["x"], program.placeholders["y"]
        accuracy = program.fetches["accuracy"]
        rng = np.random.default_rng(0)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(n_epochs):
                shuffled = rng.permutation(len(x_train))
                for rows in np.array_split(shuffled, len(x_train) // batch_size):
                    session.run(program.train, feed_dict={x: x_train[rows], y: y_train[rows]})
            return float(session.run(accuracy, feed_dict={x: x_test, y: y_test}))
