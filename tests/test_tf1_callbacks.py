"""Functions that programs give to cells: they are called with symbolic tensors, as everything else in a graph."""

from __future__ import annotations

import functools
import zlib
from typing import Any

import numpy as np
import pytest

import unspool
import unspool.tf1 as tf

cells, seq2seq = tf.nn.rnn_cell, tf.contrib.seq2seq
inputs = np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float32)
memory = np.random.default_rng(1).normal(size=(2, 7, 3)).astype(np.float32)


def numbers(name: str, shape: Any) -> np.ndarray[Any, Any]:
    """Numbers for a variable, by the last parts of its name."""
    key = "/".join(name.split("/")[-2:]).replace("attention_layer", "mine")
    return np.random.default_rng(zlib.crc32(key.encode())).normal(size=shape.as_list())


def outputs_and_gradients(cell: Any, feeds: Any = None, **given: Any) -> list[np.ndarray[Any, Any]]:
    """What a loop of the cell puts out, and the gradients of it by all variables; by a plan."""
    outputs, _ = tf.nn.dynamic_rnn(cell, tf.constant(inputs), dtype=tf.float32)
    variables = tf.trainable_variables()
    gradients = tf.gradients(tf.reduce_sum(outputs**2), variables)
    with tf.Session() as session, unspool.strict():
        for each in variables:
            own = next((value for name, value in given.items() if name in each.name), None)
            each.load(numbers(each.name, each.shape) if own is None else own, session)
        return session.run([outputs, *gradients], feeds)


def same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        # Sums in float32, in another order: of terms as large as the largest element.
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-6 * max(1, np.abs(other).max()))


def split_and_add(x: Any, y: Any) -> Any:
    """As translators of the day write it, for inputs that are wider than the outputs."""
    own, _ = tf.split(x, [y.get_shape().as_list()[-1], x.get_shape().as_list()[-1] - y.shape[-1].value], axis=-1)
    own.get_shape().assert_is_compatible_with(y.get_shape())
    return tf.contrib.framework.nest.map_structure(lambda one, other: one + other, own, y)


def test_a_residual_function_splits_its_inputs_by_static_shapes() -> None:
    with tf.Graph().as_default():
        found = outputs_and_gradients(cells.ResidualWrapper(cells.BasicLSTMCell(3), residual_fn=split_and_add))
    with tf.Graph().as_default():
        plain = outputs_and_gradients(cells.BasicLSTMCell(3))
    np.testing.assert_allclose(found[0], plain[0] + inputs[:, :, :3], rtol=1e-6)


def checked(x: Any) -> Any:
    assert x.get_shape().as_list() == [2, 4]
    return tf.tanh(x)


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        (cells.BasicRNNCell, functools.partial(tf.tanh, name="squashed")),
        (cells.BasicRNNCell, lambda x: tf.tanh(x) * tf.ones([tf.shape(x)[0], 1])),
        (cells.GRUCell, checked),
        (cells.LSTMCell, checked),
        (tf.contrib.rnn.UGRNNCell, checked),
    ],
)
def test_an_activation_is_a_function_of_symbolic_tensors(kind: Any, function: Any) -> None:
    with tf.Graph().as_default():
        found = outputs_and_gradients(kind(4, activation=function))
    with tf.Graph().as_default():
        same(found, outputs_and_gradients(kind(4)))


def test_an_activation_reads_the_graph_around_it_and_has_a_variable() -> None:
    with tf.Graph().as_default():
        slope = tf.placeholder(tf.float32, [])

        def leaky(x: Any) -> Any:
            return tf.get_variable("gain", []) * tf.maximum(x, slope * x)

        found = outputs_and_gradients(cells.BasicRNNCell(4, activation=leaky), {slope: 0.2}, gain=1.0)
        assert [each.op.name for each in tf.trainable_variables()][-1] == "rnn/gain"
    with tf.Graph().as_default():
        same(found[:-1], outputs_and_gradients(cells.BasicRNNCell(4, activation=tf.nn.leaky_relu)))


@pytest.mark.parametrize("wrapper", [tf.contrib.rnn.InputProjectionWrapper, tf.contrib.rnn.OutputProjectionWrapper])
def test_the_activation_of_a_projection(wrapper: Any) -> None:
    made = []
    for activation in (tf.nn.relu, lambda x: tf.where(x > 0, x, tf.zeros(tf.shape(x)))):
        with tf.Graph().as_default():
            made.append(outputs_and_gradients(wrapper(cells.GRUCell(4), 3, activation=activation)))
    same(*made)


def attention(options: dict[str, Any], **mechanism: Any) -> Any:
    looks = seq2seq.BahdanauAttention(4, tf.constant(memory), **mechanism)
    return seq2seq.AttentionWrapper(cells.GRUCell(4), looks, **options)


def test_the_probabilities_of_an_attention() -> None:
    def probabilities(score: Any) -> Any:
        assert score.get_shape().as_list() == [2, 7]
        high = tf.exp(score - tf.reduce_max(score, 1, keepdims=True))
        return high / tf.reduce_sum(high, 1, keepdims=True)

    with tf.Graph().as_default():
        found = outputs_and_gradients(attention({"attention_layer_size": 6}, probability_fn=probabilities))
    with tf.Graph().as_default():
        same(found, outputs_and_gradients(attention({"attention_layer_size": 6})))


def test_an_attention_layer_of_the_programs_own() -> None:
    with tf.Graph().as_default():
        layer = tf.layers.Dense(6, use_bias=False, name="mine")
        cell = attention({"attention_layer": layer})
        assert cell.output_size == 6
        found = outputs_and_gradients(cell)
        names = [each.op.name for each in tf.trainable_variables()]
        assert names[-1] == "rnn/attention_wrapper/mine/kernel"  # the last, as in TensorFlow
    with tf.Graph().as_default():
        same(found, outputs_and_gradients(attention({"attention_layer_size": 6})))


def test_a_layer_for_each_of_several_mechanisms() -> None:
    layers = [tf.layers.Dense(6, activation=tf.tanh), tf.layers.Dense(2)]
    with tf.Graph().as_default():
        looks = [seq2seq.LuongAttention(4, tf.constant(memory)) for _ in layers]
        cell = seq2seq.AttentionWrapper(cells.GRUCell(4), looks, attention_layer=layers)
        assert outputs_and_gradients(cell)[0].shape == (2, 5, 8)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="residual_fn must be callable, but got 3"):
        cells.ResidualWrapper(cells.GRUCell(4), residual_fn=3)
    with pytest.raises(TypeError, match="attention_layer must be a module, but is"):
        attention({"attention_layer": 3})
    with pytest.raises(ValueError, match="only one of attention_layer_size and attention_layer may be given"):
        attention({"attention_layer": tf.layers.Dense(3), "attention_layer_size": 3})
