"""Calls that read what the last one put out: with what stands between them, they are the steps of one loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import unspool
from tests.tf1_unrolled import (
    DEPTH,
    ROWS,
    STEPS,
    UNITS,
    Model,
    check_same,
    loops_of,
    numbers,
    sequence,
    squares,
    trained,
)
from unspool import tf1 as tf
from unspool.engine.guards.fingerprint import Fingerprint
from unspool.tf1.rerolling.composite import Composite

cells = tf.nn.rnn_cell
WORDS = 7


class Pieces:
    """What stands between the calls of a program, made of variables that are there once."""

    def __init__(self, x: Any) -> None:
        self.steps = tf.unstack(x, axis=1)
        self.table = tf.get_variable("table", [WORDS, DEPTH], tf.float64)
        self.weights = tf.get_variable("weights", [UNITS, WORDS], tf.float64)
        self.back = tf.get_variable("back", [UNITS, DEPTH], tf.float64)
        self.memory = tf.tanh(x)
        self.coverage = tf.zeros([ROWS, STEPS], tf.float64)
        self.other = cells.GRUCell(DEPTH, name="other")
        self.state = self.other.zero_state(ROWS, tf.float64)
        self.logits: list[Any] = []

    def added(self, number: int, output: Any, state: Any) -> Any:
        return self.steps[number] + output[:, :DEPTH]

    def projected(self, number: int, output: Any, state: Any) -> Any:
        both = tf.concat([self.steps[number], tf.tanh(tf.matmul(output, self.back)) * 0.5], 1)
        return both[:, 1 : 1 + DEPTH]

    def symbol(self, number: int, output: Any, state: Any) -> Any:
        self.logits.append(tf.matmul(output, self.weights))
        return tf.nn.embedding_lookup(self.table, tf.argmax(self.logits[-1], 1))

    def symbol_held(self, number: int, output: Any, state: Any) -> Any:
        return tf.stop_gradient(self.symbol(number, output, state))

    def symbol_tied(self, number: int, output: Any, state: Any) -> Any:
        logits = tf.matmul(tf.matmul(output, self.back), self.table, transpose_b=True)
        return tf.nn.embedding_lookup(self.table, tf.argmax(logits, 1))

    def sampled(self, number: int, output: Any, state: Any) -> Any:
        coin = tf.reduce_sum(self.steps[number], 1) > 0
        return tf.where(coin, self.steps[number], tf.matmul(output, self.back))

    def attended(self, number: int, output: Any, state: Any) -> Any:
        scores = tf.reduce_sum(self.memory * tf.expand_dims(tf.matmul(output, self.back), 1), 2)
        return tf.reduce_sum(tf.expand_dims(tf.nn.softmax(scores), 2) * self.memory, 1)

    def covered(self, number: int, output: Any, state: Any) -> Any:
        """It carries something that is no state of a cell."""
        scores = tf.reduce_sum(self.memory * tf.expand_dims(tf.matmul(output, self.back), 1), 2)
        weights = tf.nn.softmax(scores - self.coverage)
        self.coverage = self.coverage + weights
        return tf.reduce_sum(tf.expand_dims(weights, 2) * self.memory, 1)

    def other_cell(self, number: int, output: Any, state: Any) -> Any:
        with tf.variable_scope("below", reuse=tf.AUTO_REUSE):
            below, self.state = self.other(tf.matmul(output, self.back), self.state)
        return below + self.steps[number]


def reading_back(piece: Callable[..., Any], cell: Any, first: Any, steps: int = STEPS) -> tuple[list[Any], Any]:
    """The outputs and the last state of a cell whose inputs, but for the first, come from a piece."""
    state, outputs = cell.zero_state(ROWS, tf.float64), []
    for number in range(steps):
        output, state = cell(piece(number, outputs[-1], state) if number else first, state)
        outputs.append(output)
    return outputs, state


def programs(kind: str, cell: Callable[[], Any] = lambda: cells.BasicLSTMCell(UNITS)) -> Callable[[], Model]:
    """A program that trains with a piece between the calls of a cell."""

    def build() -> Model:
        x, feeds = sequence()
        made = Pieces(x)
        outputs, state = reading_back(getattr(made, kind), cell(), made.steps[0])
        loss = squares([tf.stack(outputs), *unspool.structure.flatten(state), *made.logits[:3]])
        return trained(loss, feeds, tf.gradients(loss, x), outputs[2], made.logits)

    return build


PIECES = ["added", "projected", "symbol", "symbol_held", "symbol_tied", "sampled", "attended", "covered", "other_cell"]


@pytest.mark.parametrize("kind", PIECES)
def test_what_stands_between_calls_is_a_part_of_the_loop(kind: str):
    check_same(programs(kind), 1)


CELLS: dict[str, Callable[[], Any]] = {
    "gru": lambda: cells.GRUCell(UNITS),
    "stack": lambda: cells.MultiRNNCell([cells.GRUCell(UNITS), cells.BasicLSTMCell(UNITS)]),
    "own": lambda: cells.MultiRNNCell([Leaky()]),
}


class Leaky(cells.RNNCell):
    """A cell of one's own."""

    state_size = output_size = property(lambda self: UNITS)  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def call(self, inputs: Any, state: Any) -> Any:
        kernel = tf.get_variable("kernel", [DEPTH + UNITS, UNITS], tf.float64)
        state = 0.5 * state + tf.tanh(tf.matmul(tf.concat([inputs, state], 1), kernel))
        return state, state


