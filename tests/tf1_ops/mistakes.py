"""Mistakes: each builds a graph and returns what to fetch, with what to feed; one of both raises."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1_ops import mistakes_in_loops  # noqa: F401 (which adds its own)
from tests.tf1_ops.noting import MISTAKES, Mistake, mistake


def complaint(tf: Any, name: str) -> str:
    """The class of the error, and when it is raised."""
    with tf.Graph().as_default():
        try:
            fetches, feed = MISTAKES[name](tf)
        except Exception as error:
            return f"{type(error).__name__} when building"
        with tf.Session() as session:
            try:
                session.run(fetches, feed)
            except Exception as error:
                return f"{type(error).__name__} when running"
    return "none"


# -- shapes and dtypes -----------------------------------------------------------------------------------------------


@mistake
def add_shapes_that_do_not_fit(tf: Any) -> Any:
    return tf.zeros([2, 3]) + tf.zeros([2, 4]), {}


@mistake
def add_fed_shapes_that_do_not_fit(tf: Any) -> Any:
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32, [None, None])
    return x + y, {x: np.zeros([2, 3]), y: np.zeros([2, 4])}


@mistake
def add_two_dtypes(tf: Any) -> Any:
    return tf.zeros([2]) + tf.zeros([2], tf.float64), {}


@mistake
def add_a_string(tf: Any) -> Any:
    return tf.zeros([2]) + "a", {}


@mistake
def add_none(tf: Any) -> Any:
    return tf.zeros([2]) + None, {}


@mistake
def add_fractions_to_integers(tf: Any) -> Any:
    return tf.constant([1, 2]) + 0.5, {}


@mistake
def set_another_shape(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, 3])
    x.set_shape([None, 4])
    return x, {x: np.zeros([2, 3])}


@mistake
def set_another_rank(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, 3])
    x.set_shape([None])
    return x, {x: np.zeros([2, 3])}


@mistake
def iterate_over_a_tensor(tf: Any) -> Any:
    return [each + 1 for each in tf.placeholder(tf.float32, [2])], {}


@mistake
def length_of_a_tensor(tf: Any) -> Any:
    return len(tf.placeholder(tf.float32, [2])), {}


@mistake
def list_of_an_unknown_shape(tf: Any) -> Any:
    return tf.placeholder(tf.float32).shape.as_list(), {}


@mistake
def an_unknown_size_as_a_number(tf: Any) -> Any:
    return tf.zeros([int(tf.placeholder(tf.float32, [None]).shape[0]), 2]), {}


@mistake
def placeholder_of_no_dtype(tf: Any) -> Any:
    return tf.placeholder("float17"), {}


@mistake
def placeholder_of_a_negative_size(tf: Any) -> Any:
    return tf.placeholder(tf.float32, [-1, 2]), {}


@mistake
def placeholder_with_a_shape_for_a_dtype(tf: Any) -> Any:
    return tf.placeholder([None, 2], tf.float32), {}


@mistake
def a_name_that_is_none(tf: Any) -> Any:
    return tf.constant(1, name="a b"), {}


@mistake
def gradient_of_integers(tf: Any) -> Any:
    x = tf.placeholder(tf.int32, [])
    return tf.gradients(x * x, x)[0], {x: 2}


# -- what is fed and fetched -----------------------------------------------------------------------------------------


def _fed(value: Any, dtype: str = "float32", shape: Any = None) -> Mistake:
    def function(tf: Any) -> Any:
        x = tf.placeholder(dtype, shape)
        return tf.identity(x), {x: value}

    return function


MISTAKES.update(
    feed_none=_fed(None),
    feed_a_string=_fed("a"),
    feed_ragged_lists=_fed([[1.0], [1.0, 2.0]]),
    feed_fractions_for_integers=_fed(1.5, "int32"),
    feed_an_array_of_fractions_for_integers=_fed(np.array([1.5, 2.5]), "int32"),
    feed_large_integers=_fed(2**40, "int32"),
    feed_another_rank=_fed([1.0, 2.0], "float32", [None, 2]),
    feed_another_size=_fed([[1.0, 2.0, 3.0]], "float32", [None, 2]),
    feed_integers_for_truths=_fed(1, "bool"),
    feed_an_array_of_integers_for_truths=_fed(np.array([0, 2]), "bool"),
    feed_truths_for_floats=_fed(True, "float32"),
    feed_truths_for_integers=_fed([True, False], "int32"),
    feed_complex_numbers=_fed(1j, "float32"),
    feed_doubles=_fed(np.array([1.5, 2.5]), "float32"),
    feed_int64_for_int32=_fed(np.array([1, 2]), "int32"),
    feed_whole_floats_for_integers=_fed(np.array([1.0, 2.0]), "int32"),
)


@mistake
def feed_an_operation(tf: Any) -> Any:
    return tf.constant(1), {tf.no_op(): 1}


@mistake
def feed_a_tensor_of_another_graph(tf: Any) -> Any:
    with tf.Graph().as_default():
        other = tf.placeholder(tf.float32)
    return tf.constant(1), {other: 1}


@mistake
def feed_what_is_no_dict(tf: Any) -> Any:
    x = tf.placeholder(tf.float32)
    return x, [(x, 1.0)]


@mistake
def fetch_none_in_a_list(tf: Any) -> Any:
    return [tf.constant(1), None], {}


@mistake
def fetch_an_unknown_operation(tf: Any) -> Any:
    tf.constant(1)
    return "nothing", {}


@mistake
def fetch_an_unknown_output(tf: Any) -> Any:
    tf.constant(1, name="a")
    return "a:1", {}


@mistake
def fetch_a_name_that_is_malformed(tf: Any) -> Any:
    tf.constant(1, name="a")
    return "a:b:c", {}


@mistake
def fetch_of_another_graph(tf: Any) -> Any:
    tf.constant(1)
    with tf.Graph().as_default():
        return tf.constant(1), {}


@mistake
def fetch_a_placeholder_that_is_not_fed(tf: Any) -> Any:
    return tf.placeholder(tf.float32), {}


@mistake
def fetch_a_placeholder_of_a_known_shape_that_is_not_fed(tf: Any) -> Any:
    return tf.placeholder(tf.float32, [2]) + 1, {}


# -- variables -------------------------------------------------------------------------------------------------------


@mistake
def variable_of_no_value(tf: Any) -> Any:
    return tf.Variable(), {}


@mistake
def variable_of_an_unknown_shape(tf: Any) -> Any:
    return tf.Variable(tf.placeholder(tf.float32, [None])), {}


@mistake
def get_variable_of_no_shape(tf: Any) -> Any:
    return tf.get_variable("v"), {}


@mistake
def get_variable_of_an_unknown_shape(tf: Any) -> Any:
    return tf.get_variable("v", [None, 2]), {}


@mistake
def get_variable_with_a_constant_and_a_shape(tf: Any) -> Any:
    return tf.get_variable("v", [2], initializer=np.ones(2, np.float32)), {}


@mistake
def get_variable_of_another_dtype(tf: Any) -> Any:
    tf.get_variable("v", [2])
    with tf.variable_scope("", reuse=True):
        return tf.get_variable("v", [2], tf.float64), {}


@mistake
def get_variable_of_integers_without_initializer(tf: Any) -> Any:
    return tf.get_variable("v", [2], tf.int32).initializer, {}


@mistake
def scope_of_no_name(tf: Any) -> Any:
    with tf.variable_scope(None):
        return tf.constant(1), {}


@mistake
def scope_of_a_number(tf: Any) -> Any:
    with tf.variable_scope(3):
        return tf.constant(1), {}


@mistake
def assign_another_shape(tf: Any) -> Any:
    return tf.Variable(tf.zeros([2])).assign(tf.zeros([3])), {}


@mistake
def assign_a_fed_shape(tf: Any) -> Any:
    x = tf.placeholder(tf.float32)
    return tf.Variable(tf.zeros([2])).assign(x), {x: np.zeros(3)}


@mistake
def assign_another_dtype(tf: Any) -> Any:
    return tf.Variable(tf.zeros([2])).assign(tf.zeros([2], tf.float64)), {}


@mistake
def add_to_a_variable_without_value(tf: Any) -> Any:
    return tf.Variable(1.0).assign_add(1.0), {}


@mistake
def initialize_by_another_variable(tf: Any) -> Any:
    a = tf.Variable(1.0)
    return tf.Variable(a * 2).initializer, {}
