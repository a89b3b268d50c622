"""`tf.contrib.layers`, `framework` and `slim`: scopes of arguments, names of variables, and `optimize_loss`."""

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
