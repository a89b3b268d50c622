"""What old programs build call by call is rerolled: decoders of `legacy_seq2seq`, and models written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.tf1_models import Attending, Unrolled
from benchmarks.tf1_models import Model as Trained
from tests.tf1_unrolled import Model, check_same, loops_of, numbers, trained
from unspool import tf1 as tf

cells, legacy = tf.nn.rnn_cell, tf.contrib.legacy_seq2seq
ROWS, SYMBOLS, SIZE, UNITS = 2, 6, 3, 4


def fed(count: int, seed: int) -> dict[Any, Any]:
    rng = np.random.default_rng(seed)
    return {tf.placeholder(tf.int32, [None]): rng.integers(SYMBOLS, size=ROWS) for _ in range(count)}


def attention(said: Any, read: Any, cell: Any, **options: Any) -> Any:
    return legacy.embedding_attention_seq2seq(said, read, cell, SYMBOLS, SYMBOLS, SIZE, **options)


DECODERS: dict[str, Callable[..., Any]] = {
    "fed_its_own": lambda said, read, cell: legacy.embedding_rnn_seq2seq(
        said, read, cell, SYMBOLS, SYMBOLS, SIZE, feed_previous=True
    ),
    "tied": lambda said, read, cell: legacy.embedding_tied_rnn_seq2seq(
        said, read, cell, SYMBOLS, SIZE, feed_previous=True
    ),
    "attention": attention,
    "attention_twice_fed_its_own": lambda said, read, cell: attention(
        said, read, cell, feed_previous=True, num_heads=2, initial_state_attention=True
    ),
}


@pytest.mark.parametrize("kind", DECODERS)
def test_decoders_are_one_loop(kind: str):
    def build() -> Model:
        said, read = fed(3, 0), fed(5, 1)
        with tf.variable_scope("model", dtype=tf.float64):
            outputs, _ = DECODERS[kind](list(said), list(read), cells.GRUCell(UNITS))
        weights = [tf.ones([ROWS], tf.float64)] * len(outputs)
        return trained(legacy.sequence_loss(outputs, list(read), weights), {**said, **read}, outputs[2])

    check_same(build, 1)


@pytest.mark.parametrize(
    "model",
    [Unrolled(2, 5, 4), Unrolled(2, 5, 4, reads_back=True), Unrolled(2, 5, 4, feeds_back=True), Attending(2, 5, 4, 3)],
    ids=["joined", "reads_back", "feeds_back", "attends"],
)
def test_models_that_are_measured_are_one_loop(model: Trained):
    sessions: list[Any] = []

    def session(**options: Any) -> Any:
        sessions.append(tf.Session(**options))
        return sessions[-1]

    step = model.trained(tf, session)
    first = step()
    assert loops_of(sessions[0]) == 1
    assert [step() for _ in range(10)][-1] < first


def own_cell(x: Any) -> list[Any]:
    """A cell of one's own, which is no operation of the graph."""

    class Leaky(cells.RNNCell):
        state_size = output_size = property(lambda self: UNITS)  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

        def call(self, inputs: Any, state: Any) -> Any:
            kernel = tf.get_variable("kernel", [SIZE + UNITS, UNITS], tf.float64)
            state = 0.5 * state + tf.tanh(tf.matmul(tf.concat([inputs, state], 1), kernel))
            return state, state

    cell, outputs = Leaky(), []
    state = cell.zero_state(ROWS, tf.float64)
    for step in tf.unstack(x, axis=1):
        output, state = cell(step, state)
        outputs.append(output)
    return outputs


def by_hand(x: Any) -> list[Any]:
    """An LSTM that is written down."""
    kernel = tf.get_variable("kernel", [SIZE + UNITS, 4 * UNITS], tf.float64)
    bias = tf.get_variable("bias", [4 * UNITS], tf.float64)
    hidden = memory = tf.zeros([ROWS, UNITS], tf.float64)
    outputs: list[Any] = []
    for number in range(5):
        gates = tf.matmul(tf.concat([x[:, number], hidden], 1), kernel) + bias
        i, f, g, o = tf.split(gates, 4, 1)
        memory = tf.sigmoid(f + 1.0) * memory + tf.sigmoid(i) * tf.tanh(g)
        hidden = tf.sigmoid(o) * tf.tanh(memory)
        outputs.append(hidden)
    return outputs


def two_matrices(x: Any) -> list[Any]:
    one, other = tf.get_variable("one", [SIZE, UNITS], tf.float64), tf.get_variable("other", [UNITS, UNITS], tf.float64)
    hidden, outputs = tf.zeros([ROWS, UNITS], tf.float64), list[Any]()
    for step in tf.unstack(x, axis=1):
        hidden = tf.tanh(tf.matmul(step, one) + tf.matmul(hidden, other))
        outputs.append(hidden)
    return outputs


@pytest.mark.parametrize("written", [own_cell, by_hand, two_matrices])
def test_steps_without_a_cell_of_the_library_are_known_by_their_matrices(written: Callable[[Any], list[Any]]):
    def build() -> Model:
        x = tf.placeholder(tf.float64, [ROWS, 5, SIZE])
        outputs = written(x)
        loss = tf.reduce_sum(tf.square(tf.stack(outputs)))
        return trained(loss, {x: numbers(ROWS, 5, SIZE)}, outputs[1], tf.gradients(loss, x))

    check_same(build, 1)


def test_a_layer_that_many_steps_share_is_no_loop():
    """Nothing goes from one of its readers to the next."""

    def build() -> Model:
        x = tf.placeholder(tf.float64, [ROWS, 5, SIZE])
        kernel = tf.get_variable("kernel", [SIZE, UNITS], tf.float64)
        made = [tf.matmul(step, kernel) for step in tf.unstack(x, axis=1)]
        return trained(tf.reduce_sum(tf.square(tf.stack(made))), {x: numbers(ROWS, 5, SIZE)})

    check_same(build, 0)


def test_rows_that_no_gradient_comes_to_are_not_in_it():
    """A loss of the first steps, fetched with what later steps look up."""

    def build() -> Model:
        x = tf.placeholder(tf.float64, [ROWS, UNITS])
        table = tf.get_variable("table", [UNITS, UNITS], tf.float64)
        cell, given, outputs = cells.GRUCell(UNITS), x, list[Any]()
        state = cell.zero_state(ROWS, tf.float64)
        for _ in range(5):
            output, state = cell(given, state)
            outputs.append(output)
            given = tf.nn.embedding_lookup(table, tf.argmax(output, 1))
        return trained(tf.reduce_sum(tf.square(outputs[2])), {x: numbers(ROWS, UNITS)}, outputs[4])

    check_same(build, 0)
