"""Loops, branches and arrays: what runs, what is captured, what changes; values are compared in `test_tf1_ops.py`."""

from __future__ import annotations

import numpy as np
import pytest

from unspool import tf1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def count():
    return tf.Variable(0.0, name="count")


def run(*fetches, feed=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run(each, feed) for each in fetches]


# -- branches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("truth", [True, False])
def test_only_one_branch_changes_variables(count: tf.Variable, truth: bool):
    pred = tf.placeholder(tf.bool, [])
    chosen = tf.cond(pred, lambda: count.assign_add(1.0), lambda: count.assign_sub(5.0))
    assert run(chosen, count, feed={pred: truth})[1] == (1.0 if truth else -5.0)


def test_a_branch_may_be_an_operation(count: tf.Variable):
    pred = tf.placeholder(tf.bool, [])
    chosen = tf.cond(pred, lambda: tf.group(count.assign_add(1.0)), tf.no_op)
    assert run(chosen, count, feed={pred: True})[1] == 1.0
    assert run(chosen, count, feed={pred: False})[1] == 0.0


def test_what_a_branch_reads_from_around_is_computed_before_it(count: tf.Variable):
    outside = count.assign_add(1.0)
    chosen = tf.cond(tf.constant(False), lambda: outside, lambda: tf.constant(7.0))
    made, after = run(chosen, count)
    assert made == 7.0
    assert after == 1.0  # as in TensorFlow: only what is made inside a branch waits for the choice


def test_what_a_branch_waits_for_runs_with_the_branch_alone(count: tf.Variable):
    def updated():
        with tf.control_dependencies([count.assign_add(1.0)]):
            return tf.constant(1.0)

    pred = tf.placeholder(tf.bool, [])
    chosen = tf.cond(pred, updated, lambda: tf.constant(2.0))
    assert run(chosen, count, feed={pred: True}) == [1.0, 1.0]
    assert run(chosen, count, feed={pred: False}) == [2.0, 0.0]


def test_a_branch_that_is_not_taken_may_be_impossible():
    x = tf.placeholder(tf.int32, [None])
    safe = tf.cond(tf.size(x) > 0, lambda: tf.gather(x, 0), lambda: -1)
    assert run(safe, feed={x: np.zeros(0)}) == [-1]
    assert run(safe, feed={x: [4]}) == [4]


def test_the_gradient_of_a_branch_is_that_of_the_one_taken():
    x, pred = tf.placeholder(tf.float32, []), tf.placeholder(tf.bool, [])
    weight = tf.get_variable("w", initializer=2.0)
    y = tf.cond(pred, lambda: weight * x * x, lambda: 3.0 * x)
    slopes = tf.gradients(y, [x, weight])
    assert run(slopes, feed={x: 5.0, pred: True}) == [[20.0, 25.0]]
    assert run(slopes, feed={x: 5.0, pred: False}) == [[3.0, 0.0]]


def test_variables_made_in_a_branch_belong_to_the_graph():
    made = tf.cond(tf.constant(True), lambda: tf.get_variable("v", initializer=3.0) * 2, lambda: 0.0)
    assert [each.name for each in tf.global_variables()] == ["v:0"]
    assert run(made) == [6.0]


def test_case_takes_the_first_truth_that_holds():
    x = tf.placeholder(tf.int32, [])
    ones = {tf.less(x, 1): lambda: tf.constant("a" == "b"), tf.less(x, 5): lambda: tf.constant(True)}
    pairs = list(ones.items())
    assert run(tf.case(pairs, default=lambda: tf.constant(False)), feed={x: 3}) == [True]


# -- loops -----------------------------------------------------------------------------------------------------------


def test_a_loop_may_change_variables(count: tf.Variable):
    def body(k):
        with tf.control_dependencies([count.assign_add(2.0)]):
            return k + 1

    assert run(tf.while_loop(lambda k: k < 3, body, [0]), count) == [3, 6.0]


def test_a_loop_reads_the_variables_of_the_run(count: tf.Variable):
    limit = tf.get_variable("limit", initializer=4)
    assert run(tf.while_loop(lambda k: k < limit, lambda k: k + 1, [0])) == [4]


def test_a_loop_keeps_the_structure_of_its_variables():
    made = tf.while_loop(lambda k, s: k < 2, lambda k, s: (k + 1, {"a": s["a"] * 2}), (0, {"a": tf.ones([2])}))
    assert isinstance(made, tuple)
    (values,) = run(made)
    np.testing.assert_array_equal(values[1]["a"], [4, 4])


def test_invariants_leave_open_what_changes():
    x = tf.ones([1, 3])
    shapes = [tf.TensorShape([]), tf.TensorShape([None, 3])]
    made = tf.while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, tf.concat([y, y], 0)), [0, x], shapes)[1]
    assert made.shape.as_list() == [None, 3]
    assert run(tf.shape(made))[0].tolist() == [8, 3]


