"""A session plans a decoder or a loop once, whatever its cells were made with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from unspool import tf1 as tf
from unspool.engine.plans import cache

cells = tf.nn.rnn_cell
seq2seq = tf.contrib.seq2seq


class Leaky(cells.RNNCell):
    """A cell of one's own."""

    state_size = output_size = property(lambda self: 5)  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def call(self, inputs: Any, state: Any) -> Any:
        kernel = tf.get_variable("kernel", [inputs.shape[-1].value + 5, 5], initializer=tf.ones_initializer())
        state = 0.5 * state + tf.tanh(tf.matmul(tf.concat([inputs, state], 1), kernel))
        return state, state


def attention() -> Any:
    mechanism = seq2seq.BahdanauAttention(4, tf.ones([3, 6, 2]), [6, 4, 3])
    inner = cells.LSTMCell(5, initializer=tf.orthogonal_initializer())
    return seq2seq.AttentionWrapper(inner, mechanism, attention_layer_size=5)


CELLS: dict[str, Callable[[], Any]] = {
    "lstm": lambda: cells.LSTMCell(5, initializer=tf.random_uniform_initializer(-0.1, 0.1)),
    "stack": lambda: cells.MultiRNNCell(
        [cells.GRUCell(5, None, None, tf.orthogonal_initializer(), tf.constant_initializer(0.5))]
    ),
    "torch": lambda: cells.LSTMCell(5, initializer=torch.nn.init.orthogonal_),
    "attention": attention,
    "own": Leaky,
}


@pytest.fixture(params=CELLS)
def cell(request: pytest.FixtureRequest) -> Any:
    return CELLS[request.param]()


def traces_of_runs(session: tf.Session, fetches: Any) -> list[int]:
    """How often steps are traced in each of three runs."""
    found: list[int] = []
    for _ in range(3):
        before = cache.traces
        session.run(fetches)
        found.append(cache.traces - before)
    return found


def decoded(cell: Any, helper: Any) -> Any:
    layer = tf.layers.Dense(7, kernel_initializer=tf.random_uniform_initializer(-0.1, 0.1))
    decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(3, tf.float32), layer)
    return seq2seq.dynamic_decode(decoder, impute_finished=True, maximum_iterations=4)[0].rnn_output


def test_a_decoder_that_is_trained_is_planned_once(cell: Any):
    ids = np.arange(12, dtype=np.int32).reshape(3, 4) % 7
    table = tf.get_variable("table", [7, 4], initializer=tf.random_uniform_initializer(-1, 1))
    outputs = decoded(cell, seq2seq.TrainingHelper(tf.nn.embedding_lookup(table, ids), [4, 1, 3]))
    train = tf.train.AdamOptimizer(0.01).minimize(tf.reduce_sum(outputs**2))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, *others = traces_of_runs(session, train)
    assert first <= 1
    assert others == [0, 0]


def test_a_decoder_that_reads_what_it_said_is_planned_once(cell: Any):
    table = tf.get_variable("table", [7, 4], initializer=tf.random_uniform_initializer(-1, 1))
    outputs = decoded(cell, seq2seq.GreedyEmbeddingHelper(table, [1, 1, 1], 2))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, *others = traces_of_runs(session, outputs)
    assert first <= 1
    assert others == [0, 0]


def test_a_loop_is_planned_once(cell: Any):
    outputs, _ = tf.nn.dynamic_rnn(cell, tf.ones([3, 4, 2]), [4, 1, 3], dtype=tf.float32)
    train = tf.train.AdamOptimizer(0.01).minimize(tf.reduce_sum(outputs**2))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, *others = traces_of_runs(session, train)
    assert first <= 1
    assert others == [0, 0]


def test_what_filled_the_weights_is_still_told_by_the_cell_of_the_graph():
    initializer = tf.random_uniform_initializer(2.0, 3.0)
    cell = cells.LSTMCell(5, initializer=initializer)
    tf.nn.dynamic_rnn(cell, tf.ones([3, 4, 2]), dtype=tf.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        kernel = session.run(cell.trainable_variables[0])
    assert cell.initializer is initializer
    assert kernel.min() >= 2.0
