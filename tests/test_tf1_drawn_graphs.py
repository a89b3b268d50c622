"""Random small graphs over placeholders of unknown sizes: static shapes are true, values are torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool import tf1 as tf

SIZES = st.integers(1, 4)


class Both:
    """A tensor of the graph beside what torch computed for it."""

    def __init__(self, symbol: Any, value: torch.Tensor) -> None:
        self.symbol, self.value = symbol, value


UNARY = {"tanh": torch.tanh, "square": torch.square, "abs": torch.abs, "negative": torch.neg, "sigmoid": torch.sigmoid}
BINARY = {"add": torch.add, "multiply": torch.mul, "maximum": torch.maximum, "subtract": torch.sub}
REDUCE = {"reduce_sum": torch.sum, "reduce_max": torch.amax, "reduce_mean": torch.mean}


def placeholder(draw: Any, feed: dict[Any, Any], shape: list[int]) -> Both:
    told = draw(st.sampled_from([None, "sizes", "some"]))
    known = [size if told == "some" and draw(st.booleans()) else None for size in shape]
    symbol = tf.placeholder(tf.float32, None if told is None else known)
    value = torch.from_numpy(np.random.default_rng(len(feed)).standard_normal(shape).astype(np.float32))
    feed[symbol] = value.numpy()
    return Both(symbol, value)


def unary(draw: Any, feed: dict[Any, Any], x: Both) -> Both:
    name = draw(st.sampled_from(sorted(UNARY)))
    return Both(getattr(tf, name)(x.symbol), UNARY[name](x.value))


def binary(draw: Any, feed: dict[Any, Any], x: Both) -> Both:
    name = draw(st.sampled_from(sorted(BINARY)))
    shape = [size if draw(st.booleans()) else 1 for size in x.value.shape]
    y = placeholder(draw, feed, shape[draw(st.integers(0, len(shape))) :])
    return Both(getattr(tf, name)(x.symbol, y.symbol), BINARY[name](x.value, y.value))


def reduce(draw: Any, feed: dict[Any, Any], x: Both) -> Both:
    if not x.value.dim():
        return x
    name, keep = draw(st.sampled_from(sorted(REDUCE))), draw(st.booleans())
    axis = draw(st.integers(-x.value.dim(), x.value.dim() - 1))
    made = getattr(tf, name)(x.symbol, axis=axis, keepdims=keep)
    return Both(made, REDUCE[name](x.value, dim=axis, keepdim=keep))


def concat(draw: Any, feed: dict[Any, Any], x: Both) -> Both:
    if not x.value.dim():
        return x
    axis, shape = draw(st.integers(0, x.value.dim() - 1)), list(x.value.shape)
    shape[axis] = draw(SIZES)
    y = placeholder(draw, feed, shape)
    return Both(tf.concat([x.symbol, y.symbol], axis), torch.cat([x.value, y.value], axis))


def matmul(draw: Any, feed: dict[Any, Any], x: Both) -> Both:
    if x.value.dim() < 2:
        return x
    batch = list(x.value.shape[:-2]) if draw(st.booleans()) else []
    y = placeholder(draw, feed, [*batch, x.value.shape[-1], draw(SIZES)])
    return Both(tf.matmul(x.symbol, y.symbol), x.value @ y.value)


def transpose(draw: Any, feed: dict[Any, Any], x: Both) -> Both:
    order = draw(st.permutations(range(x.value.dim())))
    return Both(tf.transpose(x.symbol, order), x.value.permute(order))


def reshape(draw: Any, feed: dict[Any, Any], x: Both) -> Both:
    if not x.value.dim():
        return x
    by_shape = draw(st.booleans())
    sizes = [tf.shape(x.symbol)[0] if by_shape else x.value.shape[0], -1]
    return Both(tf.reshape(x.symbol, sizes), x.value.reshape(x.value.shape[0], -1))


def cut(draw: Any, feed: dict[Any, Any], x: Both) -> Both:
    if not x.value.dim():
        return x
    start, stop = draw(st.integers(-2, 2)), draw(st.none() | st.integers(1, 3))
    part = x.value[..., start:stop]
    return x if not part.numel() else Both(x.symbol[..., start:stop], part)


def expand(draw: Any, feed: dict[Any, Any], x: Both) -> Both:
    axis = draw(st.integers(-x.value.dim() - 1, x.value.dim()))
    return x if x.value.dim() > 3 else Both(tf.expand_dims(x.symbol, axis), x.value.unsqueeze(axis))


STEPS = [unary, binary, reduce, concat, matmul, transpose, reshape, cut, expand]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data())
def test_static_shapes_are_true_and_values_are_torchs(data: st.DataObject):
    with tf.Graph().as_default(), torch.no_grad():
        feed: dict[Any, Any] = {}
        x = placeholder(data.draw, feed, data.draw(st.lists(SIZES, min_size=1, max_size=3)))
        seen = [x]
        for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=7)):
            seen.append(step(data.draw, feed, seen[-1]))
        with tf.Session() as session:
            made = session.run([each.symbol for each in seen], feed)
    for each, value in zip(seen, made, strict=True):
        assert each.symbol.shape.is_compatible_with(value.shape), (each.symbol, value.shape)
        np.testing.assert_allclose(value, each.value.numpy(), rtol=1e-6, atol=1e-6)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_gradients_are_torchs(data: st.DataObject):
    with tf.Graph().as_default():
        feed: dict[Any, Any] = {}
        x = placeholder(data.draw, feed, data.draw(st.lists(SIZES, min_size=1, max_size=3)))
        x.value.requires_grad_()
        y = x
        for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=5)):
            y = step(data.draw, feed, y)
        (slope,) = tf.gradients(tf.reduce_sum(tf.sin(y.symbol)), x.symbol)
        (expected,) = torch.autograd.grad(torch.sin(y.value).sum(), x.value)
        with tf.Session() as session:
            np.testing.assert_allclose(session.run(slope, feed), expected.numpy(), rtol=1e-4, atol=1e-5)
