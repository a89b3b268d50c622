"""Cells that a program calls step by step: joined to loops, they compute what the calls compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import unspool
from tests.tf1_unrolled import (
    DEPTH,
    ROWS,
    STEPS,
    UNITS,
    Model,
    check_same,
    loops_of,
    ran,
    sequence,
    squares,
    trained,
    unrolled,
)
from unspool import tf1 as tf
from unspool.engine.plans import cache
from unspool.tf1.rerolling import chains

cells = tf.nn.rnn_cell

CELLS: dict[str, Callable[[], Any]] = {
    "basic": lambda: cells.BasicRNNCell(UNITS),
    "gru": lambda: cells.GRUCell(UNITS),
    "lstm": lambda: cells.LSTMCell(UNITS, use_peepholes=True, num_proj=3),
    "stack": lambda: cells.MultiRNNCell([cells.GRUCell(UNITS), cells.ResidualWrapper(cells.BasicLSTMCell(UNITS))]),
}


@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_called_in_a_loop_is_one_loop_with_the_same_gradients(kind: str):
    def build() -> Model:
        x, feeds = sequence()
        outputs, states = unrolled(CELLS[kind](), tf.unstack(x, axis=1))
        loss = squares([tf.stack(outputs), *unspool.structure.flatten(states[-1])])
        return trained(loss, feeds, tf.gradients(loss, x), outputs[2])

    check_same(build, 1)


def known(x: Any) -> Any:
    return tf.reshape(x, [ROWS, STEPS, DEPTH])


INPUTS: dict[str, Callable[[Any], Sequence[Any]]] = {
    "unstack": lambda x: tf.unstack(x, axis=1),
    "unstack_negative": lambda x: tf.unstack(x, axis=-2),
    "part": lambda x: tf.unstack(x, axis=1)[1:4],
    "reversed": lambda x: tf.unstack(x, axis=1)[::-1],
    "split": lambda x: [tf.squeeze(each, [1]) for each in tf.split(x, STEPS, 1)],
    "split_any": lambda x: [tf.squeeze(each, axis=-2) for each in tf.split(x, STEPS, axis=-2)][1:],
    "squeezed_all": lambda x: [tf.squeeze(each) for each in tf.unstack(tf.expand_dims(known(x), 2), axis=1)],
    "split_all": lambda x: [tf.squeeze(each) for each in tf.split(known(x), STEPS, 1)],
    "squeezed_other": lambda x: [tf.squeeze(each, [0]) for each in tf.split(tf.transpose(x, [1, 0, 2]), STEPS, 0)],
    "slices": lambda x: [x[:, k] for k in range(STEPS)],
    "same": lambda x: [x[:, 0]] * 3,
    "computed": lambda x: [tf.tanh(each) for each in tf.unstack(x, axis=1)],
}


@pytest.mark.parametrize("kind", INPUTS)
def test_inputs_may_come_from_anywhere(kind: str):
    def build() -> Model:
        x, feeds = sequence()
        outputs, _ = unrolled(cells.BasicRNNCell(UNITS), INPUTS[kind](x))
        return trained(squares(outputs), feeds, tf.gradients(squares(outputs), x))

    check_same(build, 1)


OUTPUTS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "stack": tf.stack,
    "stack_1": lambda each: tf.stack(each, 1),
    "stack_negative": lambda each: tf.stack(each, axis=-1),
    "concat_0": lambda each: tf.concat(each, 0),
    "concat_1": lambda each: tf.reshape(tf.concat(each, 1), [-1, UNITS]),
    "concat_negative": lambda each: tf.concat(each, -2),
    "last": lambda each: each[-1],
    "some": lambda each: tf.concat([each[1], each[3]], 0),
    "turned": lambda each: tf.stack(each[::-1]),
    "one_by_one": lambda each: tf.add_n([k * one for k, one in enumerate(each)]),
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_outputs_may_go_anywhere(kind: str):
    def build() -> Model:
        x, feeds = sequence()
        outputs, _ = unrolled(cells.BasicRNNCell(UNITS), tf.unstack(x, axis=1))
        made = OUTPUTS[kind](outputs)
        return trained(tf.reduce_sum(made * made), feeds, made)

    check_same(build, 1)


@pytest.mark.parametrize("which", [slice(1, 2), slice(0, 4), slice(None)], ids=["one", "some", "all"])
def test_states_in_the_middle_are_there_with_their_gradients(which: slice):
    def build() -> Model:
        x, feeds = sequence()
        _, states = unrolled(cells.BasicLSTMCell(UNITS), tf.unstack(x, axis=1))
        return trained(squares([tf.stack([each.c for each in states[which]]), states[3].h]), feeds, states[2])

    check_same(build, 1)


def test_layers_that_are_called_by_hand_are_a_loop_each():
    def build() -> Model:
        x, feeds = sequence()
        first, second = cells.GRUCell(UNITS), cells.GRUCell(UNITS)
        states = [first.zero_state(ROWS, tf.float64), second.zero_state(ROWS, tf.float64)]
        for step in tf.unstack(x, axis=1):
            with tf.variable_scope("first", reuse=tf.AUTO_REUSE):
                below, states[0] = first(step, states[0])
            with tf.variable_scope("second", reuse=tf.AUTO_REUSE):
                _, states[1] = second(below, states[1])
        return trained(squares(states), feeds)

    check_same(build, 2)


def test_chains_that_would_wait_for_each_other_are_not_both_joined():
    """Each is free of itself: but one's second call reads the other's first."""

    def build() -> Model:
        x, feeds = sequence(2)
        a, b = cells.BasicRNNCell(DEPTH, name="a"), cells.BasicRNNCell(DEPTH, name="b")
        one, other = tf.unstack(x, axis=1)
        start = a.zero_state(ROWS, tf.float64)
        a1, b1 = a(one, start)[0], b(other, start)[0]
        a2, b2 = a(b1, a1)[0], b(a1, b1)[0]
        return trained(squares([a2, b2]), feeds)

    # The output of a BasicRNNCell is its state, but as a tensor it is another: so these calls are no chain.
    check_same(build, 0)

    def crossed() -> Model:
        x, feeds = sequence(2)
        a, b = cells.BasicRNNCell(DEPTH, name="a"), cells.BasicRNNCell(DEPTH, name="b")
        one, other = tf.unstack(x, axis=1)
        start = a.zero_state(ROWS, tf.float64)
        (a1, a_state), (b1, b_state) = a(one, start), b(other, start)
        return trained(squares([*a(b1, a_state), *b(a1, b_state)]), feeds)

    check_same(crossed, 1)


def test_a_chain_is_joined_up_to_where_it_reads_its_own_outputs():
    def build() -> Model:
        x, feeds = sequence(6)
        steps = tf.unstack(x, axis=1)
        cell = cells.BasicRNNCell(UNITS)
        outputs, states = unrolled(cell, steps[:3])
        read = tf.layers.dense(outputs[1], DEPTH, name="back")
        more, _ = unrolled(cell, [steps[3] + read, *steps[4:]], states[-1])
        return trained(squares([*outputs, *more]), feeds)

    check_same(build, 2)


def test_what_a_session_fetches_decides_what_is_joined():
    x, feeds = sequence()
    outputs, _ = unrolled(cells.BasicRNNCell(UNITS), tf.unstack(x, axis=1))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(outputs[chains.FEWEST - 2], feeds)
        assert loops_of(session) == 0
        session.run(outputs[chains.FEWEST - 1], feeds)
        assert loops_of(session) == 1


# -- what cells do by themselves -------------------------------------------------------------------------------------


def test_dropout_draws_anew_at_every_step_and_in_every_run():
    keep = tf.placeholder_with_default(0.5, [])
    cell = cells.DropoutWrapper(cells.BasicRNNCell(50), output_keep_prob=keep)
    outputs, _ = unrolled(cell, tf.unstack(tf.ones([ROWS, STEPS, DEPTH], tf.float64), axis=1))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        dropped = [session.run(outputs) for _ in range(2)]
        kept = session.run(outputs, {keep: 1.0})
        assert loops_of(session) == 2
    zeros = [np.asarray(each) == 0 for each in dropped]
    assert 0.35 < np.mean(zeros) < 0.65
    assert (zeros[0] != zeros[1]).any()
    assert (zeros[0][0] != zeros[0][1]).any()
    assert (np.asarray(kept) != 0).all()


@pytest.mark.parametrize(
    "options", [{"seed": 3}, {"variational_recurrent": True, "dtype": tf.float64}], ids=["seed", "cell"]
)
def test_masks_that_a_seed_or_a_cell_remembers_stay_those_of_the_calls(options: dict[str, Any]):
    def build() -> Model:
        torch.manual_seed(0)
        x, feeds = sequence()
        cell = cells.DropoutWrapper(cells.BasicRNNCell(UNITS), state_keep_prob=0.5, **options)
        outputs, _ = unrolled(cell, tf.unstack(x, axis=1))
        return Model(outputs, feeds)

    check_same(build, 0)


class Halved(cells.RNNCell):
    """Looks at a value: there is no plan for it."""

    state_size = output_size = property(lambda self: UNITS)  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def call(self, inputs: Any, state: Any) -> Any:
        half = tf.py_func(lambda value: value / 2, [state], tf.float64)
        half.set_shape([None, UNITS])
        state = half + tf.matmul(inputs, tf.get_variable("kernel", [DEPTH, UNITS], tf.float64))
        return state, state


class Leaky(cells.RNNCell):
    """A cell of one's own."""

    state_size = output_size = property(lambda self: UNITS)  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def call(self, inputs: Any, state: Any) -> Any:
        kernel = tf.get_variable("kernel", [DEPTH + UNITS, UNITS], tf.float64)
        state = 0.5 * state + tf.tanh(tf.matmul(tf.concat([inputs, state], 1), kernel))
        return state, state


def test_a_stack_of_ones_own_cells_is_joined_and_planned_once():
    def build() -> Model:
        x, feeds = sequence()
        outputs, states = unrolled(cells.MultiRNNCell([Leaky()]), tf.unstack(x, axis=1))
        return trained(squares([*outputs, *states[1]]), feeds)

    check_same(build, 1)
    before = cache.traces
    ran(build, 2, turns=3)
    assert cache.traces - before <= 1


def test_a_cell_without_a_plan_is_called_as_it_was(recwarn: pytest.WarningsRecorder):
    def build() -> Model:
        x, feeds = sequence()
        outputs, _ = unrolled(cells.MultiRNNCell([Halved()]), tf.unstack(x, axis=1))
        return trained(squares(outputs), feeds, outputs[1])

    check_same(build, 1, planned=False)
    assert [each for each in recwarn if issubclass(each.category, unspool.PerformanceWarning)] == []
