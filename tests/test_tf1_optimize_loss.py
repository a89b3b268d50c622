"""`optimize_loss` of `tf.contrib.layers`, and the training operations of `slim`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from unspool import tf1 as tf
from unspool.tf1.contrib import layers, slim


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def names(key: str = tf.GraphKeys.GLOBAL_VARIABLES) -> list[str]:
    return [variable.op.name for variable in tf.get_collection(key)]


def ready() -> Any:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


# -- optimize_loss ---------------------------------------------------------------------------------------------------


def quadratic() -> tuple[Any, Any]:
    weight = tf.get_variable("weight", initializer=np.array([3.0, -4.0], "float32"))
    return weight, tf.reduce_sum(tf.square(weight)) / 2  # whose gradient is the weight


def after(train: Any, weight: Any, turns: int = 1) -> Any:
    with ready() as session:
        for _ in range(turns):
            loss = session.run(train)
        return loss, session.run(weight)


def test_a_step_of_optimize_loss_returns_the_loss_before_it() -> None:
    weight, loss = quadratic()
    step = tf.train.get_or_create_global_step()
    train = layers.optimize_loss(loss, step, 0.5, "SGD", summaries=[])
    assert names() == ["weight", "global_step", "OptimizeLoss/learning_rate"]
    found, values = after(train, [weight, step])
    assert found == 12.5
    np.testing.assert_allclose(values[0], [1.5, -2.0])
    assert values[1] == 1


@pytest.mark.parametrize(
    ("optimizer", "rate"),
    [
        ("SGD", 0.5),
        (tf.train.GradientDescentOptimizer, 0.5),
        (lambda rate: tf.train.GradientDescentOptimizer(rate), 0.5),
        (lambda: tf.train.GradientDescentOptimizer(0.5), None),
        ("optimiser", None),
    ],
)
def test_an_optimizer_is_a_name_a_class_a_function_or_an_object(optimizer: Any, rate: Any) -> None:
    weight, loss = quadratic()
    chosen = tf.train.GradientDescentOptimizer(0.5) if optimizer == "optimiser" else optimizer
    _, values = after(layers.optimize_loss(loss, None, rate, chosen), weight)
    np.testing.assert_allclose(values, [1.5, -2.0])


@pytest.mark.parametrize("name", layers.OPTIMIZER_CLS_NAMES)
def test_every_optimizer_has_a_name(name: str) -> None:
    weight, loss = quadratic()
    before = np.array([3.0, -4.0])
    assert not np.allclose(after(layers.optimize_loss(loss, None, 0.1, name), weight)[1], before)


def test_gradients_are_clipped_multiplied_and_the_rate_decays() -> None:
    weight, loss = quadratic()
    step = tf.train.get_or_create_global_step()
    decay = lambda rate, count: tf.train.exponential_decay(rate, count, 1, 0.5)  # noqa: E731
    train = layers.optimize_loss(
        loss, step, 1.0, "SGD", gradient_multipliers={"weight:0": 3.0}, clip_gradients=1.0, learning_rate_decay_fn=decay
    )
    _, values = after(train, weight, turns=2)
    np.testing.assert_allclose(values, np.array([3.0, -4.0]) * (5 - 1 - 0.5) / 5, rtol=1e-6)


def test_a_rate_may_be_a_tensor_and_steps_need_not_be_counted() -> None:
    weight, loss = quadratic()
    step = tf.train.get_or_create_global_step()
    train = layers.optimize_loss(loss, step, tf.constant(0.5), "SGD", increment_global_step=False, variables=[weight])
    _, values = after(train, [weight, step])
    np.testing.assert_allclose(values[0], [1.5, -2.0])
    assert values[1] == 0


def test_updates_run_with_a_step() -> None:
    _, loss = quadratic()
    count = tf.get_variable("count", initializer=0.0, trainable=False)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, count.assign_add(1.0))
    own = tf.get_variable("own", initializer=0.0, trainable=False)
    layers.optimize_loss(loss, None, 0.5, "SGD", update_ops=[own.assign_add(1.0)], name="later")
    train = layers.optimize_loss(loss, None, 0.5, "SGD")
    assert after(train, [count, own])[1] == [1.0, 0.0]


def test_noise_is_added_to_gradients_of_tables_too() -> None:
    table = tf.get_variable("table", [5, 2], initializer=tf.zeros_initializer())
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [1]))
    _, values = after(layers.optimize_loss(loss, None, 0.5, "SGD", gradient_noise_scale=0.1), table)
    assert (np.abs(values) <= 0.1).all() is np.False_
    assert np.abs(values[[0, 2, 3, 4]]).max() <= 0.1
    assert np.abs(values[1] + 0.5).max() <= 0.1
    assert (values != 0).all()


def test_rows_of_a_table_are_multiplied_and_clipped() -> None:
    table = tf.get_variable("table", [5, 2], initializer=tf.zeros_initializer())
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [1]))
    train = layers.optimize_loss(loss, None, 1.0, "SGD", gradient_multipliers={table: 2.0}, clip_gradients=1.0)
    _, values = after(train, table)
    np.testing.assert_allclose(values[1], [-(0.5**0.5)] * 2, rtol=1e-6)
    assert not values[[0, 2, 3, 4]].any()


def test_what_is_written_down() -> None:
    _, loss = quadratic()
    step, every = tf.train.get_or_create_global_step(), layers.OPTIMIZER_SUMMARIES
    same = lambda rate, _: rate  # noqa: E731
    layers.optimize_loss(loss, step, 0.5, "SGD", clip_gradients=1.0, summaries=every, learning_rate_decay_fn=same)
    found = [each.op.name for each in tf.get_collection(tf.GraphKeys.SUMMARIES)]
    assert found == [
        f"OptimizeLoss/{each}"
        for each in (
            "learning_rate_1",  # the first is the variable
            "global_norm/gradient_norm",
            "loss",
            "gradients/weight_0",
            "gradient_norm/weight_0",
            "global_norm/clipped_gradient_norm",
        )
    ]


def test_adaptive_clipping_follows_the_norm() -> None:
    norms = [1.0, 1.0, 1.0, 100.0]
    size = tf.placeholder(tf.float32, [])
    weight = tf.get_variable("weight", initializer=0.0)
    clip = layers.adaptive_clipping_fn(std_factor=2.0, decay=0.9, static_max_norm=50.0)
    train = layers.optimize_loss(weight * size, None, 1.0, "SGD", clip_gradients=clip)
    mean = square = total = 0.0
    with ready() as session:
        for norm in norms:
            session.run(train, {size: norm})
            mean += 0.1 * (np.log(norm) - mean)
            square += 0.1 * (np.log(norm) ** 2 - square)
            largest = np.exp(mean + 2 * np.sqrt(max(1e-8, square - mean**2)))
            total -= norm * min(50 / norm, 1.0 if norm < largest else np.exp(mean) / norm)
        np.testing.assert_allclose(session.run(weight), total, rtol=1e-4)
    assert names()[-2:] == ["OptimizeLoss/AdaptiveMaxNorm/mean", "OptimizeLoss/AdaptiveMaxNorm/sq_mean"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"learning_rate": 1}, ValueError, "Learning rate should be 0d Tensor or float. Got 1"),
        ({"learning_rate": -0.5}, ValueError, "Invalid learning_rate -0.5"),
        ({"learning_rate": None}, ValueError, "Learning rate is None, but should be specified if optimizer is string"),
        ({"optimizer": "Newton"}, ValueError, "Optimizer name should be one of .*Adam.*, you provided Newton"),
        ({"optimizer": 3}, ValueError, "Unrecognized optimizer: should be string"),
        ({"optimizer": lambda rate: rate}, ValueError, "function should return subclass of Optimizer"),
        ({"clip_gradients": 5}, ValueError, "Unknown type <class 'int'> for clip_gradients"),
        ({"summaries": ["colour"]}, ValueError, "Summaries should be one of .* you provided colour"),
        ({"learning_rate_decay_fn": max}, ValueError, "global_step is required for learning_rate_decay_fn"),
        ({"loss": tf.zeros}, ValueError, "Expected scalar shape"),
        ({"global_step": 0.5}, TypeError, "does not have integer type"),
    ],
)
def test_mistakes_with_optimize_loss(options: dict[str, Any], error: type[Exception], message: str) -> None:
    _, loss = quadratic()
    given = {"loss": loss, "global_step": None, "learning_rate": 0.5, "optimizer": "SGD", **options}
    given["loss"] = tf.zeros([2]) if given["loss"] is tf.zeros else given["loss"]
    with pytest.raises(error, match=message):
        layers.optimize_loss(**given)


# -- training operations ---------------------------------------------------------------------------------------------


def test_a_train_op_updates_counts_and_returns_the_loss_before() -> None:
    weight, loss = quadratic()
    count = tf.get_variable("count", initializer=0.0, trainable=False)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, count.assign_add(1.0))
    train = tf.contrib.training.create_train_op(loss, tf.train.GradientDescentOptimizer(0.5), summarize_gradients=True)
    found, values = after(train, [weight, count, tf.train.get_global_step()])
    assert found == 12.5
    np.testing.assert_allclose(values[0], [1.5, -2.0])
    assert values[1:] == [1.0, 1]
    assert train in tf.get_collection(tf.GraphKeys.TRAIN_OP)


def test_slim_multiplies_gradients_and_clips_each() -> None:
    weight, loss = quadratic()
    other = tf.get_variable("other", initializer=0.0)
    train = slim.learning.create_train_op(
        loss + 0.1 * other,
        tf.train.GradientDescentOptimizer(1.0),
        global_step=None,
        clip_gradient_norm=1.0,
        gradient_multipliers={"other": 2.0, weight: 3.0},
    )
    _, values = after(train, [weight, other])
    np.testing.assert_allclose(values[0], [3.0 - 0.6, -4.0 + 0.8], rtol=1e-6)
    np.testing.assert_allclose(values[1], -0.2, rtol=1e-6)


def test_a_loss_that_is_no_number_is_an_error() -> None:
    weight = tf.get_variable("weight", initializer=0.0)
    train = slim.learning.create_train_op(tf.log(weight), tf.train.GradientDescentOptimizer(1.0))
    with ready() as session, pytest.raises(tf.errors.InvalidArgumentError, match="LossTensor is inf or nan"):
        session.run(train)


@pytest.mark.parametrize(
    ("pairs", "factors", "message"),
    [
        ((), {"a": 1.0}, "must be a list"),
        ([], {}, "is empty"),
        ([], [1.0], "must be a dict"),
        (None, {"weight": 1.0}, "multiple of `None` gradient"),
    ],
)
def test_mistakes_with_multipliers(pairs: Any, factors: Any, message: str) -> None:
    weight, _ = quadratic()
    with pytest.raises(ValueError, match=message):
        slim.learning.multiply_gradients([(None, weight)] if pairs is None else pairs, factors)
