"""How variables begin: values, moments and errors of TensorFlow's initializers."""

from __future__ import annotations

import numpy as np
import pytest

from unspool import tf1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(2)
        yield graph


def values(initializer, shape, *dtype):
    made = initializer(shape, *dtype)
    with tf.Session() as session:
        return session.run(made)


@pytest.mark.parametrize(
    ("initializer", "deviation", "most"),
    [
        (tf.glorot_uniform_initializer, (2 / 500) ** 0.5, (6 / 500) ** 0.5),
        (tf.glorot_normal_initializer, (2 / 500) ** 0.5, None),
        (tf.variance_scaling_initializer, (1 / 300) ** 0.5, None),
        (lambda: tf.variance_scaling_initializer(2.0, "fan_out", "uniform"), 0.1, 0.03**0.5),
        (lambda: tf.variance_scaling_initializer(2.0, "fan_avg", "untruncated_normal"), (2 / 250) ** 0.5, None),
        (lambda: tf.truncated_normal_initializer(0.0, 0.5), 0.5 * 0.8796, 1.0),
        (lambda: tf.random_normal_initializer(0.0, 0.5), 0.5, None),
        (lambda: tf.random_uniform_initializer(-3.0, 3.0), 3**0.5, 3.0),
    ],
)
def test_deviation_and_bound(initializer, deviation: float, most: float | None):
    made = values(initializer(), [300, 200])
    assert made.std() == pytest.approx(deviation, rel=0.02)  # seven deviations of the deviation of 60,000
    assert abs(made.mean()) < 0.03 * deviation
    assert most is None or most * 0.99 < np.abs(made).max() <= most


def test_a_convolution_counts_its_field():
    made = values(tf.glorot_uniform_initializer(), [3, 3, 20, 30])
    assert np.abs(made).max() == pytest.approx((6 / (9 * 50)) ** 0.5, rel=0.01)


@pytest.mark.parametrize("shape", [[5, 5], [6, 4], [4, 6], [2, 3, 4]])
def test_orthogonal_matrices_have_all_axes_but_the_last_for_rows(shape: list[int]):
    made = values(tf.orthogonal_initializer(gain=2.0), shape).reshape(-1, shape[-1])
    small = made.T @ made if made.shape[0] >= made.shape[1] else made @ made.T
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)


def test_constants_fill_the_shape():
    np.testing.assert_array_equal(values(tf.constant_initializer(2.0), [2, 2]), [[2, 2], [2, 2]])
    np.testing.assert_array_equal(values(tf.constant_initializer([1, 2, 3, 4]), [2, 2]), [[1, 2], [3, 4]])
    assert values(tf.constant_initializer(2), [2], tf.int32).dtype == np.int32
    with pytest.raises(TypeError, match="shape"):
        tf.constant_initializer([1, 2], verify_shape=True)([2, 2])


def test_integers_are_drawn_below_the_bound():
    made = values(tf.random_uniform_initializer(1, 4, dtype=tf.int32), [200])
    assert sorted(set(made.tolist())) == [1, 2, 3]


@pytest.mark.parametrize("initializer", [tf.orthogonal_initializer, tf.initializers.identity])
def test_matrices_alone_are_orthogonal(initializer):
    with pytest.raises(ValueError, match="matri"):
        initializer()([3])


def test_a_seed_of_its_own_repeats_the_values():
    first, second = (values(tf.glorot_uniform_initializer(seed=3), [4]) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("make", "low", "high"),
    [
        (lambda low, high: tf.random_uniform_initializer(low, high), 2.0, 3.0),
        (lambda low, high: tf.random_uniform_initializer(2.0, high), 2.0, 3.0),
        (lambda mean, deviation: tf.truncated_normal_initializer(mean, deviation / 6), 2.0, 3.0),
        (lambda mean, deviation: tf.random_normal_initializer(mean, 0.0 * deviation), 2.0, 3.0),
    ],
)
def test_bounds_and_moments_may_be_tensors_that_are_fed(make, low: float, high: float):
    fed = tf.placeholder(tf.float32, []), tf.constant(high)
    weight = tf.get_variable("weight", [50], initializer=make(*fed))
    with tf.Session() as session:
        session.run(weight.initializer, {fed[0]: low})
        first = session.run(weight)
        session.run(weight.initializer, {fed[0]: low})
        assert first.min() >= 1.0
        assert first.max() <= high
        assert first.std() == 0 or not np.array_equal(first, session.run(weight))


def test_the_weights_of_a_cell_begin_between_tensors():
    bound = tf.constant(0.5)
    with tf.variable_scope("model", initializer=tf.random_uniform_initializer(-bound, bound)):
        cell = tf.nn.rnn_cell.GRUCell(4)
        tf.nn.dynamic_rnn(cell, tf.zeros([2, 3, 4]), dtype=tf.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        kernel = session.run(tf.trainable_variables()[0])
    assert 0.4 < np.abs(kernel).max() <= 0.5