@pytest.mark.parametrize("kind", CELLS)
def test_any_cell_may_be_called_so(kind: str):
    check_same(programs("symbol", CELLS[kind]), 1)


def test_a_state_may_change_between_calls():
    def build() -> Model:
        x, feeds = sequence()
        steps, cell = tf.unstack(x, axis=1), cells.GRUCell(UNITS)
        state, states = cell.zero_state(ROWS, tf.float64), []
        for step in steps:
            rests = tf.reduce_sum(step, 1) > 0
            state = tf.where(rests, state, cell(step, state)[1])
            states.append(state)
        return trained(squares(states), feeds, states[1])

    check_same(build, 1)


def test_a_first_call_that_reads_what_no_other_does_stays_a_call():
    def build() -> Model:
        x, feeds = sequence()
        made, cell = Pieces(x), cells.GRUCell(UNITS)
        outputs, _ = reading_back(made.symbol, cell, tf.tanh(made.steps[0] * 2))
        return trained(squares(outputs), feeds)

    check_same(build, 1)


def test_a_period_ends_where_a_piece_is_another():
    def build() -> Model:
        x, feeds = sequence()
        made = Pieces(x)

        def piece(number: int, output: Any, state: Any) -> Any:
            return (made.added if number < 3 else made.sampled)(number, output, state)

        outputs, _ = reading_back(piece, cells.GRUCell(UNITS), made.steps[0])
        return trained(squares(outputs), feeds)

    check_same(build, 2)


def earlier(made: Pieces) -> Callable[..., Any]:
    outputs: list[Any] = []

    def piece(number: int, output: Any, state: Any) -> Any:
        outputs.append(output)
        return made.steps[number] + outputs[max(number - 2, 0)][:, :DEPTH]

    return piece


def numbered(made: Pieces) -> Callable[..., Any]:
    return lambda number, output, state: made.steps[number] + output[:, :DEPTH] * (number + 1.0)


def drawn(made: Pieces) -> Callable[..., Any]:
    def piece(number: int, output: Any, state: Any) -> Any:
        return tf.nn.embedding_lookup(made.table, tf.multinomial(output, 1, seed=number)[:, 0])

    return piece


def summed(made: Pieces) -> Callable[..., Any]:
    return lambda number, output, state: made.steps[number] + tf.reduce_mean(output)


@pytest.mark.parametrize(
    ("loops", "planned", "piece"),
    [(2, True, earlier), (0, True, numbered), (0, True, drawn), (1, False, summed)],
    ids=["two_steps_back", "numbers_of_steps", "draws", "across_rows"],
)
def test_what_a_loop_cannot_compute_is_computed_as_it_was(loops: int, planned: bool, piece: Callable[..., Any]):
    def build() -> Model:
        x, feeds = sequence()
        made = Pieces(x)
        outputs, _ = reading_back(piece(made), cells.GRUCell(UNITS), made.steps[0])
        return trained(squares(outputs), feeds)

    check_same(build, loops, turns=1, planned=planned)


@pytest.mark.parametrize(
    ("where", "fed", "loops"), [("logits", True, 2), ("logits", False, 2), ("output", True, 1), ("output", False, 1)]
)
def test_what_is_fed_or_differentiated_by_in_the_middle_ends_a_loop(where: str, fed: bool, loops: int):
    def build() -> Model:
        x, feeds = sequence()
        made = Pieces(x)
        outputs, _ = reading_back(made.symbol, cells.GRUCell(UNITS), made.steps[0])
        found = made.logits[1] if where == "logits" else outputs[1]
        if fed:
            return Model((outputs, made.logits), {**feeds, found: numbers(ROWS, found.shape[1].value, seed=5)})
        return Model(tf.gradients(squares([*outputs, *made.logits]), found), feeds)

    check_same(build, loops)


