"""Sparse tensors are fed and fetched as one value, and say what is wrong with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unspool import tf1 as tf

INDICES, VALUES, SHAPE = [[0, 1], [1, 0]], [3.0, 4.0], [2, 2]
DENSE = np.array([[0, 3], [4, 0]], np.float32)


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize(
    "value",
    [
        (INDICES, VALUES, SHAPE),
        [INDICES, VALUES, SHAPE],
        tf.SparseTensorValue(INDICES, VALUES, SHAPE),
        tf.SparseTensorValue(np.array(INDICES), np.array(VALUES), np.array(SHAPE)),
    ],
)
def test_a_sparse_placeholder_takes_a_tuple_or_a_value(value: Any):
    x = tf.sparse_placeholder(tf.float32)
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(tf.sparse_tensor_to_dense(x), {x: value}), DENSE)


@pytest.mark.parametrize("shape", [None, [2, 2], [None, 2]])
def test_what_is_fetched_can_be_fed_again(shape: Any):
    x = tf.sparse_placeholder(tf.float32, shape, name="x")
    with tf.Session() as session:
        found = session.run({"x": x}, {x: (INDICES, VALUES, SHAPE)})["x"]
        assert isinstance(found, tf.SparseTensorValue)
        assert [each.dtype for each in found] == [np.int64, np.float32, np.int64]
        again = session.run(x, {x: found})
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_nothing_can_be_fed():
    x = tf.sparse_placeholder(tf.int32)
    with tf.Session() as session:
        assert session.run(tf.sparse_tensor_to_dense(x), {x: ([], [], [2, 3])}).tolist() == [[0] * 3] * 2


def test_parts_of_a_sparse_placeholder_have_its_name():
    x = tf.sparse_placeholder(tf.float32, [None, 3], name="labels")
    assert [each.name for each in (x.indices, x.values, x.dense_shape)] == [
        "labels/indices:0",
        "labels/values:0",
        "labels/shape:0",
    ]
    assert x.indices.shape.as_list() == [None, 2]
    assert x.get_shape().as_list() == [None, None]
    assert tf.sparse_placeholder(tf.float32, [2, 3]).shape.as_list() == [2, 3]


def test_eval_and_a_constant():
    x = tf.SparseTensor(INDICES, VALUES, SHAPE)
    with tf.Session():
        assert x.eval().values.tolist() == VALUES
    assert x.get_shape().as_list() == SHAPE
    assert x.dtype is tf.float32
    assert x.graph is tf.get_default_graph()


def test_gradients_come_to_the_values():
    x = tf.sparse_placeholder(tf.float32)
    (slope,) = tf.gradients(tf.reduce_sum(tf.sparse_tensor_to_dense(x) * [[1.0, 2.0], [3.0, 4.0]]), x.values)
    with tf.Session() as session:
        assert session.run(slope, {x: (INDICES, VALUES, SHAPE)}).tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    ("value", "error"), [(DENSE, "feed a tf.SparseTensorValue"), ((INDICES, VALUES), "feed a tf.SparseTensorValue")]
)
def test_a_feed_that_is_not_sparse_says_what_to_give(value: Any, error: str):
    x = tf.sparse_placeholder(tf.float32)
    with tf.Session() as session, pytest.raises(TypeError, match=error):
        session.run(x, {x: value})


def test_a_sparse_tensor_is_no_tensor():
    x = tf.sparse_placeholder(tf.float32)
    with pytest.raises(TypeError, match="Failed to convert"):
        tf.identity(x)
    with pytest.raises(TypeError, match="Hypothesis must be a SparseTensor, but is a Tensor"):
        tf.edit_distance(tf.constant([1]), x)
    with pytest.raises(RuntimeError, match="requested = int32, actual = float32"):
        tf.convert_to_tensor_or_sparse_tensor(x, tf.int32)


def test_a_name_that_is_not_there_names_the_nearest():
    with pytest.raises(AttributeError, match=r"no tf.sparse.to_dens; did you mean tf.sparse.to_dense"):
        _ = tf.sparse.to_dens
