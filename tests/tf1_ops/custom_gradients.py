"""Gradients that programs write themselves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from tests.tf1_ops.call import Calls

CALLS = Calls()
X = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -0.5]], np.float32)


def _register(tf: Any, name: str, function: Callable[..., Any]) -> str:
    with suppress(KeyError):  # a case that ran before has
        tf.RegisterGradient(name)(function)
    return name


def log1pexp(tf: Any, x: Any) -> Any:
    """The gradient that stays finite."""

    @tf.custom_gradient
    def function(x: Any) -> Any:
        e = tf.exp(x)
        return tf.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))

    return function(60.0 * x)


def clipped(tf: Any, x: Any) -> Any:
    @tf.custom_gradient
    def function(x: Any) -> Any:
        return tf.identity(x), lambda dy: tf.clip_by_value(dy, -1.0, 1.0)

    return function(x) ** 3


def of_two(tf: Any, x: Any) -> Any:
    @tf.custom_gradient
    def function(one: Any, other: Any) -> Any:
        def gradient(first: Any, second: Any) -> Any:
            return first * other, None

        return (one * other, tf.reduce_sum(one)), gradient

    first, second = function(x, x + 1.0)
    return first * second


def with_options(tf: Any, x: Any) -> Any:
    @tf.custom_gradient
    def function(x: Any, scale: Any) -> Any:
        return x * scale, lambda dy: (-dy * scale, None)

    return function(x, 3.0)


def straight_through(tf: Any, x: Any) -> Any:
    name = _register(tf, "Straight", lambda op, dy: dy * tf.cast(tf.abs(op.inputs[0]) < 1, tf.float32))
    with tf.get_default_graph().gradient_override_map({"Sign": name}):
        return 2.0 * tf.sign(x)


def reversed_gradient(tf: Any, x: Any) -> Any:
    name = _register(tf, "Reversed", lambda op, dy: -0.5 * tf.identity(dy) * op.outputs[0])
    with tf.get_default_graph().gradient_override_map({"Identity": name}):
        y = tf.identity(x)
    return tf.identity(y) * x


def in_a_step(tf: Any, x: Any) -> Any:
    @tf.custom_gradient
    def function(x: Any) -> Any:
        return tf.tanh(x), lambda dy: tf.clip_by_value(dy, -0.5, 0.5)

    return tf.while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, 1.5 * function(y)), (0, x))[1]


def of_a_gradient(tf: Any, x: Any) -> Any:
    @tf.custom_gradient
    def function(x: Any) -> Any:
        return x**2, lambda dy: dy * x**3

    (slope,) = tf.gradients(function(x), x)
    return slope


for _each in (
    log1pexp,
    clipped,
    of_two,
    with_options,
    straight_through,
    reversed_gradient,
    in_a_step,
    of_a_gradient,
):
    CALLS.add(f"custom gradient {_each.__name__.replace('_', ' ')}", _each, X)