def test_pieces_wait_for_what_they_must_wait_for():
    def build(flag: Any) -> Any:
        x, feeds = sequence()
        made = Pieces(x)

        def piece(number: int, output: Any, state: Any) -> Any:
            with tf.control_dependencies([tf.Assert(flag, [1])]):
                return made.added(number, output, state)

        outputs, _ = reading_back(piece, cells.GRUCell(UNITS), made.steps[0])
        return outputs[-1], feeds

    flag = tf.placeholder(tf.bool, [])
    last, feeds = build(flag)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(last, {**feeds, flag: True})
        assert loops_of(session) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
            session.run(last, {**feeds, flag: False})


def test_what_only_one_step_shows_is_computed_once_more():
    """A piece's output of the first step alone, and one without rows."""

    def build() -> Model:
        x, feeds = sequence()
        made = Pieces(x)
        sums: list[Any] = []

        def piece(number: int, output: Any, state: Any) -> Any:
            sums.append(tf.reduce_sum(output, 1, keepdims=True))
            return made.steps[number] * sums[-1]

        outputs, _ = reading_back(piece, cells.GRUCell(UNITS), made.steps[0])
        return trained(squares([outputs[-1], sums[0], tf.reduce_mean(sums[2])]), feeds, sums)

    check_same(build, 1)


def test_rows_of_other_batches_and_sessions():
    x = tf.placeholder(tf.float64, [None, STEPS, DEPTH])
    made, cell = Pieces(x), cells.GRUCell(UNITS)
    state, output, outputs = tf.zeros([tf.shape(x)[0], UNITS], tf.float64), None, []
    for number in range(STEPS):
        given = made.steps[number] if output is None else made.attended(number, output, state)
        output, state = cell(given, state)
        outputs.append(output)
    data = numbers(3, STEPS, DEPTH)
    found: list[Any] = []
    for _ in range(2):
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for number, variable in enumerate(tf.trainable_variables()):
                variable.load(numbers(*variable.shape.as_list(), seed=number), session)
            found += [session.run(outputs, {x: data}), session.run(outputs, {x: data[:2]})]
            assert loops_of(session) == 1
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_allclose(np.asarray(found[0])[:, :2], found[1], rtol=1e-12)


def test_a_guard_does_not_look_into_the_graph():
    """A loop that holds a memory is guarded in every run."""
    x, feeds = sequence()
    made = Pieces(x)
    outputs, _ = reading_back(made.attended, cells.GRUCell(UNITS), made.steps[0])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(outputs, feeds)
        (composite,) = [each for each in session.state._kept.values() if isinstance(each, Composite)]
        assert composite.row_buffers
        before = len(Fingerprint(composite).nodes)
        tf.tanh(outputs[-1])
        assert len(Fingerprint(composite).nodes) == before
        assert all(not isinstance(each.value, tf.Graph | tf.Tensor) for each in Fingerprint(composite).nodes)


def test_a_symbol_that_is_not_in_the_table_is_an_error():
    x, feeds = sequence()
    made = Pieces(x)
    more = tf.get_variable("more", [UNITS, WORDS + 9], tf.float64, tf.ones_initializer())

    def piece(number: int, output: Any, state: Any) -> Any:
        return tf.nn.embedding_lookup(made.table, tf.argmax(tf.matmul(output, more), 1) + WORDS)

    outputs, _ = reading_back(piece, cells.GRUCell(UNITS), made.steps[0])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"indices = \d+ is not in \[0, {WORDS}\)"):
            session.run(outputs, feeds)


def test_a_variable_of_a_piece_that_is_not_initialised_is_named():
    x, feeds = sequence()
    made, cell = Pieces(x), cells.GRUCell(UNITS)
    outputs, _ = reading_back(made.symbol, cell, made.steps[0])
    with tf.Session() as session:
        session.run([each.initializer for each in tf.global_variables() if each is not made.weights])
        with pytest.raises(tf.errors.FailedPreconditionError, match="weights"):
            session.run(outputs, feeds)


def test_dropout_draws_anew_at_every_step():
    keep = tf.placeholder_with_default(tf.constant(0.5, tf.float64), [])
    cell = cells.DropoutWrapper(cells.BasicRNNCell(50), output_keep_prob=keep)
    x = tf.ones([ROWS, STEPS, DEPTH], tf.float64)
    made = Pieces(x)
    outputs, _ = reading_back(made.added, cell, made.steps[0])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        zeros = [np.asarray(session.run(outputs)) == 0 for _ in range(2)]
        kept = session.run(outputs, {keep: 1.0})
        assert loops_of(session) == 2
    assert 0.35 < np.mean(zeros) < 0.65
    assert (zeros[0] != zeros[1]).any()
    assert (zeros[0][1] != zeros[0][2]).any()
    assert (np.asarray(kept) != 0).all()
