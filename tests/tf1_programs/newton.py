"""Newton's square root in a `while_loop` whose end depends on the numbers, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from .program import Arrays, Program


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None], name="x")
    scale = tf.Variable(1.0, name="scale")

    def body(guess: Any, count: Any) -> Any:
        return 0.5 * (guess + number / guess), count + 1

    def unfinished(guess: Any, count: Any) -> Any:
        return tf.logical_and(tf.reduce_any(tf.greater(tf.abs(guess * guess - number), 0.1)), count < 20)

    number = tf.exp(scale) * x
    root, count = tf.while_loop(unfinished, body, [tf.ones_like(x), 0])

    loss = tf.reduce_mean(tf.square(root - 2.0))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return Program(
        placeholders=dict(x=x),
        feeds=lambda rng: dict(x=rng.uniform(0.5, 3, 4).astype(np.float32)),
        fetches=dict(root=root, count=count, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    number = np.exp(variables["scale"]) * feeds["x"]
    guess, count = np.ones_like(number), 0
    while (np.abs(guess**2 - number) > 0.1).any() and count < 20:
        guess, count = (guess + number / guess) / 2, count + 1
    return dict(root=guess, count=count, loss=np.mean((guess - 2) ** 2))
