"""A text classifier that attends to the outputs of a bidirectional RNN, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program

vocabulary, n_embedding, n_units, n_attention, n_steps = 7, 3, 3, 4, 5


def build(tf: Any) -> Program:
    with tf.name_scope("Inputs"):
        batch = tf.placeholder(tf.int32, [None, n_steps], name="batch_ph")
        target = tf.placeholder(tf.float32, [None], name="target_ph")
        lengths = tf.placeholder(tf.int32, [None], name="seq_len_ph")
    with tf.name_scope("Embedding_layer"):
        embeddings = tf.Variable(tf.random_uniform([vocabulary, n_embedding], -1.0, 1.0), trainable=True)
        embedded = tf.nn.embedding_lookup(embeddings, batch)

    outputs, _ = tf.nn.bidirectional_dynamic_rnn(
        tf.nn.rnn_cell.GRUCell(n_units),
        tf.nn.rnn_cell.GRUCell(n_units),
        inputs=embedded,
        sequence_length=lengths,
        dtype=tf.float32,
    )
    joined = tf.concat(outputs, 2)

    with tf.name_scope("Attention_layer"):
        w = tf.Variable(tf.random_normal([2 * n_units, n_attention], stddev=0.1))
        b = tf.Variable(tf.random_normal([n_attention], stddev=0.1))
        u = tf.Variable(tf.random_normal([n_attention], stddev=0.1))
        v = tf.tanh(tf.tensordot(joined, w, axes=1) + b)
        vu = tf.tensordot(v, u, axes=1, name="vu")
        padding = (1.0 - tf.sequence_mask(lengths, n_steps, dtype=tf.float32)) * -1e9
        alphas = tf.nn.softmax(vu + padding, name="alphas")
        pooled = tf.reduce_sum(joined * tf.expand_dims(alphas, -1), 1)

    with tf.name_scope("Fully_connected_layer"):
        w_out = tf.Variable(tf.truncated_normal([2 * n_units, 1], stddev=0.1))
        b_out = tf.Variable(tf.constant(0.0, shape=[1]))
        y_hat = tf.squeeze(tf.nn.xw_plus_b(pooled, w_out, b_out), axis=[1])

    with tf.name_scope("Metrics"):
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=y_hat, labels=target))
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.round(tf.sigmoid(y_hat)), target), tf.float32))
        train = tf.train.AdamOptimizer(learning_rate=1e-3).minimize(loss)
    return Program(
        placeholders=dict(batch=batch, target=target, lengths=lengths),
        feeds=feeds,
        fetches=dict(joined=joined, alphas=alphas, y_hat=y_hat, loss=loss, accuracy=accuracy),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(
        batch=rng.integers(0, vocabulary, (4, n_steps)).astype(np.int32),
        target=rng.integers(0, 2, 4).astype(np.float32),
        lengths=np.array([5, 1, 3, 4], np.int32),
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    lengths, target, layer = feeds["lengths"], feeds["target"], "Attention_layer/Variable"
    x = variables["Embedding_layer/Variable"][feeds["batch"]]
    fw, bw = (np_rnn.gru(variables, f"bidirectional_rnn/{way}/gru_cell") for way in ("fw", "bw"))
    output_fw, _ = np_rnn.unroll(fw, x, np_rnn.zeros(4, n_units), lengths)
    output_bw, _ = np_rnn.unroll(bw, np_rnn.reverse(x, lengths), np_rnn.zeros(4, n_units), lengths)
    joined = np.concatenate([output_fw, np_rnn.reverse(output_bw, lengths)], 2)
    scores = np.tanh(joined @ variables[layer] + variables[f"{layer}_1"]) @ variables[f"{layer}_2"]
    alphas = np_rnn.softmax(np.where(np.arange(n_steps) < lengths[:, None], scores, -np.inf))
    pooled = (joined * alphas[:, :, None]).sum(1)
    y_hat = (pooled @ variables["Fully_connected_layer/Variable"] + variables["Fully_connected_layer/Variable_1"])[:, 0]
    loss = np.mean(np.log1p(np.exp(y_hat)) - target * y_hat)
    return dict(joined=joined, alphas=alphas, y_hat=y_hat, loss=loss, accuracy=np.mean((y_hat > 0) == target))
