"""Sessions: what is fed and fetched, in which order things run, and what a session keeps."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import torch

from unspool import tf1 as tf

Pair = namedtuple("Pair", ["first", "second"])


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def count():
    return tf.Variable(1.0, name="count")


def started() -> tf.Session:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


# -- fetches ---------------------------------------------------------------------------------------------------------


def test_fetches_come_back_in_their_structure():
    a, b = tf.constant(1), tf.constant([2.0, 3.0])
    with tf.Session() as session:
        made = session.run({"x": [a, (b, a)], "y": Pair(a, {"z": b}), "o": OrderedDict([("k", a)])})
    assert made["x"][0] == 1
    assert isinstance(made["x"][1], tuple)
    assert isinstance(made["y"], Pair)
    np.testing.assert_array_equal(made["y"].second["z"], [2, 3])
    assert list(made["o"]) == ["k"]


def test_an_empty_fetch_is_empty():
    tf.constant(1)
    with tf.Session() as session:
        assert session.run([]) == []
        assert session.run({}) == {}


def test_a_tensor_fetched_twice_is_there_twice_and_computed_once():
    draw = tf.random_uniform([])
    with tf.Session() as session:
        first, second = session.run([draw, draw])
    assert first == second


def test_operations_are_fetched_as_none_and_names_as_what_they_name(count: tf.Variable):
    with started() as session:
        assert session.run([count.initializer, "count:0", count]) == [None, 1.0, 1.0]
        assert session.run("count") is None


def test_scalars_are_numpys_and_have_the_dtype_of_the_tensor():
    with tf.Session() as session:
        made = session.run([tf.constant(1), tf.constant(1.5), tf.constant(True), tf.constant(1, tf.int64)])
    assert [each.dtype for each in made] == [np.int32, np.float32, np.bool_, np.int64]


def test_what_was_fetched_does_not_change_when_the_variable_does(count: tf.Variable):
    vector = tf.Variable([1.0, 2.0])
    with started() as session:
        before = session.run(vector)
        session.run(vector.assign([5.0, 5.0]))
        np.testing.assert_array_equal(before, [1, 2])


# -- feeds -----------------------------------------------------------------------------------------------------------


def test_any_tensor_can_be_fed():
    x = tf.constant(2.0)
    y = x * 3
    z = y + 1
    with tf.Session() as session:
        assert session.run(z) == 7
        assert session.run(z, {y: 10.0}) == 11
        assert session.run(z, {x: 10.0}) == 31
        assert session.run([y, z], {y: 10.0, x: 0.0}) == [10, 11]
        assert session.run(z, {"mul:0": 1.0}) == 2


def test_a_variable_can_be_fed(count: tf.Variable):
    with tf.Session() as session:
        assert session.run(count + 1, {count: 5.0}) == 6


def test_what_waits_for_a_fed_placeholder_runs():
    x = tf.placeholder(tf.float32, [])
    with tf.control_dependencies([x]):
        y = tf.constant(3.0)
    with tf.Session() as session:
        assert session.run(y, {x: 1.0}) == 3.0


def test_a_structure_of_placeholders_is_fed_as_one():
    x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    with tf.Session() as session:
        assert session.run(x - y, {(x, y): (3.0, 1.0)}) == 2.0


def test_numbers_lists_arrays_and_torch_tensors_are_fed_alike():
    x = tf.placeholder(tf.float32, [2])
    for value in ([1, 2], (1.0, 2.0), np.array([1, 2]), np.array([1.0, 2.0]), torch.tensor([1.0, 2.0])):
        with tf.Session() as session:
            made = session.run(x, {x: value})
        assert made.dtype == np.float32
        np.testing.assert_array_equal(made, [1, 2])


def test_a_default_is_used_where_nothing_is_fed():
    x = tf.placeholder_with_default(tf.constant([1.0]), [None])
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(x * 2), [2])
        np.testing.assert_array_equal(session.run(x * 2, {x: [3, 4]}), [6, 8])


def test_a_missing_feed_names_the_placeholder():
    x = tf.placeholder(tf.float32, [None, 2], name="inputs")
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=r"'inputs'.*float"):
        session.run(x + 1)


def test_a_placeholder_that_is_not_needed_needs_no_feed():
    x = tf.placeholder(tf.float32)
    with tf.Session() as session:
        assert session.run([tf.constant(1), tf.shape(tf.zeros([2]))[0]], {x: 1.0}) == [1, 2]


def test_an_error_names_the_operation():
    x = tf.placeholder(tf.float32)
    y = tf.matmul(x, x, name="product")
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="product") as error:
        session.run(y, {x: np.ones([2, 3])})
    assert error.value.op is y.op


# -- order -----------------------------------------------------------------------------------------------------------


def test_reads_see_the_variables_before_updates(count: tf.Variable):
    update = count.assign_add(10.0)
    with started() as session:
        for fetches in ([update, count * 1.0], [count * 1.0, update]):
            before = session.run(count)
            assert sorted(session.run(fetches)) == [before, before + 10]


def test_control_dependencies_order_reads_after_updates(count: tf.Variable):
    with tf.control_dependencies([count.assign_add(10.0)]):
        after = count.read_value()
        again = tf.identity(count)
    with started() as session:
        assert session.run(after) == 11
        assert session.run(again) == 21
        assert session.run([after, again]) == [31, 31]


def test_updates_after_updates_run_in_their_order(count: tf.Variable):
    first = count.assign(5.0)
    with tf.control_dependencies([first]):
        second = count.assign_add(1.0)
    with tf.control_dependencies([second]):
        third = count.assign(count.read_value() * 2)
    with started() as session:
        assert session.run(third) == 12


def test_control_dependencies_on_nothing_forget_those_around(count: tf.Variable):
    with tf.control_dependencies([count.assign_add(10.0)]), tf.control_dependencies(None):
        free = tf.constant(0.0)
    with started() as session:
        session.run(free)
        assert session.run(count) == 1


def test_a_group_runs_all(count: tf.Variable):
    other = tf.Variable(1.0)
    both = tf.group(count.assign(2.0), other.assign(3.0))
    with started() as session:
        assert session.run(both) is None
        assert session.run([count, other]) == [2, 3]


def test_gradients_are_of_the_values_before_the_update(count: tf.Variable):
    (slope,) = tf.gradients(count * count, count)
    update = count.assign_sub(0.25 * slope)
    with started() as session:
        assert session.run([slope, update]) == [2.0, 0.5]
        assert session.run(slope) == 1.0


# -- what a session keeps --------------------------------------------------------------------------------------------


def test_two_sessions_have_variables_of_their_own(count: tf.Variable):
    with started() as one, tf.Session() as other:
        one.run(count.assign(5.0))
        with pytest.raises(tf.errors.FailedPreconditionError, match="count"):
            other.run(count)
        other.run(tf.global_variables_initializer())
        assert one.run(count) == 5
        assert other.run(count) == 1


def test_an_uninitialised_variable_is_named():
    with tf.variable_scope("layer"):
        weight = tf.get_variable("weight", [2])
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="layer/weight"):
            session.run(weight * 2)
        assert session.run(tf.report_uninitialized_variables()).tolist() == [b"layer/weight"]
        assert not session.run(tf.is_variable_initialized(weight))


def test_seeds_repeat_draws_in_every_session_and_not_within_one():
    tf.set_random_seed(3)
    draws = [tf.random_uniform([4]), tf.random_normal([4]), tf.random_uniform([4], seed=7)]
    with tf.Session() as session:
        first, second = session.run(draws), session.run(draws)
    with tf.Session() as session:
        again = session.run(draws)
    for one, two, three in zip(first, second, again, strict=True):
        np.testing.assert_array_equal(one, three)
        assert (one != two).any()
    assert (first[0] != first[2]).any()


def test_seeds_repeat_the_first_values_of_variables():
    values = []
    for _ in range(2):
        with tf.Graph().as_default():
            tf.set_random_seed(5)
            weights = [tf.get_variable("a", [3, 2]), tf.get_variable("b", [3, 2])]
            with started() as session:
                values.append(session.run(weights))
    np.testing.assert_array_equal(values[0], values[1])
    assert (values[0][0] != values[0][1]).any()


def test_a_closed_session_cannot_run():
    x = tf.constant(1)
    session = tf.Session()
    session.close()
    with pytest.raises(RuntimeError, match="closed"):
        session.run(x)


def test_an_interactive_session_is_the_default_until_it_is_closed():
    x = tf.constant(3)
    session = tf.InteractiveSession()
    assert tf.get_default_session() is session
    assert x.eval() == 3
    session.close()
    assert tf.get_default_session() is None
    with pytest.raises(ValueError, match="session"):
        x.eval()


def test_sessions_are_the_default_inside_their_context(count: tf.Variable):
    with tf.Session() as outer:
        count.initializer.run()
        assert count.eval() == 1
        with tf.Session() as inner:
            assert tf.get_default_session() is inner
            with pytest.raises(tf.errors.FailedPreconditionError):
                count.eval()
        assert tf.get_default_session() is outer
        assert (count + 1).eval({count: 4.0}) == 5


def test_a_graph_can_grow_between_runs(count: tf.Variable):
    with started() as session:
        assert session.run(count) == 1
        other = tf.Variable(2.0)
        session.run(other.initializer)
        assert session.run(count + other) == 3


def test_a_callable_takes_the_feeds_in_order():
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    with tf.Session() as session:
        assert session.make_callable(x - y, [x, y])(3.0, 1.0) == 2.0


# -- size ------------------------------------------------------------------------------------------------------------


def test_ten_thousand_operations_in_a_chain_run_and_differentiate():
    x = tf.placeholder(tf.float32, [])
    y = x
    for _ in range(5_000):
        y = y * 1.0 + 0.0
    (slope,) = tf.gradients(y * y, x)
    with tf.Session() as session:
        assert session.run([y, slope], {x: 3.0}) == [3.0, 6.0]
