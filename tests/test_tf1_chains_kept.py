"""Chains of calls that somebody looks into: they end there, or stay the calls that they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tf1_unrolled import (
    NEVER,
    ROWS,
    UNITS,
    Model,
    check_same,
    loops_of,
    numbers,
    sequence,
    squares,
    unrolled,
)
from unspool import tf1 as tf
from unspool.tf1.rerolling import chains

cells = tf.nn.rnn_cell

# -- what is not -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [lambda o, _: o[2], lambda _, s: s[2]], ids=["output", "state"])
def test_gradients_by_what_is_in_the_middle_are_those_of_the_calls(by: Callable[..., Any]):
    """A chain ends where a gradient is taken by a state: it comes from all later steps."""

    def build() -> Model:
        x, feeds = sequence()
        outputs, states = unrolled(cells.GRUCell(UNITS), tf.unstack(x, axis=1))
        return Model(tf.gradients(squares(outputs), by(outputs, states)), feeds)

    check_same(build, 2)


def test_gradients_by_a_slice_of_the_inputs():
    def build() -> Model:
        x, feeds = sequence()
        steps = tf.unstack(x, axis=1)
        outputs, _ = unrolled(cells.GRUCell(UNITS), steps)
        return Model(tf.gradients(squares(outputs), [x, steps[1]]), feeds)

    check_same(build, 1)


def test_gradients_of_gradients():
    def build() -> Model:
        x, feeds = sequence()
        outputs, _ = unrolled(cells.BasicRNNCell(UNITS), tf.unstack(x, axis=1))
        slope = tf.gradients(squares(outputs), x)[0]
        return Model(tf.gradients(tf.reduce_sum(slope * slope), x), feeds)

    check_same(build, 0)


def test_two_gradients_of_one_chain():
    def build() -> Model:
        x, feeds = sequence()
        outputs, _ = unrolled(cells.GRUCell(UNITS), tf.unstack(x, axis=1))
        return Model([tf.gradients(squares(each), tf.trainable_variables()) for each in (outputs, outputs[:2])], feeds)

    check_same(build, 1)


@pytest.mark.parametrize(
    ("loops", "fed"),
    [(2, lambda o, s, x: s[2].h), (2, lambda o, s, x: o[2]), (1, lambda o, s, x: x[2])],
    ids=["state", "output", "input"],
)
def test_what_is_fed_in_the_middle_is_used(loops: int, fed: Callable[..., Any]):
    def build() -> Model:
        x, feeds = sequence()
        steps = tf.unstack(x, axis=1)
        outputs, states = unrolled(cells.BasicLSTMCell(UNITS), steps)
        given = fed(outputs, states, steps)
        return Model((outputs, states), {**feeds, given: numbers(ROWS, given.shape[1].value, seed=5)})

    check_same(build, loops)


def test_a_fed_part_of_a_state_is_not_computed_over():
    x, feeds = sequence(2)
    outputs, states = unrolled(cells.BasicLSTMCell(UNITS), tf.unstack(x, axis=1))
    given = numbers(ROWS, UNITS, seed=5)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        fetched = session.run([outputs[0], states[0].h], {**feeds, states[0].h: given})
    np.testing.assert_array_equal(fetched[1], given)
    assert not np.allclose(fetched[0], given)


def test_calls_wait_for_what_they_must_wait_for():
    """A call that waits for another's output stays behind it, and the variable is changed after all."""

    def build() -> Model:
        x, feeds = sequence()
        cell, steps = cells.BasicRNNCell(UNITS), tf.unstack(x, axis=1)
        outputs, states = unrolled(cell, steps[:3])
        with tf.control_dependencies([outputs[0]]):
            more, _ = unrolled(cell, steps[3:], states[-1])
        change = cell.variables[0].assign_add(tf.ones_like(cell.variables[0]))
        with tf.control_dependencies([change]):
            after, _ = unrolled(cell, steps)
        return Model((outputs, more, after), feeds)

    check_same(build, 2)


@pytest.mark.parametrize("waits", ["calls", "inputs", "outputs"])
def test_what_joined_calls_and_what_is_around_them_wait_for_is_run(waits: str):
    x, feeds = sequence()
    flag = tf.placeholder(tf.bool, [])
    first = [tf.Assert(flag, [1])]
    with tf.control_dependencies(first if waits == "inputs" else []):
        inputs = tf.unstack(x, axis=1)
    with tf.control_dependencies(first if waits == "calls" else []):
        outputs, _ = unrolled(cells.BasicRNNCell(UNITS), inputs)
    with tf.control_dependencies(first if waits == "outputs" else []):
        stacked = tf.stack(outputs)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(stacked, {**feeds, flag: True})
        assert loops_of(session) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
            session.run(stacked, {**feeds, flag: False})


def test_a_variable_that_is_not_initialised_is_named():
    x, feeds = sequence()
    outputs, _ = unrolled(cells.BasicRNNCell(UNITS), tf.unstack(x, axis=1))
    with tf.Session() as session, pytest.raises(tf.errors.FailedPreconditionError, match="basic_rnn_cell/kernel"):
        session.run(outputs, feeds)


def test_names_are_those_of_the_calls():
    def named(fewest: int) -> list[str]:
        with pytest.MonkeyPatch.context() as patch, tf.Graph().as_default() as graph:
            patch.setattr(chains, "FEWEST", fewest)
            x, feeds = sequence()
            outputs, _ = unrolled(cells.BasicRNNCell(UNITS), tf.unstack(x, axis=1))
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                session.run([outputs[-1], outputs[-1].op], feeds)
                session.run(outputs[2].name, feeds)
            return [each.name for each in graph.get_operations()]

    assert named(2) == named(NEVER)
