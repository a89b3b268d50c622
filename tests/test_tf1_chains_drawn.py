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


@settings(max_examples=cases(25, 500), deadline=None)
@given(st.data())
def test_drawn_chains_compute_what_their_calls_compute(data: st.DataObject):
    with tf.Graph().as_default():
        drawn = Drawn(data.draw)
        found: list[Any] = []
        for fewest in (2, NEVER):
            with pytest.MonkeyPatch.context() as patch, tf.Session() as session:
                patch.setattr(chains, "FEWEST", fewest)
                session.run(tf.global_variables_initializer())
                for number, variable in enumerate(tf.trainable_variables()):
                    variable.load(numbers(*variable.shape.as_list(), seed=number), session)
                found.append(unspool.structure.flatten(session.run(drawn.fetches, drawn.feeds)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, **CLOSE)
