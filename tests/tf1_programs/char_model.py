"""A character model: embedded symbols into a GRU, and gradients clipped by their global norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program

n_symbols, n_embedding, n_units, n_steps = 7, 3, 5, 6


def build(tf: Any) -> Program:
    seq = tf.placeholder(tf.int32, [None, None], name="seq")
    temperature = tf.constant(1.5, name="temperature")

    embeddings = tf.get_variable(
        "embeddings", [n_symbols, n_embedding], initializer=tf.random_uniform_initializer(-1.0, 1.0)
    )
    cell = tf.nn.rnn_cell.GRUCell(n_units)
    batch_size = tf.shape(seq)[0]
    in_state = cell.zero_state(batch_size, tf.float32)
    length = tf.reduce_sum(tf.sign(seq), 1)
    output, out_state = tf.nn.dynamic_rnn(
        cell, tf.nn.embedding_lookup(embeddings, seq), sequence_length=length, initial_state=in_state
    )

    logits = tf.layers.dense(output, n_symbols, activation=None, name="logits")
    loss = tf.reduce_sum(
        tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits[:, :-1], labels=seq[:, 1:])
    ) / tf.to_float(batch_size)
    next_symbol = tf.nn.softmax(logits[:, -1] / temperature)

    global_step = tf.Variable(0, dtype=tf.int32, trainable=False, name="global_step")
    tvars = tf.trainable_variables()
    grads, _ = tf.clip_by_global_norm(tf.gradients(loss, tvars), 1.0)
    optimizer = tf.train.GradientDescentOptimizer(0.3)
    train = optimizer.apply_gradients(zip(grads, tvars, strict=True), global_step=global_step)

    def use(session: Any, feeds: Arrays) -> dict[str, Any]:
        """Writes on, always with the likeliest symbol."""
        sentence, state = [1], None
        for _ in range(5):
            feed = {seq: [sentence[-1:]]}
            if state is not None:
                feed[in_state] = state
            probabilities, state = session.run([next_symbol, out_state], feed)
            sentence.append(int(np.argmax(probabilities[0, 1:])) + 1)
        return dict(sentence=np.array(sentence), step=tf.train.global_step(session, global_step))

    return Program(
        placeholders=dict(seq=seq),
        feeds=feeds,
        fetches=dict(length=length, output=output, out_state=out_state, logits=logits, next=next_symbol, loss=loss),
        train=train,
        by_hand=by_hand,
        use=use,
    )


def feeds(rng: Generator) -> Arrays:
    seq = rng.integers(1, n_symbols, (4, n_steps)).astype(np.int32)
    seq[np.arange(n_steps) >= np.array([6, 3, 5, 1])[:, None]] = 0
    return dict(seq=seq)


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    seq = feeds["seq"]
    length = np.sign(seq).sum(1)
    step = np_rnn.gru(variables, "rnn/gru_cell")
    output, out_state = np_rnn.unroll(step, variables["embeddings"][seq], np_rnn.zeros(4, n_units), length)
    logits = np_rnn.dense(variables, "logits", output)
    loss = np_rnn.cross_entropy(logits[:, :-1], seq[:, 1:]).sum() / 4
    following = np_rnn.softmax(logits[:, -1] / 1.5)
    return dict(length=length, output=output, out_state=out_state, logits=logits, next=following, loss=loss)