def test_gradients_go_through_a_loop_to_what_it_captures():
    weight = tf.get_variable("w", initializer=0.5)
    x = tf.placeholder(tf.float32, [])
    y = tf.while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, y * weight), [0, x])[1]
    slopes = tf.gradients(y, [x, weight])
    assert run(slopes, feed={x: 2.0}) == [[0.125, 1.5]]


def test_gradients_may_be_taken_inside_a_loop():
    def descend(k, x):
        (slope,) = tf.gradients(tf.square(x - 3.0), x)
        return k + 1, x - 0.5 * slope

    assert run(tf.while_loop(lambda k, x: k < 2, descend, [0, tf.constant(0.0)])[1]) == [3.0]


def test_random_numbers_differ_from_turn_to_turn():
    tf.set_random_seed(1)
    array = tf.TensorArray(tf.float32, 3)
    last = tf.while_loop(lambda k, _: k < 3, lambda k, a: (k + 1, a.write(k, tf.random_uniform([]))), [0, array])[1]
    assert len(set(run(last.stack())[0].tolist())) == 3


def test_a_long_loop_does_not_recurse():
    total = tf.while_loop(lambda k, s: k < 3000, lambda k, s: (k + 1, s + 1.0), [0, tf.constant(0.0)])[1]
    assert run(total) == [3000.0]


def test_a_tensor_from_inside_a_loop_cannot_be_used_outside():
    kept = []

    def body(k):
        kept.append(k * 2)
        return k + 1

    tf.while_loop(lambda k: k < 3, body, [0])
    with pytest.raises(ValueError, match="graph"):
        kept[0] + 1


# -- slices ----------------------------------------------------------------------------------------------------------


def test_map_fn_knows_its_shape():
    x = tf.placeholder(tf.float32, [None, 4])
    assert tf.map_fn(lambda e: e[:2], x).shape.as_list() == [None, 2]
    assert tf.map_fn(lambda e: e[0], tf.zeros([3, 2])).shape.as_list() == [3]


def test_variables_made_in_a_scan_are_trained():
    x = tf.placeholder(tf.float32, [3, 2])

    def step(state, e):
        return tf.tanh(tf.matmul(state, tf.get_variable("w", [2, 2])) + e)

    states = tf.scan(step, x, tf.zeros([1, 2]))
    (slope,) = tf.gradients(states, tf.trainable_variables())
    (made,) = run(slope, feed={x: np.ones([3, 2])})
    assert made.shape == (2, 2)
    assert np.abs(made).max() > 0


# -- arrays ----------------------------------------------------------------------------------------------------------


def test_an_array_is_a_value():
    array = tf.TensorArray(tf.float32, 2)
    one, other = array.write(0, 1.0).write(1, 2.0), array.write(0, 5.0).write(1, 6.0)
    assert [each.tolist() for each in run(one.stack(), other.stack())] == [[1, 2], [5, 6]]


def test_an_array_that_may_not_grow_says_so():
    with pytest.raises(tf.errors.InvalidArgumentError, match="dynamic_size"):
        run(tf.TensorArray(tf.float32, 1).write(1, 1.0).stack())


def test_gradients_go_through_arrays():
    x = tf.placeholder(tf.float32, [3])
    array = tf.TensorArray(tf.float32, 3).unstack(x)
    y = tf.TensorArray(tf.float32, 2).write(0, array.read(2) * 2).write(1, array.read(0) * array.read(0)).stack()
    (slope,) = run(tf.gradients(y, x)[0], feed={x: [3.0, 4.0, 5.0]})
    assert slope.tolist() == [6.0, 0.0, 2.0]


def test_tuple_and_dependencies_wait_for_all(count: tf.Variable):
    first, second = tf.tuple([count.assign_add(1.0), tf.constant(2.0)])
    assert run(second, count) == [2.0, 1.0]
    assert first.dtype == tf.float32


def test_an_assertion_shows_what_it_was_given() -> None:
    fine = tf.placeholder(tf.bool)
    data = [tf.constant([1.0, 2.5, 3.0, 4.0, 5.0]), "no", tf.constant([True]), tf.constant(["a", "b"])]
    checks = [tf.Assert(fine, data), tf.Assert(fine, data[:2], summarize=1)]
    with tf.Session() as session:
        session.run(checks, {fine: True})
        for check, words in zip(checks, [r"\[1 2.5 3...\] \[no\] \[1\] \[a b\]", r"\[1...\] \[no\]"], strict=True):
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"assertion failed: {words}"):
                session.run(check, {fine: False})
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be a scalar, but has shape \[2\]"):
            session.run(checks, {fine: [True, True]})
    with pytest.raises(ValueError, match="Shape must be rank 0 but is rank 1"):
        tf.Assert([True, True], [1])
    with pytest.raises(TypeError, match="must be bool, but is float32"):
        tf.Assert(1.0, [1])
