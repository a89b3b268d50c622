"""A language model whose state goes out of one run and into the next, through placeholders for c and h."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

vocab_size, hidden_size, num_layers, num_steps, batch_size = 6, 4, 2, 3, 2


def build(tf: Any) -> Program:
    input_data = tf.placeholder(tf.int32, [batch_size, num_steps], name="input_data")
    targets = tf.placeholder(tf.int32, [batch_size, num_steps], name="targets")
    state_in = tuple(
        tf.nn.rnn_cell.LSTMStateTuple(
            c=tf.placeholder(tf.float32, [batch_size, hidden_size], name=f"c_{layer}"),
            h=tf.placeholder(tf.float32, [batch_size, hidden_size], name=f"h_{layer}"),
        )
        for layer in range(num_layers)
    )

    def lstm_cell() -> Any:
        return tf.nn.rnn_cell.BasicLSTMCell(hidden_size, forget_bias=0.0, state_is_tuple=True)

    with tf.variable_scope("Model", initializer=tf.random_uniform_initializer(-0.1, 0.1)):
        cell = tf.nn.rnn_cell.MultiRNNCell([lstm_cell() for _ in range(num_layers)], state_is_tuple=True)
        zero_state = cell.zero_state(batch_size, tf.float32)
        embedding = tf.get_variable("embedding", [vocab_size, hidden_size], dtype=tf.float32)
        inputs = tf.nn.embedding_lookup(embedding, input_data)

        outputs, state = [], state_in
        with tf.variable_scope("RNN"):
            for time_step in range(num_steps):
                if time_step > 0:
                    tf.get_variable_scope().reuse_variables()
                cell_output, state = cell(inputs[:, time_step, :], state)
                outputs.append(cell_output)
        output = tf.reshape(tf.concat(outputs, 1), [-1, hidden_size])

        softmax_w = tf.get_variable("softmax_w", [hidden_size, vocab_size], dtype=tf.float32)
        softmax_b = tf.get_variable("softmax_b", [vocab_size], dtype=tf.float32)
        logits = tf.nn.xw_plus_b(output, softmax_w, softmax_b)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(targets, [-1]), logits=logits)
        cost = tf.reduce_sum(loss) / batch_size

        lr = tf.Variable(0.0, trainable=False, name="lr")
        new_lr = tf.placeholder(tf.float32, shape=[], name="new_learning_rate")
        lr_update = tf.assign(lr, new_lr)
        tvars = tf.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(cost, tvars), 5)
        train = tf.train.GradientDescentOptimizer(lr + 0.1).apply_gradients(zip(grads, tvars, strict=True))

    def use(session: Any, feeds: Arrays) -> dict[str, Any]:
        """Three runs on the same symbols, each from the state the last one left, then training at another rate."""
        costs, current = [], session.run(zero_state)
        for _ in range(3):
            feed_dict = {input_data: feeds["input_data"], targets: feeds["targets"]}
            for (c, h), value in zip(state_in, current, strict=True):
                feed_dict[c] = value.c
                feed_dict[h] = value.h
            step_cost, current = session.run([cost, state], feed_dict)
            costs.append(step_cost)
        feed_dict = {input_data: feeds["input_data"], targets: feeds["targets"], state_in: current}
        session.run(lr_update, feed_dict={new_lr: 0.4})
        session.run(train, feed_dict)
        return dict(costs=np.array(costs), state=current, rate=session.run(lr), trained=session.run(cost, feed_dict))

    placeholders = dict(input_data=input_data, targets=targets)
    for layer in range(num_layers):
        placeholders[f"c_{layer}"], placeholders[f"h_{layer}"] = state_in[layer]
    return Program(
        placeholders=placeholders,
        feeds=feeds,
        fetches=dict(output=output, logits=logits, state=state, loss=cost),
        train=train,
        by_hand=by_hand,
        use=use,
    )


def feeds(rng: Generator) -> Arrays:
    symbols = {key: rng.integers(0, vocab_size, (batch_size, num_steps)).astype(np.int32) for key in INPUTS}
    states = {f"{part}_{layer}": normal(rng, batch_size, hidden_size) for layer in range(num_layers) for part in "ch"}
    return {**symbols, **states}


INPUTS = "input_data", "targets"


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    name = "Model/RNN/multi_rnn_cell/cell_{}/basic_lstm_cell"
    step = np_rnn.stacked(*(np_rnn.lstm(variables, name.format(k), 0.0) for k in range(num_layers)))
    start = tuple((feeds[f"c_{layer}"], feeds[f"h_{layer}"]) for layer in range(num_layers))
    outputs, state = np_rnn.unroll(step, variables["Model/embedding"][feeds["input_data"]], start)
    output = outputs.reshape(-1, hidden_size)
    logits = output @ variables["Model/softmax_w"] + variables["Model/softmax_b"]
    cost = np_rnn.cross_entropy(logits, feeds["targets"].reshape(-1)).sum() / batch_size
    return dict(output=output, logits=logits, state=state, loss=cost)
