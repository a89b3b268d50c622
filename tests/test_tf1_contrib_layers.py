"""`tf.contrib.layers`, `framework` and `slim`: scopes of arguments, layers, and names of variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unspool import tf1 as tf
from unspool.tf1.contrib import framework, layers, losses, slim


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def names(key: str = tf.GraphKeys.GLOBAL_VARIABLES) -> list[str]:
    return [variable.op.name for variable in tf.get_collection(key)]


def images(*shape: int) -> Any:
    return tf.constant(np.random.default_rng(0).normal(size=shape or (2, 6, 6, 3)).astype("float32"))


def ready() -> Any:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


# -- arguments of a block --------------------------------------------------------------------------------------------


@framework.add_arg_scope
def told(a: int, b: int = 2, c: int = 3) -> tuple[int, int, int]:
    return a, b, c


@framework.add_arg_scope
def other(a: int = 1) -> int:
    return a


def test_a_call_wins_over_the_block_and_the_inner_block_over_the_outer() -> None:
    assert told(1) == (1, 2, 3)
    with framework.arg_scope([told, other], a=0), framework.arg_scope([told], b=20, c=30) as inner:
        assert told() == (0, 20, 30)
        assert told(c=5) == (0, 20, 5)
        assert other() == 0
        with framework.arg_scope([told], b=200):
            assert told(a=7) == (7, 200, 30)
    assert told(1) == (1, 2, 3)
    with framework.arg_scope(inner):
        assert told() == (0, 20, 30)


def test_what_is_said_of_a_function() -> None:
    assert framework.has_arg_scope(told)
    assert not framework.has_arg_scope(len)
    assert framework.arg_scoped_arguments(told) == ("b", "c")
    with framework.arg_scope([told], b=5):
        assert framework.current_arg_scope()[framework.arg_scope_func_key(told)] == {"b": 5}


@pytest.mark.parametrize(
    ("scope", "more", "error", "message"),
    [
        (told, {}, TypeError, "must either be a list/tuple or reused scope"),
        ([len], {}, ValueError, "len is not decorated with @add_arg_scope"),
        ({}, {"a": 1}, ValueError, "kwargs must be empty"),
    ],
)
def test_mistakes_with_blocks(scope: Any, more: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message), framework.arg_scope(scope, **more):
        pass


def test_a_block_is_left_by_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), framework.arg_scope([told], b=9):
        1 / 0  # noqa: B018
    assert told(1) == (1, 2, 3)


# -- layers ----------------------------------------------------------------------------------------------------------


def test_a_network_of_slim_has_tensorflow_s_names() -> None:
    with (
        slim.arg_scope(
            [slim.conv2d, slim.fully_connected],
            activation_fn=tf.nn.relu,
            weights_initializer=tf.truncated_normal_initializer(stddev=0.1),
            weights_regularizer=slim.l2_regularizer(0.0005),
            normalizer_fn=slim.batch_norm,
            normalizer_params={"is_training": True},
        ),
        slim.arg_scope([slim.max_pool2d], padding="SAME"),
    ):
        net = slim.conv2d(images(), 4, [3, 3], scope="conv1")
        net = slim.max_pool2d(net, [2, 2], scope="pool1")
        net = slim.repeat(net, 2, slim.conv2d, 5, [3, 3], scope="conv2")
        net = slim.dropout(slim.flatten(net), 0.5, is_training=False)
        net = slim.stack(net, slim.fully_connected, [7, 6], scope="fc")
        net = slim.fully_connected(net, 3, activation_fn=None, normalizer_fn=None, scope="logits")
    norms = ["BatchNorm/beta", "BatchNorm/moving_mean", "BatchNorm/moving_variance"]
    hidden = ["conv1", "conv2/conv2_1", "conv2/conv2_2", "fc/fc_1", "fc/fc_2"]
    expected = [f"{scope}/{each}" for scope in hidden for each in ["weights", *norms]]
    assert names() == [*expected, "logits/weights", "logits/biases"]
    assert sorted(names(tf.GraphKeys.MODEL_VARIABLES)) == sorted(names())
    assert slim.get_model_variables("conv2/conv2_1")[0].op.name == "conv2/conv2_1/weights"
    assert len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 6
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 10
    assert net.shape.as_list() == [2, 3]


def test_names_without_a_scope_are_those_of_the_layer() -> None:
    layers.conv2d(images(), 2, 3)
    layers.conv2d(images(), 2, 3, normalizer_fn=layers.layer_norm)
    layers.separable_conv2d(images(), 2, 3, 2)
    layers.conv2d_transpose(images(), 2, 3, stride=2)
    layers.repeat(images(), 1, layers.conv2d, 2, 3)
    layers.stack(tf.zeros([2, 3]), layers.fully_connected, [4])
    assert names() == [
        "Conv/weights",
        "Conv/biases",
        "Conv_1/weights",
        "Conv_1/LayerNorm/beta",
        "Conv_1/LayerNorm/gamma",
        "SeparableConv2d/depthwise_weights",
        "SeparableConv2d/pointwise_weights",
        "SeparableConv2d/biases",
        "Conv2d_transpose/weights",
        "Conv2d_transpose/biases",
        "Repeat/convolution2d_1/weights",
        "Repeat/convolution2d_1/biases",
        "Stack/fully_connected_1/weights",
        "Stack/fully_connected_1/biases",
    ]


@pytest.mark.parametrize("sides", [1, 2, 3])
def test_a_convolution_is_that_of_tf_layers(sides: int) -> None:
    x = images(2, *(5, 4, 3)[:sides], 2)
    old = layers.convolution(x, 3, 2, stride=2, padding="VALID", activation_fn=None, scope="old")
    new = getattr(tf.layers, f"conv{sides}d")(x, 3, 2, 2, name="new")
    with ready() as session:
        session.run([one.assign(two.value()) for one, two in zip(*[tf.trainable_variables(s) for s in ("new", "old")], strict=True)])  # fmt: skip  # noqa: E501
        np.testing.assert_array_equal(*session.run([old, new]))


def test_averages_of_batch_norm_are_those_of_the_fused_operation() -> None:
    rows, turned = images(4, 3), tf.transpose(images(2, 3, 3, 2), [0, 3, 1, 2])
    for number, (x, options) in enumerate(
        [(rows, {}), (rows, {"fused": False}), (images(2, 3, 3, 2), {}), (turned, {"data_format": "NCHW"})]
    ):
        layers.batch_norm(x, decay=0.0, scale=True, updates_collections=None, scope=f"norm{number}", **options)
    with ready() as session:
        session.run([each for each in tf.get_default_graph().get_operations() if each.name.endswith("Identity")])
        found = [session.run(f"norm{number}/moving_variance:0") for number in range(4)]
        values, pixels = session.run([rows, images(2, 3, 3, 2)])
    assert names()[:4] == [f"norm0/{each}" for each in ("beta", "gamma", "moving_mean", "moving_variance")]
    assert names()[4:6] == ["norm1/gamma", "norm1/beta"]
    np.testing.assert_allclose(found[0], values.var(0, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(found[1], values.var(0), rtol=1e-5)
    for each in found[2:]:
        np.testing.assert_allclose(each, pixels.reshape(-1, 2).var(0, ddof=1), rtol=1e-5)


def test_what_batch_norm_has_not() -> None:
    for option in ({"renorm": True}, {"zero_debias_moving_mean": True}, {"batch_weights": [1.0]}):
        with pytest.raises(NotImplementedError, match="are not supported"):
            layers.batch_norm(images(), **option)
    with pytest.raises(ValueError, match="NCHW or NHWC"):
        layers.batch_norm(images(), data_format="CHWN")


def test_layer_norm_is_that_of_the_mean_and_the_variance() -> None:
    x = images(2, 4, 3)
    made = layers.layer_norm(x)
    inner = layers.layer_norm(x, begin_norm_axis=-1, center=False, scale=False)
    with ready() as session:
        found, last, values = session.run([made, inner, x])
    for one, axes in ((found, (1, 2)), (last, -1)):
        expected = (values - values.mean(axes, keepdims=True)) / values.std(axes, keepdims=True)
        np.testing.assert_allclose(one, expected, rtol=0, atol=1e-5)
    assert names() == ["LayerNorm/beta", "LayerNorm/gamma"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: layers.conv2d(images(), 2, 3, data_format="CHWN"), "Invalid data_format: 'CHWN'"),
        (lambda: layers.conv2d(images(2, 3, 4), 2, 3), "Convolution expects input with rank 4, got 3"),
        (lambda: layers.max_pool2d(images(), 2, data_format="NWC"), "data_format has to be either NCHW or NHWC"),
        (lambda: layers.stack(images(), layers.conv2d, 3), "stack_args need to be a list or tuple"),
        (lambda: layers.layer_norm(tf.placeholder(tf.float32)), "has undefined rank"),
        (lambda: layers.layer_norm(images(2, 3), begin_norm_axis=2), "must be < rank"),
        (lambda: layers.layer_norm(tf.placeholder(tf.float32, [2, None])), "is not fully defined"),
    ],
)
def test_arguments_of_layers_are_checked(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_rows_of_a_table_and_of_classes() -> None:
    table = tf.get_variable("table", [5, 2])
    found = layers.embedding_lookup_unique(table, [[1, 1], [4, 0]])
    classes = layers.one_hot_encoding([1, 0], 3)
    with ready() as session:
        rows, values, ones = session.run([found, table, classes])
    np.testing.assert_array_equal(rows, values[[[1, 1], [4, 0]]])
    np.testing.assert_array_equal(ones, [[0, 1, 0], [1, 0, 0]])


# -- variables -------------------------------------------------------------------------------------------------------


def test_variables_are_found_by_scope_suffix_and_name(tmp_path: Path) -> None:
    for scope in ("one", "two"):
        with tf.variable_scope(scope):
            framework.model_variable("weights", [2], initializer=tf.ones_initializer())
            framework.variable("count", [], trainable=False, initializer=tf.zeros_initializer())
    framework.local_variable(3.0, name="passing")
    found = {
        "all": framework.get_variables(),
        "one": framework.get_variables("one"),
        "suffix": framework.get_variables_by_suffix("weights"),
        "name": framework.get_variables_by_name("count"),
        "trained": framework.get_trainable_variables("two"),
        "local": framework.get_local_variables(),
        "restored": framework.get_variables_to_restore(["one", "two"], ["two/count"]),
        "filtered": framework.filter_variables(tf.global_variables(), ["count"], ["^one"]),
    }
    assert {key: [each.op.name for each in value] for key, value in found.items()} == {
        "all": ["one/weights", "one/count", "two/weights", "two/count"],
        "one": ["one/weights", "one/count"],
        "suffix": ["one/weights", "two/weights"],
        "name": ["one/count", "two/count"],
        "trained": ["two/weights"],
        "local": ["passing"],
        "restored": ["one/weights", "one/count", "two/weights"],
        "filtered": ["two/count"],
    }
    assert framework.get_unique_variable("two/count") is found["name"][1]
    with pytest.raises(ValueError, match="Variable three not found in graph"):
        framework.get_unique_variable("three")
    with pytest.raises(TypeError, match="include is provided but is not a list"):
        framework.get_variables_to_restore("one")
    with ready() as session:
        path = tf.train.Saver(found["one"]).save(session, str(tmp_path / "model"))
        session.run([each.assign(each * 0) for each in found["suffix"]])
        restore = framework.assign_from_checkpoint_fn(path, tf.global_variables(), ignore_missing_vars=True)
        restore(session)
        np.testing.assert_array_equal(session.run(found["suffix"]), [[1, 1], [0, 0]])
        assert framework.assign_from_checkpoint_fn(path, found["trained"], ignore_missing_vars=True) is None


def test_the_older_losses_take_predictions_first() -> None:
    logits, classes = tf.constant([[1.0, 2.0], [0.5, -1.0]]), tf.constant([1, 0])
    pairs = [
        (losses.sparse_softmax_cross_entropy(logits, classes), tf.losses.sparse_softmax_cross_entropy(classes, logits)),
        (
            losses.softmax_cross_entropy(logits, tf.one_hot(classes, 2), label_smoothing=0.1),
            tf.losses.softmax_cross_entropy(tf.one_hot(classes, 2), logits, label_smoothing=0.1),
        ),
        (losses.mean_squared_error(logits, logits * 2), tf.losses.mean_squared_error(logits * 2, logits)),
        (losses.absolute_difference(logits, logits * 2, 0.5), tf.losses.absolute_difference(logits * 2, logits, 0.5)),
        (losses.hinge_loss(logits, tf.ones([2, 2])), tf.losses.hinge_loss(tf.ones([2, 2]), logits)),
    ]
    with tf.Session() as session:
        for one, two in pairs:
            assert session.run(one) == session.run(two)
        assert session.run(slim.losses.get_total_loss()) == pytest.approx(2 * sum(session.run([a for a, _ in pairs])))
