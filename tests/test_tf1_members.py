"""Methods and properties of graph objects that programs use now and then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unspool import tf1 as tf


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def run(*fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run(each) for each in fetches]


def test_what_is_known_of_shapes_and_dtypes():
    x = tf.placeholder(tf.float32, [None, 3])
    assert (x.ndim, tf.placeholder(tf.float32).ndim) == (2, None)
    assert tf.float32.is_compatible_with("float32")
    assert not tf.float32.is_compatible_with(tf.int32)
    tf.TensorShape([2, 3]).assert_is_fully_defined()
    with pytest.raises(ValueError, match=r"\(\?, 3\) is not fully defined"):
        x.shape.assert_is_fully_defined()


def test_sizes_that_differ_are_refused():
    tf.Dimension(None).assert_is_compatible_with(3)
    with pytest.raises(ValueError, match="Dimensions 2 and 3 are not compatible"):
        tf.Dimension(2).assert_is_compatible_with(3)


def test_slices_know_the_shape_of_the_whole():
    table = tf.get_variable("table", [5, 2])
    (gradient,) = tf.gradients(tf.gather(table, [3, 3]), [table])
    assert (gradient.shape.as_list(), gradient.device) == ([5, 2], "")


def test_the_shape_of_a_variable_is_said_later():
    variable = tf.Variable(tf.placeholder_with_default([[1.0, 2.0]], [None, None]), validate_shape=False)
    variable.set_shape([None, 2])
    assert variable.shape.as_list() == variable.value().shape.as_list() == [None, 2]
    with pytest.raises(ValueError, match="not compatible"):
        variable.set_shape([None, 3])


@pytest.mark.parametrize(
    ("method", "expected"),
    [("scatter_update", [5.0, 2.0, 6.0]), ("scatter_add", [6.0, 2.0, 9.0]), ("scatter_sub", [-4.0, 2.0, -3.0])],
)
def test_rows_of_a_variable_are_changed_by_slices(method: str, expected: list[float]):
    variable = tf.Variable([1.0, 2.0, 3.0])
    slices = tf.IndexedSlices(tf.constant([5.0, 6.0]), tf.constant([0, 2]))
    assert run(getattr(variable, method)(slices))[0].tolist() == expected
    with pytest.raises(TypeError, match="sparse_delta is not IndexedSlices"):
        getattr(variable, method)([1.0])


def test_elements_of_a_variable_are_changed_by_indices():
    variable = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    assert run(variable.scatter_nd_add([[0, 1]], [5.0]))[0].tolist() == [[1.0, 7.0], [3.0, 4.0]]


def test_slices_are_written_at_indices():
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    array = tf.TensorArray(tf.float32, 3).scatter([2, 0], x)
    stacked = array.write(1, [5.0, 6.0]).stack()
    values, gradient = run(stacked, tf.gradients(stacked * stacked, x)[0])
    assert values.tolist() == [[3.0, 4.0], [5.0, 6.0], [1.0, 2.0]]
    assert gradient.tolist() == [[2.0, 4.0], [6.0, 8.0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="3 indices for a value of shape"):
        run(tf.TensorArray(tf.float32, 3).scatter([0, 1, 2], x).stack())


def test_pieces_of_a_tensor_are_the_elements():
    array = tf.TensorArray(tf.float32, 2, infer_shape=False).split([[1.0], [2.0], [3.0]], [1, 2])
    first, second, joined = run(array.read(0), array.read(1), array.concat())
    assert (first.tolist(), second.tolist(), joined.shape) == ([[1.0]], [[2.0], [3.0]], (3, 1))
    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot be split into 3 pieces"):
        run(tf.TensorArray(tf.float32, 2).split([1.0, 2.0, 3.0], [1, 1, 1]).read(0))


def test_a_scope_takes_what_has_no_effect_and_a_getter_that_has():
    with tf.variable_scope("scope") as scope:
        scope.set_caching_device("/cpu:0")
        scope.set_partitioner(lambda **_: [1])
        scope.set_custom_getter(lambda getter, name, **more: getter(name + "_own", **more))
        assert tf.get_variable("weight", [1]).name == "scope/weight_own:0"
        assert scope.caching_device is None
        assert scope.partitioner is None


def test_a_layer_knows_its_losses_and_updates():
    layer = tf.layers.Dense(2, kernel_regularizer=tf.nn.l2_loss, activity_regularizer=tf.reduce_sum)
    layer(tf.ones([1, 3]))
    layer.add_loss(tf.constant(1.0))
    assert layer.losses == tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert len(layer.losses) == 3
    layer.add_update([update := tf.constant(0.0)])
    assert layer.updates == tf.get_collection(tf.GraphKeys.UPDATE_OPS) == [update]


def test_the_size_of_a_model():
    variables = [tf.get_variable("a", [2, 3]), tf.get_variable("b", [4], tf.float64)]
    assert tf.contrib.slim.model_analyzer.analyze_vars(variables) == (10, 56)
    assert tf.contrib.slim.model_analyzer.analyze_ops(tf.get_default_graph()) >= 10


def test_how_gradients_are_added_up_is_accepted():
    x = tf.constant(3.0)
    method = tf.AggregationMethod.EXPERIMENTAL_ACCUMULATE_N
    assert run(tf.gradients(x * x, x, aggregation_method=method)[0]) == [np.float32(6.0)]
