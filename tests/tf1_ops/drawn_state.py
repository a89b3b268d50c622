"""Assertions about drawn tensors, and variables that are set to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1_ops.call import Call
from tests.tf1_ops.drawing import Draw, Generator, another, floats, numbers, one_of, seldom, sizes

PAIRS = ["equal", "none_equal", "less", "less_equal", "greater", "greater_equal"]
SIGNS = ["negative", "non_negative", "positive", "non_positive"]
STARTS = ["zeros", "ones", "constant", "identity"]


def checked(tf: Any, made: Any, x: Any) -> Any:
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
            lambda tf, x, y: checked(tf, getattr(tf, f"assert_{name}")(x, y), x), (x, np.asarray(y).astype(kind))
        )

    return draw


def _sign(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        x = np.abs(numbers(rng, sizes(rng, 0, 2), "fi"))
        x = x if "non" in name else x + 1
        x = np.asarray((-x if name in ("negative", "non_positive") else x) * (-1 if seldom(rng) else 1))
        return Call(lambda tf, x: checked(tf, getattr(tf, f"assert_{name}")(x), x), (x,))

    return draw


def _rank(rng: Generator) -> Call:
    x = floats(rng, sizes(rng, 0, 3))
    rank = x.ndim + seldom(rng)
    return Call(lambda tf, x: checked(tf, tf.assert_rank(x, rank), x), (x,))


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


DRAWN: dict[str, Draw] = {
    **{f"assert_{name}": _pair(name) for name in PAIRS},
    **{f"assert_{name}": _sign(name) for name in SIGNS},
    "assert_rank": _rank,
    **{name: _finite(name) for name in ("check_numerics", "verify_tensor_all_finite")},
    **{name: _assign(name) for name in ("assign", "assign_add", "assign_sub")},
    **{f"initializers.{name}": _start(name) for name in STARTS},
}
"""By the operation's name: what draws a call of it."""
