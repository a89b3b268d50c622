"""A character model of the first days: `split` and `squeeze`, then a stack of cells called step by step, with reuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program

n_symbols, n_units, n_steps, batch_size = 7, 4, 6, 3


def build(tf: Any) -> Program:
    input_data = tf.placeholder(tf.int32, [batch_size, n_steps], name="input_data")
    targets = tf.placeholder(tf.int32, [batch_size, n_steps], name="targets")
    layers = [tf.nn.rnn_cell.BasicLSTMCell(n_units), tf.nn.rnn_cell.GRUCell(n_units)]
    cell = tf.nn.rnn_cell.MultiRNNCell(layers)
    initial_state = cell.zero_state(batch_size, tf.float32)

    with tf.variable_scope("rnnlm"):
        softmax_w = tf.get_variable("softmax_w", [n_units, n_symbols])
        softmax_b = tf.get_variable("softmax_b", [n_symbols])
        embedding = tf.get_variable("embedding", [n_symbols, n_units])
        inputs = tf.split(tf.nn.embedding_lookup(embedding, input_data), n_steps, 1)
        inputs = [tf.squeeze(input_, [1]) for input_ in inputs]

    outputs, states, state = [], [], initial_state
    with tf.variable_scope("rnn_decoder"):
        for i, inp in enumerate(inputs):
            if i > 0:
                tf.get_variable_scope().reuse_variables()
            output, state = cell(inp, state)
            outputs.append(output)
            states.append(state)
    output = tf.reshape(tf.concat(outputs, 1), [-1, n_units])
    logits = tf.matmul(output, softmax_w) + softmax_b
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(targets, [-1]), logits=logits)
    loss = tf.reduce_sum(entropy) / batch_size / n_steps

    tvars = tf.trainable_variables()
    grads, _ = tf.clip_by_global_norm(tf.gradients(loss, tvars), 0.5)
    train = tf.train.AdamOptimizer(0.05).apply_gradients(zip(grads, tvars, strict=True))
    return Program(
        placeholders=dict(input_data=input_data, targets=targets),
        feeds=feeds,
        fetches=dict(middle=states[2][0].c, final=state[1], logits=logits, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    text = rng.integers(0, n_symbols, (batch_size, n_steps + 1)).astype(np.int32)
    return dict(input_data=text[:, :-1], targets=text[:, 1:])


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    name = "rnn_decoder/multi_rnn_cell"
    first = np_rnn.lstm(variables, f"{name}/cell_0/basic_lstm_cell")
    step = np_rnn.stacked(first, np_rnn.gru(variables, f"{name}/cell_1/gru_cell"))
    read = variables["rnnlm/embedding"][feeds["input_data"]]
    zeros = np.zeros((batch_size, n_units), read.dtype)
    start = (zeros, zeros), zeros
    _, middle = np_rnn.unroll(step, read[:, :3], start)
    outputs, final = np_rnn.unroll(step, read, start)
    logits = outputs.reshape(-1, n_units) @ variables["rnnlm/softmax_w"] + variables["rnnlm/softmax_b"]
    loss = np_rnn.cross_entropy(logits, feeds["targets"].reshape(-1)).mean()
    return dict(middle=middle[0][0], final=final[1], logits=logits, loss=loss)
