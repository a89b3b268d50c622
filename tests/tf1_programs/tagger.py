"""A tagger that reads in both directions; its loss and accuracy leave out the padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program

vocabulary, n_embedding, n_units, n_tags, n_steps = 9, 4, 3, 4, 5


def build(tf: Any) -> Program:
    word_ids = tf.placeholder(tf.int32, shape=[None, None], name="word_ids")
    sequence_lengths = tf.placeholder(tf.int32, shape=[None], name="sequence_lengths")
    labels = tf.placeholder(tf.int32, shape=[None, None], name="labels")
    dropout = tf.placeholder(dtype=tf.float32, shape=[], name="dropout")

    with tf.variable_scope("words"):
        table = tf.get_variable("_word_embeddings", [vocabulary, n_embedding], dtype=tf.float32)
        word_embeddings = tf.nn.embedding_lookup(table, word_ids, name="word_embeddings")
        word_embeddings = tf.nn.dropout(word_embeddings, keep_prob=dropout)

    with tf.variable_scope("bi-lstm"):
        cell_fw = tf.nn.rnn_cell.LSTMCell(n_units)
        cell_bw = tf.nn.rnn_cell.LSTMCell(n_units)
        (output_fw, output_bw), states = tf.nn.bidirectional_dynamic_rnn(
            cell_fw, cell_bw, word_embeddings, sequence_length=sequence_lengths, dtype=tf.float32
        )
        context = tf.concat([output_fw, output_bw], axis=-1)

    with tf.variable_scope("proj"):
        w = tf.get_variable("W", shape=[2 * n_units, n_tags], dtype=tf.float32)
        b = tf.get_variable("b", shape=[n_tags], dtype=tf.float32, initializer=tf.zeros_initializer())
        time_steps = tf.shape(context)[1]
        flat = tf.reshape(context, [-1, 2 * n_units])
        logits = tf.reshape(tf.matmul(flat, w) + b, [-1, time_steps, n_tags])

    mask = tf.sequence_mask(sequence_lengths)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels)
    loss = tf.reduce_mean(tf.boolean_mask(losses, mask))
    labels_pred = tf.cast(tf.argmax(logits, axis=-1), tf.int32)
    accuracy = tf.reduce_mean(tf.cast(tf.boolean_mask(tf.equal(labels_pred, labels), mask), tf.float32))
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    return Program(
        placeholders=dict(word_ids=word_ids, sequence_lengths=sequence_lengths, labels=labels, dropout=dropout),
        feeds=feeds,
        fetches=dict(
            context=context, states=states, mask=mask, logits=logits, tags=labels_pred, loss=loss, accuracy=accuracy
        ),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(
        word_ids=rng.integers(0, vocabulary, (4, n_steps)).astype(np.int32),
        sequence_lengths=np.array([2, n_steps, 3, 1], np.int32),
        labels=rng.integers(0, n_tags, (4, n_steps)).astype(np.int32),
        dropout=np.float32(1.0),
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    x, lengths = variables["words/_word_embeddings"][feeds["word_ids"]], feeds["sequence_lengths"]
    start = np_rnn.zeros(4, n_units, n_units)
    fw = np_rnn.lstm(variables, "bi-lstm/bidirectional_rnn/fw/lstm_cell")
    bw = np_rnn.lstm(variables, "bi-lstm/bidirectional_rnn/bw/lstm_cell")
    output_fw, state_fw = np_rnn.unroll(fw, x, start, lengths)
    output_bw, state_bw = np_rnn.unroll(bw, np_rnn.reverse(x, lengths), start, lengths)
    context = np.concatenate([output_fw, np_rnn.reverse(output_bw, lengths)], 2)
    logits = context @ variables["proj/W"] + variables["proj/b"]
    mask = np.arange(n_steps) < lengths[:, None]
    return dict(
        context=context,
        states=(state_fw, state_bw),
        mask=mask,
        logits=logits,
        tags=logits.argmax(-1),
        loss=np.mean(np_rnn.cross_entropy(logits, feeds["labels"])[mask]),
        accuracy=np.mean((logits.argmax(-1) == feeds["labels"])[mask]),
    )
