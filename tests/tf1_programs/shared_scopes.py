"""A graph to train and one to infer with, that share their variables by their scope."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Program

n_symbols, n_units, n_steps = 5, 4, 6


class Model:
    """A language model over one-hot symbols."""

    def __init__(self, tf: Any, symbols: Any, initial_state: Any = None) -> None:
        self.symbols = symbols
        one_hot = tf.one_hot(symbols, n_symbols, dtype=tf.float32)
        cell = tf.nn.rnn_cell.GRUCell(n_units)
        if initial_state is None:
            initial_state = cell.zero_state(tf.shape(symbols)[0], tf.float32)
        self.initial_state = initial_state
        self.outputs, self.state = tf.nn.dynamic_rnn(cell, one_hot, initial_state=initial_state)
        with tf.variable_scope("softmax"):
            w = tf.get_variable("w", [n_units, n_symbols])
            b = tf.get_variable("b", [n_symbols], initializer=tf.constant_initializer(0.0))
        self.logits = tf.tensordot(self.outputs, w, axes=[[2], [0]]) + b


def build(tf: Any) -> Program:
    symbols = tf.placeholder(tf.int32, [None, n_steps], name="symbols")
    initializer = tf.random_uniform_initializer(-0.1, 0.1)
    with tf.variable_scope("model", reuse=None, initializer=initializer):
        training = Model(tf, symbols)
    with tf.variable_scope("model", reuse=True):
        symbol = tf.placeholder(tf.int32, [None, 1], name="symbol")
        state = tf.placeholder(tf.float32, [None, n_units], name="state")
        inference = Model(tf, symbol, state)

    loss = tf.reduce_mean(
        tf.nn.softmax_cross_entropy_with_logits(
            labels=tf.one_hot(symbols[:, 1:], n_symbols), logits=training.logits[:, :-1]
        )
    )
    train = tf.train.AdagradOptimizer(0.2).minimize(loss)

    def use(session: Any, feeds: Arrays) -> dict[str, Any]:
        """The graph to infer with gives, one symbol a run, what the other gives at once."""
        current, logits = np.zeros((4, n_units), np.float32), []
        for t in range(n_steps):
            feed = {symbol: feeds["symbols"][:, t : t + 1], state: current}
            step_logits, current = session.run((inference.logits, inference.state), feed_dict=feed)
            logits.append(step_logits)
        together = session.run(training.logits, {symbols: feeds["symbols"]})
        np.testing.assert_allclose(np.concatenate(logits, 1), together, rtol=1e-4, atol=1e-5)
        assert len(tf.trainable_variables()) == 6
        return dict(logits=together, state=current)

    return Program(
        placeholders=dict(symbols=symbols),
        feeds=lambda rng: dict(symbols=rng.integers(0, n_symbols, (4, n_steps)).astype(np.int32)),
        fetches=dict(outputs=training.outputs, state=training.state, logits=training.logits, loss=loss),
        train=train,
        by_hand=by_hand,
        use=use,
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    step, x = np_rnn.gru(variables, "model/rnn/gru_cell"), np_rnn.one_hot(feeds["symbols"], n_symbols)
    outputs, state = np_rnn.unroll(step, x, np_rnn.zeros(4, n_units))
    logits = outputs @ variables["model/softmax/w"] + variables["model/softmax/b"]
    loss = np.mean(np_rnn.cross_entropy(logits[:, :-1], feeds["symbols"][:, 1:]))
    return dict(outputs=outputs, state=state, logits=logits, loss=loss)
