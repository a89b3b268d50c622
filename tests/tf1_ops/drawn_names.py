"""Calls by the names of `tf.math` and `tf.random`, drawn at random; of random numbers, what is sure of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1_ops.call import Call
from tests.tf1_ops.drawing import Draw, Generator, another, axis_of, flag, floats, numbers, one_of, seldom, sizes

ANYWHERE = ["abs", "negative", "sign", "square", "exp", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh"]
ANYWHERE += ["sigmoid", "log_sigmoid", "erf", "erfc", "floor", "ceil", "round", "rint", "is_nan", "is_inf", "is_finite"]
ANYWHERE += ["softplus", "softsign", "zero_fraction"]
POSITIVE = ["sqrt", "rsqrt", "log", "log1p", "lgamma", "reciprocal"]
UNIT = ["asin", "acos"]
BINARY = ["add", "subtract", "multiply", "divide", "truediv", "floordiv", "mod", "floormod", "divide_no_nan", "maximum"]
BINARY += ["minimum", "squared_difference", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
LOGICAL = ["logical_and", "logical_or", "logical_xor"]
REDUCTIONS = ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_logsumexp"]
ALONG = ["softmax", "log_softmax", "l2_normalize"]


def _unary(name: str, low: float, high: float) -> Draw:
    def draw(rng: Generator) -> Call:
        x = np.asarray(rng.uniform(low, high, sizes(rng, 0, 3))).astype(one_of(rng, "fffd"))
        return Call(lambda tf, x: getattr(tf.math, name)(x), (x,))

    return draw


def _binary(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        shape, kind = sizes(rng, 0, 3), one_of(rng, "ffd" if name == "divide_no_nan" else "fffdil")
        fed = [numbers(rng, another(rng, _thinner(rng, shape)), kind) for _ in range(2)]
        fed[1][np.asarray(fed[1]) == 0] = 1  # TensorFlow's CPU has an error for that
        return Call(lambda tf, x, y: getattr(tf.math, name)(x, y), tuple(fed))

    return draw


def _thinner(rng: Generator, shape: tuple[int, ...]) -> list[int]:
    kept = [1 if rng.random() < 0.25 else size for size in shape]
    return kept[int(rng.integers(0, len(kept) + 1)) :] if flag(rng) else kept


def _logical(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        shape = sizes(rng, 0, 3)
        fed = [np.asarray(rng.integers(0, 2, another(rng, _thinner(rng, shape)))).astype(bool) for _ in range(2)]
        return Call(lambda tf, x, y: getattr(tf.math, name)(x, y), tuple(fed))

    return draw


def _axes(rng: Generator, rank: int) -> Any:
    return one_of(rng, [None, axis_of(rng, rank), [axis_of(rng, rank)], [*range(rank)]])


def _reduction(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        x = numbers(rng, sizes(rng, 0, 3), "fffd" if name == "reduce_logsumexp" else "fffdil")
        how = dict(axis=_axes(rng, x.ndim), keepdims=flag(rng))
        return Call(lambda tf, x: getattr(tf.math, name)(x, **how), (x,))

    return draw


def _truths(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        x = np.asarray(rng.integers(0, 2, sizes(rng, 0, 3))).astype(bool)
        how = dict(axis=_axes(rng, x.ndim), keepdims=flag(rng))
        return Call(lambda tf, x: getattr(tf.math, name)(x, **how), (x,))

    return draw


def _along(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        x = floats(rng, [int(each) for each in rng.integers(1, 5, rng.integers(1, 4))])
        axis = int(rng.integers(-x.ndim, x.ndim)) if name == "l2_normalize" else -1
        return Call(lambda tf, x: getattr(tf.math, name)(x, axis=axis), (x,))

    return draw


def _pow(rng: Generator) -> Call:
    shape = sizes(rng, 0, 3)
    base = np.asarray(rng.uniform(0.2, 2.0, shape)).astype(np.float32)
    return Call(lambda tf, x, y: tf.math.pow(x, y), (base, floats(rng, another(rng, _thinner(rng, shape)))))


def _sum(rng: Generator) -> Call:
    shape = sizes(rng, 0, 3)
    return Call(lambda tf, *x: tf.math.add_n([*x]), tuple(floats(rng, another(rng, shape)) for _ in range(3)))


def _extreme(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        x = numbers(rng, [int(each) for each in rng.integers(1, 5, rng.integers(1, 4))])
        axis = axis_of(rng, x.ndim)
        return Call(lambda tf, x: getattr(tf.math, name)(x, axis), (x,))

    return draw


def _random(name: str) -> Draw:
    """The shape and the dtype of random numbers, and that they are finite."""

    def draw(rng: Generator) -> Call:
        shape, kind = [int(each) for each in sizes(rng, 0, 3)], one_of(rng, ["float32", "float64"])
        if name == "uniform" and flag(rng):
            kind = one_of(rng, ["int32", "int64"])
        how = {} if "float" in kind else {} if seldom(rng) else {"maxval": 9}
        made = lambda tf, s: getattr(tf.random, name)(s, dtype=kind, **how)  # noqa: E731
        if flag(rng):
            return Call(lambda tf: made(tf, shape) * 0, ())
        return Call(lambda tf, s: made(tf, s) * 0, (np.array(shape, np.int32),))

    return draw


def _shuffle(rng: Generator) -> Call:
    x = floats(rng, (4,))
    return Call(lambda tf, x: tf.sort(tf.random.shuffle(x)), (x,))


def _multinomial(rng: Generator) -> Call:
    rows, count = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    logits = floats(rng, another(rng, (rows, 3)))
    return Call(lambda tf, x: tf.random.multinomial(x, count) * 0, (logits,))


_MATH: dict[str, Draw] = {
    **{name: _unary(name, -2.0, 2.0) for name in ANYWHERE},
    **{name: _unary(name, 0.1, 3.0) for name in POSITIVE},
    **{name: _unary(name, -0.9, 0.9) for name in UNIT},
    **{name: _binary(name) for name in [*BINARY, "atan2"]},
    **{name: _logical(name) for name in LOGICAL},
    **{name: _reduction(name) for name in REDUCTIONS},
    **{name: _truths(name) for name in ("reduce_any", "reduce_all")},
    **{name: _along(name) for name in ALONG},
    **{name: _extreme(name) for name in ("argmax", "argmin")},
    "pow": _pow,
    "add_n": _sum,
}
_RANDOM: dict[str, Draw] = {
    **{name: _random(name) for name in ("uniform", "normal", "truncated_normal")},
    "shuffle": _shuffle,
    "multinomial": _multinomial,
}
DRAWN: dict[str, Draw] = {
    **{f"math.{name}": draw for name, draw in _MATH.items()},
    **{f"random.{name}": draw for name, draw in _RANDOM.items()},
}
"""By the operation's name: what draws a call of it."""
