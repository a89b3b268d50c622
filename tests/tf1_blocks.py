"""Fused LSTMs and GRUs, for TensorFlow 1: the tests run them here, `conformance/tf1_training.py` on TensorFlow.

Each takes the module that it calls `tf`, and returns arrays by name.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def _drawn(*shape: int, scale: float = 1.0) -> Any:
    return scale * np.random.RandomState(sum(shape)).uniform(-1, 1, shape).astype("float32")


def _lstm(tf: Any, lengths: Any = None, **how: Any) -> dict[str, Any]:
    """Outputs, final state and gradients of a fused LSTM over five steps, from a state."""
    x = tf.constant(_drawn(5, 3, 2))
    c, h = tf.constant(_drawn(3, 4)), tf.constant(_drawn(3, 4, scale=0.5))
    cell = tf.contrib.rnn.LSTMBlockFusedCell(4, **how)
    outputs, state = cell(x, initial_state=(c, h), sequence_length=lengths)
    factors = tf.constant(_drawn(5, 3, 4))
    total = tf.reduce_sum(outputs * factors) + tf.reduce_sum(state[0] * state[1])
    variables = tf.trainable_variables()
    slopes = tf.gradients(total, [x, c, h, *variables])
    with tf.Session() as session:
        session.run([tf.assign(each, _drawn(*each.shape.as_list(), scale=1.5)) for each in variables])
        values = session.run([outputs, *state, *slopes])
    found = {f"value_{k}": value for k, value in enumerate(values)}
    return {**found, "names": np.array([f"{each.name} {each.shape.as_list()}" for each in variables])}


def fused_lstm(tf: Any) -> dict[str, Any]:
    """A fused LSTM without options."""
    return _lstm(tf)


def fused_lstm_lengths(tf: Any) -> dict[str, Any]:
    """Rows of their own lengths, one of them empty."""
    return _lstm(tf, np.array([4, 0, 5], "int32"), forget_bias=0.5)


def fused_lstm_peepholes(tf: Any) -> dict[str, Any]:
    """Gates that see a memory, which is clipped: its gradient passes."""
    return _lstm(tf, use_peephole=True, cell_clip=0.4)


def block_gru(tf: Any) -> dict[str, Any]:
    """A step of a GRU."""
    cell = tf.contrib.rnn.GRUBlockCell(4)
    output, state = cell(tf.constant(_drawn(3, 2)), tf.constant(_drawn(3, 4)))
    variables = tf.trainable_variables()
    with tf.Session() as session:
        session.run([tf.assign(each, _drawn(*each.shape.as_list(), scale=1.5)) for each in variables])
        values = session.run([output, state])
    found = {f"value_{k}": value for k, value in enumerate(values)}
    return {**found, "names": np.array([f"{each.name} {each.shape.as_list()}" for each in variables])}


ALL = [fused_lstm, fused_lstm_lengths, fused_lstm_peepholes, block_gru]
