"""Layers and metrics against TensorFlow's names and numbers, and what they say of wrong arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests import tf1_layers, tf1_recorded
from unspool import tf1 as tf
from unspool.tf1 import layers, losses, metrics
from unspool.tf1.contrib import layers as contrib_layers


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


def rows(size: int = 3) -> Any:
    return tf.placeholder(tf.float32, [None, size])


@pytest.mark.parametrize("case", tf1_layers.ALL, ids=lambda case: case.__name__)
def test_names_and_numbers_are_tensorflow_s(case: Callable[..., Any]) -> None:
    tf1_recorded.check("layers", case.__name__, case(tf))


# -- dense -----------------------------------------------------------------------------------------------------------


def test_a_name_used_twice_without_reuse_is_an_error() -> None:
    layers.dense(rows(), 4, name="twice")
    with pytest.raises(ValueError, match="Variable twice/kernel already exists"):
        layers.dense(rows(), 4, name="twice")


def test_reuse_of_what_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="Variable absent/kernel does not exist"):
        layers.dense(rows(), 4, name="absent", reuse=True)


def test_a_layer_shares_its_variables_between_calls() -> None:
    layer = layers.Dense(4)
    x = tf.ones([2, 3])
    one, other = layer(x), layer(x)
    assert names() == ["dense/kernel", "dense/bias"]
    with ready() as session:
        np.testing.assert_array_equal(*session.run([one, other]))


def test_operations_are_named_by_the_scope_of_the_layer() -> None:
    assert layers.dense(rows(), 4).op.name == "dense/BiasAdd"
    assert layers.dense(rows(), 4, tf.tanh, name="own").op.name.startswith("own/")


def test_the_parts_of_a_layer_are_there_once_it_is_built() -> None:
    layer = layers.Dense(4, activation=tf.tanh, use_bias=False)
    with pytest.raises(RuntimeError, match=r"has no variables yet: call it, or build\(input_size\)"):
        layer.module_parts()
    layer.build(3)
    assert layer.module_parts() == (layer.kernel, None, tf.tanh)
    assert layer.kernel.op.name == "dense/kernel"
    assert layer(rows()).shape.as_list() == [None, 4]
    assert names() == ["dense/kernel"]


def test_variables_take_the_dtype_of_the_input() -> None:
    layer = layers.Dense(4)
    assert layer(tf.zeros([2, 3], tf.float64)).dtype is tf.float64
    assert layer.kernel.dtype is tf.float64


def test_a_layer_that_is_not_trainable_has_no_trainable_variables() -> None:
    layer = layers.Dense(4, trainable=False)
    layer(rows())
    assert layer.trainable_variables == tf.trainable_variables() == []
    assert len(layer.non_trainable_variables) == 2


def test_losses_of_regularizers_are_listed_once() -> None:
    for _ in range(2):
        with tf.variable_scope("around", reuse=tf.AUTO_REUSE):
            layers.dense(rows(), 4, name="dense", kernel_regularizer=contrib_layers.l2_regularizer(0.5))
    assert len(losses.get_regularization_losses()) == 1


def test_inputs_of_unknown_width_or_one_axis_are_errors() -> None:
    with pytest.raises(ValueError, match="last dimension of the inputs to `Dense` should be defined"):
        layers.dense(tf.placeholder(tf.float32, [3, None]), 4)
    with pytest.raises(ValueError, match="expected min_ndim=2, found ndim=1"):
        layers.dense(tf.zeros([3]), 4)


def test_units_must_be_positive() -> None:
    with pytest.raises(ValueError, match="units must be positive, but is 0"):
        layers.Dense(0)


def test_an_argument_that_is_not_there_is_an_error() -> None:
    with pytest.raises(TypeError, match="Dense has no argument 'unit'"):
        layers.Dense(3, unit=4)


def test_a_layer_inside_a_condition_makes_its_variables_outside() -> None:
    x, flag = tf.ones([2, 3]), tf.placeholder(tf.bool, [])
    made = tf.cond(flag, lambda: layers.dense(x, 4, name="inside"), lambda: tf.zeros([2, 4]))
    with ready() as session:
        assert session.run(made, {flag: False}).tolist() == [[0.0] * 4] * 2
        assert session.run(made, {flag: True}).shape == (2, 4)


# -- dropout ---------------------------------------------------------------------------------------------------------


def test_nothing_is_dropped_unless_training() -> None:
    x = tf.ones([100])
    with ready() as session:
        assert session.run(layers.dropout(x)).tolist() == [1.0] * 100
        dropped = session.run(layers.dropout(x, 0.25, training=True))
        assert set(dropped.tolist()) == {0.0, np.float32(1 / 0.75).item()}


def test_whether_to_drop_may_be_fed() -> None:
    training = tf.placeholder(tf.bool, [])
    made = layers.dropout(tf.ones([100]), training=training)
    with ready() as session:
        assert session.run(made, {training: False}).tolist() == [1.0] * 100
        assert set(session.run(made, {training: True}).tolist()) == {0.0, 2.0}


# -- batch normalisation ---------------------------------------------------------------------------------------------


def test_averages_change_only_where_their_updates_run() -> None:
    made = layers.batch_normalization(tf.constant([[1.0], [3.0]]), training=True, momentum=0.5)
    updates = tf.get_default_graph().get_collection(tf.GraphKeys.UPDATE_OPS)
    mean = next(each for each in tf.global_variables() if each.op.name.endswith("moving_mean"))
    with ready() as session:
        session.run(made)
        assert session.run(mean) == 0
        session.run(updates)
        assert session.run(mean) == 1


def test_there_is_nothing_to_update_where_it_never_trains() -> None:
    layers.batch_normalization(rows(), training=False)
    assert tf.get_default_graph().get_collection(tf.GraphKeys.UPDATE_OPS) == []


def test_features_of_unknown_number_are_an_error() -> None:
    with pytest.raises(ValueError, match="known size along axis -1"):
        layers.batch_normalization(tf.placeholder(tf.float32, [3, None]))


# -- the older layers ------------------------------------------------------------------------------------------------


def test_fully_connected_has_the_older_names_and_a_relu() -> None:
    made = contrib_layers.fully_connected(tf.constant([[-1.0, 1.0]]), 2, weights_initializer=tf.ones_initializer())
    contrib_layers.fully_connected(rows(), 2, activation_fn=None, biases_initializer=None)
    contrib_layers.fully_connected(rows(), 2, scope="own")
    contrib_layers.fully_connected(rows(), 2, scope="own", reuse=True)
    assert names() == [
        "fully_connected/weights",
        "fully_connected/biases",
        "fully_connected_1/weights",
        "own/weights",
        "own/biases",
    ]
    with ready() as session:
        assert session.run(made).tolist() == [[0.0, 0.0]]


def test_fully_connected_may_be_normalized() -> None:
    contrib_layers.fully_connected(
        rows(), 2, normalizer_fn=contrib_layers.batch_norm, normalizer_params={"is_training": True, "scale": True}
    )
    assert names() == [
        "fully_connected/weights",
        "fully_connected/BatchNorm/beta",
        "fully_connected/BatchNorm/gamma",
        "fully_connected/BatchNorm/moving_mean",
        "fully_connected/BatchNorm/moving_variance",
    ]
    assert len(tf.get_default_graph().get_collection(tf.GraphKeys.UPDATE_OPS)) == 2


def test_batch_norm_updates_with_its_output_if_asked() -> None:
    made = contrib_layers.batch_norm(tf.constant([[1.0], [3.0]]), decay=0.5, updates_collections=None)
    with ready() as session:
        session.run(made)
        assert session.run("BatchNorm/moving_mean:0") == 1
    assert tf.get_default_graph().get_collection(tf.GraphKeys.UPDATE_OPS) == []


def test_embed_sequence_looks_up_rows_of_its_table() -> None:
    ids = tf.placeholder(tf.int32, [None, 5])
    made = contrib_layers.embed_sequence(ids, vocab_size=7, embed_dim=3)
    assert names() == ["EmbedSequence/embeddings"]
    assert made.shape.as_list() == [None, 5, 3]
    with pytest.raises(ValueError, match="Must specify vocab size"):
        contrib_layers.embed_sequence(ids)


def test_regularizers_are_scaled_sums() -> None:
    weight = tf.constant([1.0, -3.0])
    with ready() as session:
        assert session.run(contrib_layers.l1_regularizer(0.5)(weight)) == 2.0
        assert session.run(contrib_layers.l2_regularizer(0.5)(weight)) == 2.5
        assert session.run(contrib_layers.l1_l2_regularizer(0.5, 0.5)(weight)) == 4.5
    assert contrib_layers.l2_regularizer(0.0)(weight) is None
    with pytest.raises(ValueError, match="scale cannot be an integer: 1"):
        contrib_layers.l2_regularizer(1)
    with pytest.raises(ValueError, match="less than 0"):
        contrib_layers.l1_regularizer(-0.5)


@pytest.mark.parametrize("uniform", [True, False])
def test_xavier_keeps_the_variance(uniform: bool) -> None:
    drawn = contrib_layers.xavier_initializer(uniform, seed=1)([400, 200])
    with ready() as session:
        # A truncated normal of 1.3 times the variance has 1.0058 of it left.
        np.testing.assert_allclose(session.run(drawn).var(), 1 / 300, rtol=0.02)


def test_dropout_takes_the_probability_to_keep() -> None:
    keep = tf.placeholder(tf.float32, [])
    made = contrib_layers.dropout(tf.ones([100]), keep)
    with ready() as session:
        assert session.run(made, {keep: 1.0}).tolist() == [1.0] * 100
        assert set(session.run(made, {keep: 0.5}).tolist()) == {0.0, 2.0}


def test_the_weights_of_a_layer_are_read_and_set_in_the_default_session() -> None:
    layer = tf.layers.Dense(2)
    with pytest.raises(ValueError, match="`count_params` on dense, but the layer isn't built"):
        layer.count_params()
    made = layer(tf.ones([1, 3]))
    assert layer.count_params() == 8
    with tf.Session() as session:
        assert [each.shape for each in layer.get_weights()] == [(3, 2), (2,)]  # which begin there
        layer.set_weights([np.ones([3, 2]), [1.0, 2.0]])
        assert session.run(made).tolist() == [[4.0, 5.0]]
        with pytest.raises(ValueError, match="length 1, but the layer was expecting 2 weights"):
            layer.set_weights([np.ones([3, 2])])
        with pytest.raises(ValueError, match="not compatible with provided weight shape"):
            layer.set_weights([np.zeros([3, 2]), np.zeros([3])])
        assert session.run(made).tolist() == [[4.0, 5.0]]
    with pytest.raises(ValueError, match="No default session is registered"):
        layer.get_weights()


# -- metrics ---------------------------------------------------------------------------------------------------------


def test_metrics_begin_again_with_their_local_variables() -> None:
    x = tf.placeholder(tf.float32, [None])
    value, update = metrics.mean(x)
    with tf.Session() as session:
        for _ in range(2):
            session.run(tf.local_variables_initializer())
            assert session.run(update, {x: [2.0, 4.0]}) == 3
            assert session.run(value) == 3
    assert tf.global_variables() == []


def test_predictions_of_another_shape_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"Shapes \(3,\) and \(2,\) are incompatible"):
        metrics.accuracy(tf.zeros([2]), tf.zeros([3]))
