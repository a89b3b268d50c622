"""Cells that a program calls step by step: joined to loops, they compute what the calls compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unspool
from tests.profiles import cases
from unspool import tf1 as tf
from unspool.engine.plans import cache
from unspool.tf1.rnn import chains
from unspool.tf1.rnn.joining import Loop

cells = tf.nn.rnn_cell
ROWS, STEPS, DEPTH, UNITS = 2, 5, 3, 4
NEVER = 10**9
CLOSE = dict(rtol=1e-9, atol=1e-11)
"""In float64 a loop differs from its calls by the order of sums alone."""


class Model(NamedTuple):
    """What a program fetches, all of it float64, and what it feeds."""

    fetches: Any
    feeds: dict[Any, Any] = {}
    train: Any = ()


class Ran(NamedTuple):
    """Two runs, a training step between them, then the variables; and how many loops took the places of calls."""

    values: list[Any]
    loops: int


def ran(build: Callable[[], Model], fewest: int, turns: int = 2) -> Ran:
    with pytest.MonkeyPatch.context() as patch, tf.Graph().as_default():
        patch.setattr(chains, "FEWEST", fewest)
        model = build()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for number, variable in enumerate(tf.trainable_variables()):
                variable.load(numbers(*variable.shape.as_list(), seed=number), session)
            values = [session.run((model.fetches, model.train), model.feeds)[0] for _ in range(turns)]
            values.append(session.run(tf.global_variables()))
            return Ran(unspool.structure.flatten(values), loops_of(session))


def loops_of(session: Any) -> int:
    programs = session._programs.values()
    return sum(isinstance(step.operation.function, Loop) for each in programs for step in each._steps)


def check_same(build: Callable[[], Model], loops: int, turns: int = 2) -> None:
    joined, called = ran(build, 2, turns), ran(build, NEVER, turns)
    assert called.loops == 0
    assert joined.loops == loops
    for one, other in zip(joined.values, called.values, strict=True):
        np.testing.assert_allclose(one, other, **CLOSE)


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def sequence(steps: int = STEPS) -> tuple[Any, dict[Any, Any]]:
    x = tf.placeholder(tf.float64, [None, steps, DEPTH])
    return x, {x: numbers(ROWS, steps, DEPTH, seed=99)}


def unrolled(cell: Any, inputs: Sequence[Any], state: Any = None) -> tuple[list[Any], list[Any]]:
    """The outputs and states of all steps."""
    state = cell.zero_state(ROWS, tf.float64) if state is None else state
    outputs, states = [], []
    for x in inputs:
        output, state = cell(x, state)
        outputs.append(output)
        states.append(state)
    return outputs, states


def trained(loss: Any, feeds: dict[Any, Any], *more: Any) -> Model:
    """The loss, its gradients by all variables, and a step of an optimiser."""
    weights = tf.trainable_variables()
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    return Model((loss, tf.gradients(loss, weights), more), feeds, train)


def squares(tensors: Sequence[Any]) -> Any:
    return tf.add_n([tf.reduce_sum(each * each) for each in tensors])


# -- what is joined --------------------------------------------------------------------------------------------------

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


# -- what is not -----------------------------------------------------------------------------------------------------


def read_back(outputs: list[Any], x: Any) -> Any:
    return x + outputs[-1][:, :DEPTH] if outputs else x


def test_calls_that_read_what_they_put_out_stay():
    def build() -> Model:
        x, feeds = sequence()
        cell = cells.BasicRNNCell(UNITS)
        state, outputs = cell.zero_state(ROWS, tf.float64), []
        for step in tf.unstack(x, axis=1):
            output, state = cell(read_back(outputs, step), state)
            outputs.append(output)
        return trained(squares(outputs), feeds)

    check_same(build, 0)


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

    check_same(build, 1)
    assert [each for each in recwarn if issubclass(each.category, unspool.PerformanceWarning)] == []


# -- chains that are drawn -------------------------------------------------------------------------------------------


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
