"""Draws of distributions, and templates; what distributions compute is in `tests/tf1_ops`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unspool.tf1 as tf

COUNT = 4000


def run(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


class TestDraws:
    @pytest.mark.parametrize("shape", [(), 3, [3], [2, 3], (2, 1)])
    def test_have_the_shape_that_is_asked_for(self, shape: Any) -> None:
        sizes = [shape] if isinstance(shape, int) else list(shape)
        for each in (
            tf.distributions.Normal(tf.zeros([5, 4]), 1.0),
            tf.distributions.Uniform(tf.zeros([4]), tf.ones([5, 1])),
            tf.distributions.Bernoulli(logits=tf.zeros([5, 4])),
            tf.distributions.Categorical(logits=tf.zeros([5, 4, 3])),
        ):
            drawn = each.sample(shape)
            assert drawn.shape.as_list() == [*sizes, 5, 4], each
            assert run(drawn).shape == (*sizes, 5, 4), each
            assert each.batch_shape.as_list() == [5, 4]

    def test_have_the_shape_of_a_tensor(self) -> None:
        assert run(tf.distributions.Normal([0.0, 0.0], 1.0).sample(tf.constant([3, 1]))).shape == (3, 1, 2)

    def test_have_the_mean_and_the_deviation(self) -> None:
        """Within five standard errors, which one seed in a million is not."""
        tf.set_random_seed(1)
        for each in (
            tf.distributions.Normal([-1.0, 3.0], [0.5, 2.0]),
            tf.distributions.Uniform([-1.0, 3.0], [0.5, 9.0]),
            tf.distributions.Bernoulli(probs=[0.2, 0.7], dtype=tf.float32),
        ):
            drawn, mean, deviation = run([each.sample(COUNT), each.mean(), each.stddev()])
            np.testing.assert_array_less(abs(drawn.mean(0) - mean), 5 * deviation / np.sqrt(COUNT))
            np.testing.assert_allclose(drawn.std(0), deviation, rtol=0.1)

    def test_have_the_classes_of_their_row(self) -> None:
        tf.set_random_seed(1)
        probabilities = np.array([[0.1, 0.6, 0.3], [0.5, 0.0, 0.5]], np.float32)
        drawn = run(tf.distributions.Categorical(probs=probabilities).sample(COUNT))
        assert drawn.dtype == np.int32
        found = np.stack([(drawn == each).mean(0) for each in range(3)], 1)
        np.testing.assert_allclose(found, probabilities, atol=0.05)

    def test_of_normal_numbers_have_gradients(self) -> None:
        mean, deviation = tf.constant([1.0, 2.0]), tf.constant([0.5, 3.0])
        drawn = tf.distributions.Normal(mean, deviation).sample(5)
        values, slopes = run([drawn, tf.gradients(drawn, [mean, deviation])])
        np.testing.assert_allclose(slopes[0], [5, 5])
        np.testing.assert_allclose(slopes[1], ((values - [1, 2]) / [0.5, 3]).sum(0), rtol=1e-5)

    def test_are_repeatable_with_a_seed(self) -> None:
        drawn = tf.distributions.Normal(0.0, 1.0).sample(3, seed=7)
        np.testing.assert_array_equal(run(drawn), run(drawn))


class TestVectors:
    def test_are_rows_of_normal_numbers(self) -> None:
        contrib = tf.contrib.distributions
        loc, scale = np.float32([[0, 1], [2, 3]]), np.float32([[1, 2], [0.5, 1]])
        vectors, numbers = contrib.MultivariateNormalDiag(loc, scale), contrib.Normal(loc, scale)
        assert vectors.batch_shape.as_list() == [2]
        assert vectors.event_shape.as_list() == [2]
        other = contrib.MultivariateNormalDiag(scale_diag=tf.ones([2, 2]))
        pairs = [
            (vectors.log_prob(loc + 1), numbers.log_prob(loc + 1)),
            (vectors.entropy(), numbers.entropy()),
            (
                contrib.kl_divergence(vectors, other),
                contrib.kl_divergence(numbers, contrib.Normal(0.0, tf.ones([2, 2]))),
            ),
        ]
        for one, each in run(pairs):
            np.testing.assert_allclose(one, each.sum(-1), rtol=1e-5)

    def test_need_a_parameter(self) -> None:
        with pytest.raises(ValueError, match="at least one of"):
            tf.contrib.distributions.MultivariateNormalDiag()


class TestTemplates:
    def test_calls_share_their_variables(self) -> None:
        layer = tf.make_template("layer", lambda x, units: tf.layers.dense(x, units, name="dense"), units=4)
        one, other = layer(tf.ones([2, 3])), layer(tf.ones([2, 3]))
        assert [each.name for each in tf.trainable_variables()] == ["layer/dense/kernel:0", "layer/dense/bias:0"]
        np.testing.assert_array_equal(*run([one, other]))
        assert layer.variables == layer.trainable_variables == tf.trainable_variables()
        assert layer.variable_scope.name == layer.name == "layer"

    def test_two_have_their_own(self) -> None:
        first, second = (tf.make_template("scale", lambda x: x * tf.get_variable("w", [])) for _ in range(2))
        first(1.0), second(1.0), first(2.0)
        assert [each.name for each in tf.trainable_variables()] == ["scale/w:0", "scale_1/w:0"]

    def test_names_are_settled_by_the_first_call_or_at_once(self) -> None:
        make = lambda now: tf.make_template("t", lambda: tf.get_variable("w", []), create_scope_now_=now)  # noqa: E731
        later, now = make(False), make(True)
        assert [now().name, later().name] == ["t/w:0", "t_1/w:0"]

    def test_a_later_call_makes_no_variables(self) -> None:
        names = iter(["a", "b"])
        template = tf.make_template("t", lambda: tf.get_variable(next(names), []))
        template()
        with pytest.raises(ValueError, match="t/b"):
            template()

    def test_it_needs_a_name(self) -> None:
        with pytest.raises(ValueError, match="name cannot be None"):
            tf.make_template("", lambda: None)


class TestGradientsWithPartsHeld:
    def test_random_numbers_are_drawn_once(self) -> None:
        x = tf.constant(2.0)
        held = x * 3.0
        noise = tf.random_uniform(tf.shape(held))
        value = held * noise * x
        (slope,) = tf.gradients(value, x, stop_gradients=[held])
        drawn, found = run([noise, slope])
        assert found == pytest.approx(6 * drawn)

    def test_not_through_another_gradient(self) -> None:
        x = tf.constant(2.0)
        held = x * x
        (slope,) = tf.gradients(held * held, held)
        with pytest.raises(NotImplementedError, match=r"stop_gradients with a gradient between them and ys"):
            tf.gradients(slope * x, x, stop_gradients=[held])

    def test_through_a_loop_of_cells(self) -> None:
        x = tf.constant(np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32))
        lower, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(5), x, dtype=tf.float32, scope="lower")
        upper, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(5), lower, dtype=tf.float32, scope="upper")
        variables = tf.trainable_variables()
        held = tf.gradients(tf.reduce_sum(upper * upper), variables, stop_gradients=[lower])
        whole = tf.gradients(tf.reduce_sum(upper * upper), variables)
        assert [each is None for each in held] == ["lower" in each.name for each in variables]
        pairs = [(a, b) for a, b in zip(held, whole, strict=True) if a is not None]
        for one, other in run(pairs):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
