"""Truncated backpropagation with the state kept in the graph, in a variable that each step assigns."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program

batch_size, num_steps, num_classes, state_size = 3, 4, 2, 4


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.int32, [batch_size, num_steps], name="input_placeholder")
    y = tf.placeholder(tf.int32, [batch_size, num_steps], name="labels_placeholder")
    state = tf.Variable(tf.zeros([batch_size, state_size]), trainable=False, name="state")

    x_one_hot = tf.one_hot(x, num_classes)
    rnn_inputs = tf.unstack(x_one_hot, axis=1)
    with tf.variable_scope("rnn_cell"):
        w = tf.get_variable("W", [num_classes + state_size, state_size])
        b = tf.get_variable("b", [state_size], initializer=tf.constant_initializer(0.0))

    def rnn_cell(rnn_input: Any, state: Any) -> Any:
        with tf.variable_scope("rnn_cell", reuse=True):
            w = tf.get_variable("W", [num_classes + state_size, state_size])
            b = tf.get_variable("b", [state_size], initializer=tf.constant_initializer(0.0))
        return tf.tanh(tf.matmul(tf.concat([rnn_input, state], 1), w) + b)

    current, rnn_outputs = tf.identity(state), []
    for rnn_input in rnn_inputs:
        current = rnn_cell(rnn_input, current)
        rnn_outputs.append(current)

    with tf.variable_scope("softmax"):
        w_out = tf.get_variable("W", [state_size, num_classes])
        b_out = tf.get_variable("b", [num_classes], initializer=tf.constant_initializer(0.0))
    logits = [tf.matmul(rnn_output, w_out) + b_out for rnn_output in rnn_outputs]
    predictions = [tf.nn.softmax(logit) for logit in logits]
    y_as_list = tf.unstack(y, num=num_steps, axis=1)
    losses = [
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logit)
        for logit, label in zip(logits, y_as_list, strict=True)
    ]
    total_loss = tf.reduce_mean(losses)

    step = tf.train.AdagradOptimizer(0.1).minimize(total_loss)
    with tf.control_dependencies([step, total_loss]):
        remember = state.assign(current)
    train = tf.group(step, remember)
    forget = tf.assign(state, tf.zeros_like(state))
    assert w.name == "rnn_cell/W:0"
    assert b.shape.as_list() == [state_size]

    def use(session: Any, feeds: Arrays) -> dict[str, Any]:
        kept = session.run(state)
        session.run(forget)
        fresh, start = session.run([total_loss, state], {x: feeds["x"], y: feeds["y"]})
        return dict(kept=kept, fresh=fresh, start=start)

    return Program(
        placeholders=dict(x=x, y=y),
        feeds=feeds,
        fetches=dict(state=current, predictions=predictions, loss=total_loss),
        train=train,
        by_hand=by_hand,
        use=use,
    )


def feeds(rng: Generator) -> Arrays:
    return {name: rng.integers(0, num_classes, (batch_size, num_steps)).astype(np.int32) for name in ("x", "y")}


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    def step(x: np.ndarray, h: np.ndarray) -> Any:
        h = np.tanh(np.concatenate([x, h], 1) @ variables["rnn_cell/W"] + variables["rnn_cell/b"])
        return h, h

    outputs, state = np_rnn.unroll(step, np_rnn.one_hot(feeds["x"], num_classes), variables["state"])
    logits = outputs @ variables["softmax/W"] + variables["softmax/b"]
    predictions = list(np_rnn.softmax(logits).swapaxes(0, 1))
    return dict(state=state, predictions=predictions, loss=np.mean(np_rnn.cross_entropy(logits, feeds["y"])))
