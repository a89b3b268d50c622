"""Calls of convolutions and pooling with sizes, strides, paddings and dilations drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1_ops.call import Call

Generator = np.random.Generator
SIDES = {"conv1d": 1, "conv2d": 2, "conv3d": 3}
WINDOWS = {f"{kind}_pool{sides}d": sides for kind in ("max", "avg") for sides in (1, 2, 3)}


def _floats(rng: Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


def _padding(rng: Generator) -> str:
    return ["SAME", "VALID"][rng.integers(2)]


def _images(rng: Generator, window: list[int], apart: int = 1) -> np.ndarray:
    """Images that have room for a window."""
    sizes = [(size - 1) * apart + int(rng.integers(1, 6)) for size in window]
    return _floats(rng, int(rng.integers(1, 3)), *sizes, int(rng.integers(1, 4)))


def _window(rng: Generator, sides: int) -> list[int]:
    return [int(each) for each in rng.integers(1, 4, sides)]


def _convolution(name: str) -> Callable[[Generator], Call]:
    sides = SIDES[name]

    def draw(rng: Generator) -> Call:
        window, padding = _window(rng, sides), _padding(rng)
        # TensorFlow has no kernel on a CPU for the gradients of dilated volumes, nor for strides and dilations at once.
        apart = int(rng.integers(1, 3)) if sides == 2 else 1
        strides = _window(rng, sides) if apart == 1 else [1] * sides
        strides = strides[:1] * 3 if sides == 3 else strides  # TensorFlow's CPU adds up other elements for unequal ones
        x = _images(rng, window, apart)
        w = _floats(rng, *window, x.shape[-1], int(rng.integers(1, 4)))

        def call(tf: Any, x: Any, w: Any) -> Any:
            if sides == 1:
                return tf.nn.conv1d(x, w, strides[0], padding)
            how = {"dilations": [1, *[apart] * sides, 1]} if sides == 2 else {}
            return getattr(tf.nn, name)(x, w, [1, *strides, 1], padding, **how)

        return Call(call, (x, w))

    return draw


def _depthwise(rng: Generator) -> Call:
    window, padding, stride = _window(rng, 2), _padding(rng), int(rng.integers(1, 3))
    x = _images(rng, window)
    w = _floats(rng, *window, x.shape[-1], int(rng.integers(1, 3)))
    return Call(lambda tf, x, w: tf.nn.depthwise_conv2d(x, w, [1, stride, stride, 1], padding), (x, w))


def _separable(rng: Generator) -> Call:
    window, padding, stride = _window(rng, 2), _padding(rng), int(rng.integers(1, 3))
    x = _images(rng, window)
    w = _floats(rng, *window, x.shape[-1], int(rng.integers(1, 3)))
    v = _floats(rng, 1, 1, w.shape[2] * w.shape[3], w.shape[2] * w.shape[3])
    return Call(lambda tf, x, w, v: tf.nn.separable_conv2d(x, w, v, [1, stride, stride, 1], padding), (x, w, v))


def _transposed(rng: Generator) -> Call:
    window, padding, strides = _window(rng, 2), _padding(rng), _window(rng, 2)
    target = _images(rng, window)
    kernel = _floats(rng, *window, target.shape[-1], int(rng.integers(1, 4)))
    made = [
        -(-n // s) if padding == "SAME" else (n - k) // s + 1
        for n, k, s in zip(target.shape[1:3], window, strides, strict=True)
    ]
    x = _floats(rng, target.shape[0], *made, kernel.shape[-1])
    shape = list(target.shape)
    return Call(lambda tf, x, w: tf.nn.conv2d_transpose(x, w, shape, [1, *strides, 1], padding), (x, kernel))


def _pooling(name: str) -> Callable[[Generator], Call]:
    def draw(rng: Generator) -> Call:
        sides = WINDOWS[name]
        window, strides, padding = _window(rng, sides), _window(rng, sides), _padding(rng)
        x = _images(rng, window)
        return Call(lambda tf, x: getattr(tf.nn, name)(x, window, strides, padding), (x,))

    return draw


def _lrn(rng: Generator) -> Call:
    radius, bias, alpha, beta = int(rng.integers(1, 4)), *(float(each) for each in rng.uniform(0.2, 1.0, 3))
    return Call(lambda tf, x: tf.nn.lrn(x, radius, bias, alpha, beta), (_images(rng, [2, 2]),))


DRAWN: dict[str, Callable[[Generator], Call]] = {
    **{name: _convolution(name) for name in SIDES},
    "depthwise_conv2d": _depthwise,
    "separable_conv2d": _separable,
    "conv2d_transpose": _transposed,
    **{name: _pooling(name) for name in WINDOWS},
    "lrn": _lrn,
}
"""By the operation's name: what draws a call of it."""
