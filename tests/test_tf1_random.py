"""Random numbers: dtypes, bounds, moments, shapes, and gradients by what they are drawn around."""

from __future__ import annotations

import numpy as np
import pytest

from unspool import tf1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(4)
        yield graph


def run(fetch, feed=None):
    with tf.Session() as session:
        return session.run(fetch, feed)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_uniform_numbers_are_within_their_bounds(dtype: str):
    made = run(tf.random_uniform([1000], 2, 7, dtype))
    assert made.dtype == dtype
    assert made.min() >= 2
    assert made.max() < 7
    assert abs(made.mean() - (4.0 if "int" in dtype else 4.5)) < 0.3  # five deviations of the mean


def test_bounds_may_be_tensors_and_have_gradients():
    low, high = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    made = tf.random_uniform([50], low, high)
    slopes = tf.gradients(made, [low, high])
    values, (by_low, by_high) = run([made, slopes], {low: 3.0, high: 3.5})
    assert ((values >= 3) & (values <= 3.5)).all()
    assert by_low + by_high == pytest.approx(50, abs=1e-3)


def test_normal_numbers_have_their_moments_and_gradients():
    mean = tf.placeholder(tf.float32, [2])
    made = tf.random_normal([10_000, 2], mean, 0.5)
    values, slope = run([made, tf.gradients(made, mean)[0]], {mean: [1.0, -3.0]})
    np.testing.assert_allclose(values.mean(0), [1, -3], atol=0.03)  # six deviations of the mean
    np.testing.assert_allclose(values.std(0), 0.5, atol=0.03)
    np.testing.assert_array_equal(slope, [10_000, 10_000])


def test_truncated_normal_numbers_are_not_far_out():
    made = run(tf.truncated_normal([10_000], 1.0, 0.5))
    assert np.abs(made - 1).max() <= 1.0
    assert abs(made.std() - 0.5 * 0.8796) < 0.02


def test_shapes_may_be_computed():
    x = tf.placeholder(tf.float32, [None, 3])
    made = tf.random_normal(tf.shape(x))
    assert made.shape.as_list() == [None, 3]
    assert tf.random_uniform([tf.shape(x)[0], 5]).shape.as_list() == [None, 5]
    assert run(made, {x: np.zeros([4, 3])}).shape == (4, 3)


def test_whole_numbers_need_a_bound():
    with pytest.raises(ValueError, match="maxval"):
        tf.random_uniform([2], dtype=tf.int32)


def test_a_shuffle_keeps_the_rows():
    x = np.arange(40).reshape(20, 2)
    made = run(tf.random_shuffle(tf.constant(x)))
    assert (made != x).any()
    np.testing.assert_array_equal(made[made[:, 0].argsort()], x)


def test_multinomial_draws_by_probability():
    made = tf.multinomial(tf.log([[0.1, 0.9], [1.0, 0.0]]), 2000)
    assert made.shape.as_list() == [2, 2000]
    assert made.dtype == tf.int64
    values = run(made)
    assert abs(values[0].mean() - 0.9) < 0.04  # six deviations
    assert values[1].max() == 0


@pytest.mark.parametrize("rate", [0.25, 0.75])
def test_dropout_keeps_the_mean(rate: float):
    x = tf.ones([200, 100])
    made, slope = run([tf.nn.dropout(x, rate=rate), tf.gradients(tf.nn.dropout(x, 1 - rate), x)[0]])
    for values in (made, slope):
        assert set(np.unique(values.round(4))) == {0.0, np.float32(1 / (1 - rate)).round(4)}
        assert abs((values == 0).mean() - rate) < 0.02


def test_dropout_drops_together_where_its_shape_says_so():
    x = tf.placeholder(tf.float32, [None, 5])
    for shape in ([None, 1], [tf.shape(x)[0], 1], tf.stack([tf.shape(x)[0], 1])):
        made = run(tf.nn.dropout(x, 0.5, noise_shape=shape), {x: np.ones([100, 5])})
        assert (made == made[:, :1]).all()
        assert 20 < (made[:, 0] == 0).sum() < 80
