"""A table of which each step reads only some rows, some of them twice, and each optimizer of `tf.train`.

Most optimizers leave alone the rows that were not read: their momentum does not fade. Adam does not."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .optimizers import OPTIMIZERS
from .program import Arrays, Generator, Program

vocabulary, n_embedding, n_steps = 6, 3, 4


def build(tf: Any, optimizer: str) -> Program:
    words = tf.placeholder(tf.int32, [None, n_steps], name="words")
    y = tf.placeholder(tf.float32, [None], name="y")
    table = tf.get_variable("table", [vocabulary, n_embedding])
    embedded = tf.nn.embedding_lookup(table, words)
    mean = tf.reduce_mean(embedded, axis=1)
    prediction = tf.layers.dense(mean, 1, activation=tf.tanh, name="score")
    loss = tf.reduce_mean(tf.square(tf.squeeze(prediction, [1]) - y))

    trainer = OPTIMIZERS[optimizer](tf)
    gradients = trainer.compute_gradients(loss, var_list=tf.trainable_variables())
    clipped, norm = tf.clip_by_global_norm([gradient for gradient, _ in gradients], 0.3)
    train = trainer.apply_gradients(list(zip(clipped, [variable for _, variable in gradients], strict=True)))

    def use(session: Any, feeds: Arrays) -> dict[str, Any]:
        """The gradient of a table has the rows that were read; its norm counts a row as often as it was read."""
        slices = gradients[0][0]
        assert isinstance(slices, tf.IndexedSlices)
        whole = tf.convert_to_tensor(slices)
        fetched, *results = session.run([slices, whole, norm], {words: feeds["words"], y: feeds["y"]})
        return dict(rows=fetched.indices, values=fetched.values, whole=results[0], norm=results[1])

    return Program(
        placeholders=dict(words=words, y=y),
        feeds=feeds,
        fetches=dict(embedded=embedded, prediction=prediction, loss=loss),
        train=train,
        by_hand=by_hand,
        use=use,
    )


def feeds(rng: Generator) -> Arrays:
    few = rng.choice(vocabulary, 3, replace=False)
    return dict(words=rng.choice(few, (2, n_steps)).astype(np.int32), y=rng.uniform(-1, 1, 2).astype(np.float32))


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    embedded = variables["table"][feeds["words"]]
    prediction = np.tanh(np_rnn.dense(variables, "score", embedded.mean(1)))
    return dict(embedded=embedded, prediction=prediction, loss=np.mean((prediction[:, 0] - feeds["y"]) ** 2))
