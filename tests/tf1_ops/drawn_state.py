"""Assertions about drawn tensors, and variables that are set to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1_ops.call import Call
from tests.tf1_ops.drawing import Draw, Generator, another, floats, numbers, one_of, seldom, sizes

PAIRS = ["equal", "none_equal", "less", "less_equal", "greater", "greater_equal"]
SIGNS = ["negative", "non_negative", "positive", "non_positive"]
STARTS = ["zeros", "ones", "constant", "identity"]
RANDOM_STARTS = ["glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "lecun_normal", "lecun_uniform"]
RANDOM_STARTS += ["orthogonal", "random_normal", "random_uniform", "truncated_normal", "variance_scaling"]


def _checked(tf: Any, made: Any, x: Any) -> Any:
    with tf.control_dependencies([made]):
        return tf.identity(x)


def _pair(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        shape, kind = sizes(rng, 0, 2), one_of(rng, "fi")
        x = numbers(rng, shape, kind)
        y = {"equal": x, "none_equal": x + 1}.get(name, x + 1 if "less" in name else x - 1)
        y = numbers(rng, shape, kind) if seldom(rng) else y
        y = y.reshape(-1)[:1] if y.size and seldom(rng) else y
        return Call(
            lambda tf, x, y: _checked(tf, getattr(tf, f"assert_{name}")(x, y), x), (x, np.asarray(y).astype(kind))
        )

    return draw


def _sign(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        x = np.abs(numbers(rng, sizes(rng, 0, 2), "fi"))
        x = x if "non" in name else x + 1
        x = np.asarray((-x if name in ("negative", "non_positive") else x) * (-1 if seldom(rng) else 1))
        return Call(lambda tf, x: _checked(tf, getattr(tf, f"assert_{name}")(x), x), (x,))

    return draw


def _rank(rng: Generator) -> Call:
    x = floats(rng, sizes(rng, 0, 3))
    rank = x.ndim + seldom(rng)
    return Call(lambda tf, x: _checked(tf, tf.assert_rank(x, rank), x), (x,))


def _finite(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        x = floats(rng, sizes(rng, 0, 2))
        if x.size and seldom(rng):
            x.reshape(-1)[0] = one_of(rng, [np.nan, np.inf])
        return Call(lambda tf, x: getattr(tf, name)(x, "not finite"), (x,))

    return draw


def _assign(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        begin = numbers(rng, sizes(rng, 0, 2))
        new = numbers(rng, another(rng, begin.shape), begin.dtype.char)

        def call(tf: Any, x: Any) -> Any:
            variable = tf.Variable(begin)
            with tf.control_dependencies([variable.initializer]):
                return tf.identity(getattr(tf, name)(variable, x))

        return Call(call, (new,))

    return draw


def _start(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        shape = sizes(rng, 0, 2) if name != "identity" else tuple(int(each) for each in rng.integers(1, 5, 2))
        kind, value = one_of(rng, ["float32", "float64", "int32"]), int(rng.integers(-3, 4))
        given = {"constant": [value], "identity": [value]}.get(name, [])
        kind = "float32" if name == "identity" else kind
        return Call(lambda tf: getattr(tf.initializers, name)(*given)(shape, dtype=kind), ())

    return draw


def _random_start(name: str) -> Draw:
    """The shape and the dtype of random numbers."""

    def draw(rng: Generator) -> Call:
        shape, kind = tuple(int(each) for each in rng.integers(1, 5, rng.integers(2, 4))), one_of(rng, ["f", "d"])
        kind = {"f": "float32", "d": "float64"}[kind]
        return Call(lambda tf: getattr(tf.initializers, name)()(shape, dtype=kind) * 0, ())

    return draw


def _asserted(rng: Generator) -> Call:
    x = floats(rng, sizes(rng, 1, 2))
    return Call(lambda tf, x: _checked(tf, tf.Assert(tf.reduce_all(x < 2), [x]), x), (x,))


def _printed(rng: Generator) -> Call:
    return Call(lambda tf, x: tf.Print(x, [], first_n=0), (numbers(rng, sizes(rng, 0, 2)),))


def _python(rng: Generator) -> Call:
    kind = one_of(rng, ["float32", "float32", "float64"])
    return Call(lambda tf, x: tf.py_func(lambda each: each + 1, [x], kind), (floats(rng, sizes(rng, 0, 2)),))


DRAWN: dict[str, Draw] = {
    **{f"assert_{name}": _pair(name) for name in PAIRS},
    **{f"assert_{name}": _sign(name) for name in SIGNS},
    "assert_rank": _rank,
    **{name: _finite(name) for name in ("check_numerics", "verify_tensor_all_finite")},
    **{name: _assign(name) for name in ("assign", "assign_add", "assign_sub")},
    **{f"initializers.{name}": _start(name) for name in STARTS},
    **{f"initializers.{name}": _random_start(name) for name in RANDOM_STARTS},
    "Assert": _asserted,
    "Print": _printed,
    "py_func": _python,
}
"""By the operation's name: what draws a call of it."""
