"""Mistakes with loops, branches and arrays: as in `mistakes.py`, to which they are added."""

from __future__ import annotations

from typing import Any

from tests.tf1_ops.noting import mistake


@mistake
def loop_over_nothing(tf: Any) -> Any:
    return tf.while_loop(lambda: True, list, []), {}


@mistake
def loop_without_body(tf: Any) -> Any:
    return tf.while_loop(lambda k: k < 3, None, [0]), {}


@mistake
def loop_that_changes_a_dtype(tf: Any) -> Any:
    return tf.while_loop(lambda k: k < 3, lambda k: tf.cast(k, tf.float32), [0]), {}


@mistake
def loop_that_changes_a_shape(tf: Any) -> Any:
    return tf.while_loop(lambda x: tf.size(x) < 3, lambda x: tf.concat([x, x], 0), [tf.zeros([1])]), {}


@mistake
def loop_that_breaks_its_invariant(tf: Any) -> Any:
    shapes = [tf.TensorShape([None, 1])]
    return tf.while_loop(lambda x: tf.size(x) < 9, lambda x: tf.concat([x, x], 1), [tf.zeros([1, 1])], shapes), {}


@mistake
def loop_with_an_invariant_that_does_not_fit(tf: Any) -> Any:
    return tf.while_loop(lambda x: tf.size(x) < 9, lambda x: x, [tf.zeros([1, 1])], [tf.TensorShape([None])]), {}


@mistake
def loop_with_too_few_invariants(tf: Any) -> Any:
    shapes = [tf.TensorShape([])]
    return tf.while_loop(lambda k, x: k < 9, lambda k, x: (k + 1, x), [0, 0.0], shapes), {}


@mistake
def loop_with_fewer_results(tf: Any) -> Any:
    return tf.while_loop(lambda k, x: k < 9, lambda k, x: k + 1, [0, 0.0]), {}


@mistake
def loop_with_another_structure(tf: Any) -> Any:
    return tf.while_loop(lambda k, x: k < 9, lambda k, x: [k + 1, (x, x)], [0, 0.0]), {}


@mistake
def loop_until_a_number(tf: Any) -> Any:
    return tf.while_loop(lambda k: k, lambda k: k + 1, [0]), {}


@mistake
def loop_until_a_vector(tf: Any) -> Any:
    return tf.while_loop(lambda x: x < 1, lambda x: x + 1, [tf.zeros([2])]), {}


@mistake
def branch_on_a_python_truth(tf: Any) -> Any:
    return tf.cond(True, lambda: 1, lambda: 2), {}


@mistake
def branch_without_function(tf: Any) -> Any:
    return tf.cond(tf.constant(True), tf.constant(1), tf.constant(2)), {}


@mistake
def branches_of_two_dtypes(tf: Any) -> Any:
    return tf.cond(tf.constant(True), lambda: tf.constant(1), lambda: tf.constant(2.0)), {}


@mistake
def branches_of_two_lengths(tf: Any) -> Any:
    return tf.cond(tf.constant(True), lambda: [tf.constant(1)] * 2, lambda: tf.constant(2)), {}


@mistake
def branches_of_two_structures(tf: Any) -> Any:
    one, two = tf.constant(1), tf.constant(2)
    return tf.cond(tf.constant(True), lambda: (one, (one, two)), lambda: ((one, two), two)), {}


@mistake
def branch_that_returns_nothing(tf: Any) -> Any:
    return tf.cond(tf.constant(True), lambda: None, lambda: tf.constant(2)), {}


@mistake
def case_of_nothing(tf: Any) -> Any:
    return tf.case([]), {}


@mistake
def array_read_before_it_is_written(tf: Any) -> Any:
    return tf.TensorArray(tf.float32, 2).read(0), {}


@mistake
def array_read_past_its_end(tf: Any) -> Any:
    return tf.TensorArray(tf.float32, 2).unstack([1.0, 2.0]).read(2), {}


@mistake
def array_written_past_its_end(tf: Any) -> Any:
    return tf.TensorArray(tf.float32, 2).write(2, 1.0).stack(), {}


@mistake
def array_of_another_dtype(tf: Any) -> Any:
    return tf.TensorArray(tf.float32, 2).write(0, tf.constant(1)).stack(), {}


@mistake
def array_written_twice(tf: Any) -> Any:
    return tf.TensorArray(tf.float32, 1).write(0, 1.0).write(0, 2.0).stack(), {}


@mistake
def array_of_two_shapes(tf: Any) -> Any:
    return tf.TensorArray(tf.float32, 2).write(0, [1.0]).write(1, [1.0, 2.0]).stack(), {}


@mistake
def array_stacked_with_a_hole(tf: Any) -> Any:
    return tf.TensorArray(tf.float32, 2).write(0, [1.0]).stack(), {}


@mistake
def an_assertion_fails(tf: Any) -> Any:
    x = tf.placeholder(tf.int32)
    with tf.control_dependencies([tf.Assert(x > 0, [x])]):
        return tf.identity(x), {x: -1}


@mistake
def map_over_a_scalar(tf: Any) -> Any:
    return tf.map_fn(lambda x: x, tf.constant(1.0)), {}
