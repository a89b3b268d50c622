"""`raw_rnn` with a loop function that feeds each output back once the inputs are over."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_steps, n_given, n_inputs = 6, 3, 3


def build(tf: Any) -> Program:
    inputs = tf.placeholder(tf.float32, [n_given, None, n_inputs], name="inputs")
    target = tf.placeholder(tf.float32, [n_steps, None, n_inputs], name="target")
    batch_size = tf.shape(inputs)[1]
    inputs_ta = tf.TensorArray(dtype=tf.float32, size=n_given).unstack(inputs)
    cell = tf.nn.rnn_cell.LSTMCell(n_inputs)

    def loop_fn(time: Any, cell_output: Any, cell_state: Any, loop_state: Any) -> Any:
        emit_output = cell_output  # None at time 0
        if cell_output is None:
            next_cell_state = cell.zero_state(batch_size, tf.float32)
            next_input = inputs_ta.read(0)
        else:
            next_cell_state = cell_state
            next_input = tf.cond(
                time < n_given, lambda: inputs_ta.read(tf.minimum(time, n_given - 1)), lambda: cell_output
            )
        elements_finished = tf.fill([batch_size], time >= n_steps)
        return elements_finished, next_input, next_cell_state, emit_output, None

    outputs_ta, final_state, _ = tf.nn.raw_rnn(cell, loop_fn)
    outputs = outputs_ta.stack()

    loss = tf.reduce_mean(tf.square(outputs - target))
    train = tf.train.RMSPropOptimizer(0.01, epsilon=1e-4).minimize(loss)
    return Program(
        placeholders=dict(inputs=inputs, target=target),
        feeds=feeds,
        fetches=dict(outputs=outputs, final_state=final_state, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(inputs=normal(rng, n_given, 4, n_inputs), target=0.3 * normal(rng, n_steps, 4, n_inputs))


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    step, state, outputs = np_rnn.lstm(variables, "rnn/lstm_cell"), np_rnn.zeros(4, n_inputs, n_inputs), []
    for t in range(n_steps):
        output, state = step(feeds["inputs"][t] if t < n_given else outputs[-1], state)
        outputs.append(output)
    return dict(outputs=np.stack(outputs), final_state=state, loss=np.mean((outputs - feeds["target"]) ** 2))
