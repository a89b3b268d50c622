"""Chains of calls that are drawn at random: as loops they compute what the calls compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unspool
from tests.profiles import cases
from tests.tf1_unrolled import (
    CLOSE,
    DEPTH,
    NEVER,
    ROWS,
    numbers,
    sequence,
    squares,
    whole,
)
from unspool import tf1 as tf
from unspool.tf1.rerolling import chains

cells = tf.nn.rnn_cell


class Drawn:
    """A program with two cells that are called in some order, on inputs, on constants and on what they have put out."""

    def __init__(self, draw: Any) -> None:
        x, self.feeds = sequence()
        free = tf.unstack(x, axis=1)
        both = [cells.BasicRNNCell(DEPTH, name="a"), cells.GRUCell(DEPTH, name="b")]
        states = [each.zero_state(ROWS, tf.float64) for each in both]
        self.outputs: list[Any] = []
        self.states: list[Any] = []
        for _ in range(draw(st.integers(3, 9))):
            which = draw(st.integers(0, 1))
            given = draw(st.sampled_from(free))
            if self.outputs and draw(st.integers(0, 3)) == 0:
                given = given + tf.tanh(draw(st.sampled_from(self.outputs)))
            start = draw(st.sampled_from(self.states)) if self.states and draw(st.integers(0, 7)) == 0 else None
            output, states[which] = both[which](given, states[which] if start is None else start)
            self.outputs.append(output)
            self.states.append(states[which])
        everything = st.sampled_from([*self.outputs, *self.states])
        weights = tf.trainable_variables()
        loss = squares(draw(st.lists(everything, min_size=1, max_size=4)))
        by = [*weights, x, *draw(st.lists(everything, max_size=1))]
        self.fetches = [loss, [each for each in tf.gradients(loss, by) if each is not None]]
        self.fetches += draw(st.lists(everything, max_size=3))
        for each in draw(st.lists(everything, max_size=1)):
            self.feeds[each] = numbers(ROWS, DEPTH, seed=5)


class Periodic:
    """A program whose calls read what a piece makes of the last ones: mostly the same piece, sometimes another."""

    def __init__(self, draw: Any) -> None:
        x, self.feeds = sequence()
        steps = tf.unstack(x, axis=1)
        table = tf.get_variable("table", [DEPTH, DEPTH], tf.float64)
        weights = tf.get_variable("weights", [DEPTH, DEPTH], tf.float64)
        memory = tf.tanh(x)
        cell = draw(st.sampled_from([cells.BasicRNNCell, cells.GRUCell, cells.BasicLSTMCell]))(DEPTH)
        pieces: dict[str, Any] = {
            "multiply": lambda a, b, k: tf.matmul(a, weights) * 0.5 + b,
            "join": lambda a, b, k: tf.concat([a, b], 1)[:, 1 : 1 + DEPTH],
            "look_up": lambda a, b, k: a + tf.nn.embedding_lookup(table, tf.argmax(tf.matmul(b, weights), 1)),
            "hold": lambda a, b, k: a - tf.stop_gradient(tf.nn.embedding_lookup(table, tf.argmax(b, 1))),
            "tie": lambda a, b, k: a + tf.matmul(b, table),
            "attend": lambda a, b, k: a + tf.reduce_sum(memory * tf.expand_dims(tf.nn.softmax(b), 1), 1),
            "choose": lambda a, b, k: tf.where(tf.reduce_sum(steps[k], 1) > 0, a, b),
            "step": lambda a, b, k: a + steps[k],
            "carry": lambda a, b, k: self.carried(a, b),
        }
        usual = draw(st.lists(st.sampled_from(sorted(pieces)), min_size=1, max_size=3))
        begins, other = draw(st.booleans()), draw(st.integers(0, 12))
        self._carried: Any = tf.zeros([ROWS, DEPTH], tf.float64)
        self.outputs: list[Any] = []
        self.made: list[Any] = []
        state = cell.zero_state(ROWS, tf.float64)
        before = tf.zeros([ROWS, DEPTH], tf.float64)
        for number in range(len(steps)):
            given = steps[0] if number == 0 and not begins else before
            for name in () if number == 0 and not begins else usual if number != other else ["multiply"]:
                given = pieces[name](given, before, number)
                self.made.append(given)
            before, state = cell(given, state)
            self.outputs.append(before)
        everything = st.sampled_from([*self.outputs, *self.made, *unspool.structure.flatten(state)])
        loss = squares(draw(st.lists(everything, min_size=1, max_size=4)))
        by = [*tf.trainable_variables(), x, *draw(st.lists(everything, max_size=1))]
        self.fetches = [loss, [each for each in tf.gradients(loss, by) if each is not None]]
        self.fetches += draw(st.lists(everything, max_size=3))
        for each in draw(st.lists(everything, max_size=1)):
            self.feeds[each] = numbers(ROWS, DEPTH, seed=5)

    def carried(self, a: Any, b: Any) -> Any:
        self._carried = self._carried * 0.5 + b
        return a + self._carried


@pytest.mark.parametrize("program", [Drawn, Periodic])
@settings(max_examples=cases(25, 500), deadline=None)
@given(st.data())
def test_drawn_calls_as_loops_compute_what_the_calls_compute(program: Any, data: st.DataObject):
    with tf.Graph().as_default():
        drawn = program(data.draw)
        found: list[Any] = []
        for fewest in (2, NEVER):
            with pytest.MonkeyPatch.context() as patch, tf.Session() as session:
                patch.setattr(chains, "FEWEST", fewest)
                session.run(tf.global_variables_initializer())
                for number, variable in enumerate(tf.trainable_variables()):
                    variable.load(numbers(*variable.shape.as_list(), seed=number), session)
                found.append(whole(session.run(drawn.fetches, drawn.feeds)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, **CLOSE)
