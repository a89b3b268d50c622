"""Calls of diagonals, bands and running sums, drawn at random; by both of their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1_ops.call import Call
from tests.tf1_ops.drawing import Draw, Generator, another, axis_of, flag, floats, numbers, one_of, seldom, sizes

NAMES = {
    "diag": "tensor_diag",
    "diag_part": "tensor_diag_part",
    "matrix_diag": "diag",
    "matrix_diag_part": "diag_part",
    "matrix_set_diag": "set_diag",
    "matrix_band_part": "band_part",
    "matrix_transpose": "matrix_transpose",
    "trace": "trace",
}
"""In `tf`, and in `tf.linalg`."""


def _named(rng: Generator, name: str) -> Callable[[Any], Any]:
    short = NAMES[name]
    return (lambda tf: getattr(tf.linalg, short)) if flag(rng) else (lambda tf: getattr(tf, name))


def _of(name: str, shape: Callable[[Generator], tuple[int, ...]]) -> Draw:
    def draw(rng: Generator) -> Call:
        function = _named(rng, name)
        return Call(lambda tf, x: function(tf)(x), (numbers(rng, shape(rng)),))

    return draw


def _twice(rng: Generator) -> tuple[int, ...]:
    half = sizes(rng, 1, 2)
    return another(rng, (*half, *half))


def _set_diag(rng: Generator) -> Call:
    x = numbers(rng, sizes(rng, 2, 4))
    new = numbers(rng, another(rng, (*x.shape[:-2], min(x.shape[-2:]))), x.dtype.char)
    function = _named(rng, "matrix_set_diag")
    return Call(lambda tf, x, d: function(tf)(x, d), (x, new))


def _band(rng: Generator) -> Call:
    x = numbers(rng, sizes(rng, 2, 4))
    sides = [int(rng.integers(-1, size + 1 + seldom(rng))) for size in x.shape[-2:]]
    function = _named(rng, "matrix_band_part")
    if flag(rng):
        return Call(lambda tf, x: function(tf)(x, *sides), (x,))
    return Call(lambda tf, x, a, b: function(tf)(x, a, b), (x, *map(np.int32, sides)))


def _running(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        x = numbers(rng, sizes(rng, 1, 3))
        axis = int(rng.integers(-x.ndim, x.ndim))  # of another, ours is said when the graph is built
        how = dict(exclusive=flag(rng), reverse=flag(rng), axis=axis)
        where = one_of(rng, ["", "math"])
        return Call(lambda tf, x: getattr(getattr(tf, where) if where else tf, name)(x, **how), (x,))

    return draw


def _product(rng: Generator) -> Call:
    many, (a, b, c) = sizes(rng, 0, 1), rng.integers(1, 5, 3)
    how = dict(transpose_a=flag(rng), transpose_b=flag(rng))
    one = (*many, b, a) if how["transpose_a"] else (*many, a, b)
    other = (*many, c, b) if how["transpose_b"] else (*many, b, c)
    fed = floats(rng, one), floats(rng, another(rng, other))
    return Call(lambda tf, x, y: tf.linalg.matmul(x, y, **how), fed)


def _norm(rng: Generator) -> Call:
    x = floats(rng, sizes(rng, 1, 3))
    how = dict(ord=one_of(rng, ["euclidean", 1, 2, np.inf]), axis=axis_of(rng, x.ndim), keepdims=flag(rng))
    return Call(lambda tf, x: tf.linalg.norm(x, **how), (x,))


def _eye(rng: Generator) -> Call:
    rows, columns, many = int(rng.integers(0, 5)), one_of(rng, [None, 2, 4]), one_of(rng, [None, [2], [2, 3]])
    kind = one_of(rng, ["float32", "float64", "int32"])
    return Call(lambda tf: tf.linalg.eye(rows, columns, many, kind), ())


DRAWN: dict[str, Draw] = {
    "diag": _of("diag", lambda rng: sizes(rng, 0, 2)),
    "diag_part": _of("diag_part", _twice),
    "matrix_diag": _of("matrix_diag", lambda rng: sizes(rng, 0, 3)),
    "matrix_diag_part": _of("matrix_diag_part", lambda rng: sizes(rng, 1, 4)),
    "matrix_transpose": _of("matrix_transpose", lambda rng: sizes(rng, 1, 4)),
    "trace": _of("trace", lambda rng: sizes(rng, 1, 4)),
    "matrix_set_diag": _set_diag,
    "matrix_band_part": _band,
    "cumprod": _running("cumprod"),
    "cumsum": _running("cumsum"),
    "linalg.matmul": _product,
    "linalg.norm": _norm,
    "linalg.eye": _eye,
}
"""By the operation's name: what draws a call of it."""
