"""Optimisers, decays and moving averages against TensorFlow's numbers, and what they say of wrong arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from tests import tf1_recorded, tf1_training
from unspool import tf1 as tf
from unspool.tf1 import train


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def ready() -> Any:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


def names() -> list[str]:
    return [variable.op.name for variable in tf.global_variables()]


@pytest.mark.parametrize("optimizer", tf1_training.OPTIMIZERS)
def test_twenty_steps_are_tensorflow_s_in_values_names_and_order(optimizer: str) -> None:
    # Powers other than the half are computed by another library.
    tolerance = 5e-6 if optimizer == "ftrl_shrinkage" else 1e-6
    tf1_recorded.check("optimizers", optimizer, tf1_training.trained(tf, optimizer), tolerance)


def test_hyperparameters_are_float32_for_variables_of_float64_too() -> None:
    tf1_recorded.check("optimizers", "adam_float64", tf1_training.trained(tf, "adam", "float64"), 1e-12)


def test_optimizers_of_the_same_variable_have_slots_of_their_own() -> None:
    tf1_recorded.check("optimizers", "two_of_them", tf1_training.two_of_them(tf))


def test_decays_are_tensorflow_s() -> None:
    tf1_recorded.check("optimizers", "decays", tf1_training.decays(tf))


def test_moving_averages_are_tensorflow_s() -> None:
    tf1_recorded.check("optimizers", "moving_averages", tf1_training.moving_averages(tf))


def test_slots_are_found_by_name_and_are_not_trained() -> None:
    weight = tf.get_variable("weight", [2])
    optimizer = train.AdamOptimizer()
    optimizer.minimize(tf.reduce_sum(weight))
    assert optimizer.get_slot_names() == ["m", "v"]
    assert optimizer.get_slot(weight, "m").op.name == "weight/Adam"
    assert optimizer.get_slot(weight, "v").op.name == "weight/Adam_1"
    assert optimizer.get_slot(weight, "other") is None
    assert tf.trainable_variables() == [weight]


def test_rate_may_be_fed() -> None:
    weight, rate = tf.Variable(1.0), tf.placeholder(tf.float32, [])
    step = train.GradientDescentOptimizer(rate).minimize(weight * 2.0)
    with ready() as session:
        session.run(step, {rate: 0.25})
        assert session.run(weight) == 0.5


def test_rate_that_decays_is_that_of_the_step_before_it_is_counted() -> None:
    weight, count = tf.Variable(8.0), train.get_or_create_global_step()
    rate = train.exponential_decay(1.0, count, 1, 0.5)
    step = train.GradientDescentOptimizer(rate).minimize(weight * 1.0, global_step=count)
    with ready() as session:
        for _ in range(3):
            session.run(step)
        assert session.run(weight) == 8 - 1 - 0.5 - 0.25
        assert train.global_step(session, count) == 3


def test_all_hyperparameters_may_be_tensors() -> None:
    def trained(given: Any) -> Any:
        with tf.Graph().as_default():
            weight = tf.Variable([1.0, -2.0])
            numbers = [given(value) for value in (0.01, 0.8, 0.9, 1e-4)]
            step = train.AdamOptimizer(*numbers).minimize(tf.reduce_sum(tf.square(weight)))
            with ready() as session:
                for _ in range(5):
                    session.run(step)
                return session.run(weight)

    np.testing.assert_allclose(trained(float), trained(lambda value: tf.constant(value)), rtol=1e-7)


def test_loss_and_gradients_fetched_with_a_step_are_those_before_it() -> None:
    weight = tf.Variable([3.0])
    loss = tf.reduce_sum(tf.square(weight))
    optimizer = train.GradientDescentOptimizer(0.5)
    pairs = optimizer.compute_gradients(loss)
    step = optimizer.apply_gradients(pairs)
    with ready() as session:
        before, slope, value, _ = session.run([loss, pairs[0][0], weight, step])
        assert (before, slope.item(), value.item()) == (9.0, 6.0, 3.0)
        assert session.run(weight) == 0.0


def test_two_optimizers_step_in_one_run() -> None:
    one, other = tf.Variable(1.0), tf.Variable(2.0)
    loss = one * other
    first = train.GradientDescentOptimizer(1.0).minimize(loss, var_list=[one])
    second = train.GradientDescentOptimizer(-1.0).minimize(loss, var_list=[other])
    with ready() as session:
        session.run([first, second])
        assert session.run([one, other]) == [-1.0, 3.0]


def test_gradients_may_be_changed_before_they_are_applied() -> None:
    weight = tf.Variable([3.0, 4.0])
    optimizer = train.GradientDescentOptimizer(1.0)
    grads, variables = zip(*optimizer.compute_gradients(tf.reduce_sum(tf.square(weight)) / 2.0), strict=True)
    clipped, _ = tf.clip_by_global_norm(grads, 1.0)
    step = optimizer.apply_gradients(zip(clipped, variables, strict=True))
    with ready() as session:
        session.run(step)
        np.testing.assert_allclose(session.run(weight), [3 - 0.6, 4 - 0.8], rtol=1e-6)


def test_rows_that_were_not_looked_up_keep_still_and_keep_their_momentum() -> None:
    table, ids = tf.get_variable("table", initializer=np.ones((3, 1), "float32")), tf.placeholder(tf.int32, [None])
    optimizer = train.MomentumOptimizer(1.0, 0.5)
    grads, variables = zip(*optimizer.compute_gradients(tf.reduce_sum(tf.gather(table, ids))), strict=True)
    step = optimizer.apply_gradients(zip(tf.clip_by_global_norm(grads, 100.0)[0], variables, strict=True))
    with ready() as session:
        session.run(step, {ids: [0, 0]})
        session.run(step, {ids: [1]})
        assert session.run(table)[:, 0].tolist() == [-1.0, 0.0, 1.0]
        assert session.run(optimizer.get_slot(table, "momentum"))[:, 0].tolist() == [2.0, 1.0, 0.0]


def test_rows_move_on_if_the_table_is_read_in_another_way_too() -> None:
    table, ids = tf.get_variable("table", initializer=np.ones((3, 1), "float32")), tf.placeholder(tf.int32, [None])
    loss = tf.reduce_sum(tf.gather(table, ids)) + 0.0 * tf.reduce_sum(table)
    step = train.MomentumOptimizer(1.0, 0.5).minimize(loss)
    with ready() as session:
        session.run(step, {ids: [0]})
        session.run(step, {ids: [1]})
        assert session.run(table)[:, 0].tolist() == [-0.5, 0.0, 1.0]


def test_variables_of_several_dtypes_are_trained_together() -> None:
    narrow, wide = tf.Variable(1.0), tf.Variable(np.float64(1.0))
    step = train.AdamOptimizer(0.1).minimize(narrow + tf.cast(wide, tf.float32))
    with ready() as session:
        session.run(step)
        np.testing.assert_allclose(session.run([narrow, wide]), [0.9, 0.9], rtol=1e-6)


def test_the_tensors_of_a_session_stay_the_same_ones() -> None:
    weight = tf.get_variable("weight", [2])
    step = train.AdamOptimizer().minimize(tf.reduce_sum(weight))
    with ready() as session:
        before = session.state.value_of(weight)
        session.run(step)
        assert session.state.value_of(weight) is before
        assert isinstance(before, torch.nn.Parameter)


def test_a_step_is_one_operation_named_as_the_optimizer() -> None:
    weight = tf.get_variable("weight", [2])
    step = train.AdamOptimizer().minimize(tf.reduce_sum(weight))
    assert step.name == "Adam"
    assert train.AdamOptimizer().minimize(tf.reduce_sum(weight), name="again").name == "again"
    assert tf.get_default_graph().get_collection("train_op")[0] is step


def test_no_variables_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"No variables to optimize\."):
        train.AdamOptimizer().minimize(tf.constant(1.0))


def test_a_loss_that_depends_on_no_variable_is_an_error_that_lists_them() -> None:
    tf.get_variable("weight", [2])
    with pytest.raises(ValueError, match=r"No gradients provided for any variable.*weight:0.*and loss"):
        train.AdamOptimizer().minimize(tf.constant(1.0))


def test_no_loss_is_an_error() -> None:
    with pytest.raises(ValueError, match="loss is None"):
        train.AdamOptimizer().minimize(None)


def test_a_loss_of_whole_numbers_is_an_error() -> None:
    tf.get_variable("weight", [2])
    with pytest.raises(ValueError, match=r"Invalid type tf\.int32"):
        train.AdamOptimizer().minimize(tf.constant(1))


def test_no_pairs_and_no_gradients_are_errors() -> None:
    weight = tf.get_variable("weight", [2])
    with pytest.raises(ValueError, match=r"No variables provided\."):
        train.AdamOptimizer().apply_gradients([])
    with pytest.raises(ValueError, match=r"No gradients provided for any variable.*weight"):
        train.AdamOptimizer().apply_gradients([(None, weight)])


def test_a_gradient_of_another_shape_is_an_error() -> None:
    weight = tf.get_variable("weight", [2])
    with pytest.raises(ValueError, match=r"gradient of weight:0 has shape \(3,\), but the variable \(2,\)"):
        train.AdamOptimizer().apply_gradients([(tf.zeros([3]), weight)])


def test_a_rate_that_is_no_number_is_an_error() -> None:
    weight = tf.get_variable("weight", [2])
    with pytest.raises(TypeError, match="learning_rate must be a number or a scalar tensor, but is 'fast'"):
        train.AdamOptimizer("fast").minimize(tf.reduce_sum(weight))


def test_wrong_arguments_of_optimizers_are_errors() -> None:
    with pytest.raises(ValueError, match="initial_accumulator_value must be positive: 0"):
        train.AdagradOptimizer(0.1, 0.0)
    with pytest.raises(ValueError, match="learning_rate_power 1"):
        train.FtrlOptimizer(0.1, 1.0)
    with pytest.raises(ValueError, match="l1_regularization_strength -1"):
        train.FtrlOptimizer(0.1, l1_regularization_strength=-1.0)


def test_a_decay_without_a_step_is_an_error() -> None:
    with pytest.raises(ValueError, match="global_step is required for ExponentialDecay"):
        train.exponential_decay(0.1, None, 10, 0.9)


def test_one_boundary_too_many_is_an_error() -> None:
    with pytest.raises(ValueError, match="1 less than the length of values"):
        train.piecewise_constant(tf.constant(1), [1, 2], [0.1, 0.2])


def test_there_is_one_global_step() -> None:
    assert train.get_global_step() is None
    made = train.create_global_step()
    assert train.get_global_step() is made is train.get_or_create_global_step()
    with pytest.raises(ValueError, match='"global_step" already exists'):
        train.create_global_step()


def test_a_variable_named_global_step_is_it() -> None:
    made = tf.Variable(0, name="global_step", trainable=False)
    assert train.get_or_create_global_step() is made


def test_an_average_is_computed_once() -> None:
    weight = tf.get_variable("weight", [2])
    averages = train.ExponentialMovingAverage(0.9)
    assert averages.average_name(weight) == "weight/ExponentialMovingAverage"
    averages.apply()
    assert averages.average(weight).op.name == averages.average_name(weight)
    with pytest.raises(ValueError, match="Moving average already computed for: weight:0"):
        averages.apply([weight])


def test_averages_after_a_step_are_of_the_new_values() -> None:
    weight = tf.Variable(1.0, name="weight")
    step = train.GradientDescentOptimizer(1.0).minimize(weight * -2.0)
    averages = train.ExponentialMovingAverage(0.5)
    with tf.get_default_graph().control_dependencies([step]):
        update = averages.apply()
    with ready() as session:
        session.run(update)
        assert session.run([weight, averages.average(weight)]) == [3.0, 2.0]


def test_a_name_that_is_not_there_says_what_is_near() -> None:
    with pytest.raises(AttributeError, match=r"no tf\.train\.AdamOptimiser; did you mean tf\.train\.AdamOptimizer"):
        train.AdamOptimiser  # noqa: B018
