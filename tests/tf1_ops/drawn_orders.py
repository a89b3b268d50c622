"""Calls of segments, counts, orders and moves along axes, drawn at random."""

from __future__ import annotations

import numpy as np

from tests.tf1_ops.call import Call
from tests.tf1_ops.drawing import (
    Draw,
    Generator,
    another,
    axis_of,
    flag,
    floats,
    numbers,
    one_of,
    places,
    seldom,
    sizes,
)

KINDS = ["sum", "mean", "max", "min", "prod"]


def _unsorted(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        shape, count = sizes(rng, 1, 2), int(rng.integers(1, 5))
        at = places(rng, shape, count)
        x = numbers(rng, another(rng, (*shape, *sizes(rng, 0, 2))), "fffd" if name.endswith("mean") else "ffffdil")
        if flag(rng):
            return Call(lambda tf, x, i: getattr(tf, name)(x, i, count), (x, at))
        return Call(lambda tf, x, i, n: getattr(tf, name)(x, i, n), (x, at, np.int32(count)))

    return draw


def _sorted(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        at = rng.integers(0, 4, rng.integers(1, 6)).astype(one_of(rng, [np.int32, np.int64]))
        at = at if seldom(rng) else np.sort(at)
        x = numbers(rng, another(rng, (len(at), *sizes(rng, 0, 2))), "fffd" if name.endswith("mean") else "ffffdil")
        return Call(lambda tf, x, i: getattr(tf, name)(x, i), (x, at))

    return draw


def _ordered(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        x = numbers(rng, sizes(rng, 1, 3))
        how = dict(axis=axis_of(rng, x.ndim), direction=one_of(rng, ["ASCENDING", "DESCENDING"]))
        return Call(lambda tf, x: getattr(tf, name)(x, **how), (x,))

    return draw


def _extreme(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        x = numbers(rng, [int(each) for each in rng.integers(1, 5, rng.integers(1, 4))])
        axis, kind = axis_of(rng, x.ndim), one_of(rng, ["int32", "int64"])
        return Call(lambda tf, x: getattr(tf, name)(x, axis, output_type=kind), (x,))

    return draw


def _confusion(rng: Generator) -> Call:
    count, classes = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    given = one_of(rng, [None, classes])
    labels, found = places(rng, [count], classes), places(rng, another(rng, [count]), classes)
    kind = one_of(rng, ["int32", "int64", "float32"])
    if flag(rng):
        return Call(lambda tf, a, b: tf.confusion_matrix(a, b, given, kind), (labels, found))
    weights = np.abs(numbers(rng, another(rng, [count]), "f" if kind == "float32" else "fi"))
    return Call(lambda tf, a, b, w: tf.confusion_matrix(a, b, given, kind, weights=w), (labels, found, weights))


def _count(rng: Generator) -> Call:
    x = numbers(rng, sizes(rng, 0, 3), "fiil")
    x = np.asarray(np.where(rng.random(x.shape) < 0.4, 0, x).astype(x.dtype))
    axis = None if flag(rng) else axis_of(rng, x.ndim)
    how = dict(axis=axis, keepdims=flag(rng), dtype=one_of(rng, ["int32", "int64", "float32"]))
    return Call(lambda tf, x: tf.count_nonzero(x, **how), (x,))


def _grid(rng: Generator) -> Call:
    kind, indexing = one_of(rng, "fi"), one_of(rng, ["xy", "ij"])
    axes = [numbers(rng, [] if seldom(rng) else [int(rng.integers(1, 4))], kind) for _ in range(rng.integers(1, 4))]
    return Call(lambda tf, *x: tf.meshgrid(*x, indexing=indexing), tuple(axes))


def _roll(rng: Generator) -> Call:
    x = numbers(rng, sizes(rng, 1, 3))
    count = int(rng.integers(1, 3))
    shifts, axes = [int(each) for each in rng.integers(-6, 7, count)], [axis_of(rng, x.ndim) for _ in range(count)]
    shift, axis = (shifts[0], axes[0]) if count == 1 and flag(rng) else (shifts, axes)
    if flag(rng):
        return Call(lambda tf, x: tf.roll(x, shift, axis), (x,))
    return Call(lambda tf, x, n, a: tf.roll(x, n, a), (x, np.array(shift, np.int32), np.array(axis, np.int32)))


def _accumulate(rng: Generator) -> Call:
    shape, kind = sizes(rng, 0, 3), one_of(rng, "fdi")
    fed = [numbers(rng, another(rng, shape), kind) for _ in range(rng.integers(1, 4))]
    return Call(lambda tf, *x: tf.accumulate_n([*x]), tuple(fed))


def _scaled(rng: Generator) -> Call:
    x = numbers(rng, sizes(rng, 0, 3))
    return Call(lambda tf, a, x: tf.scalar_mul(a, x), (numbers(rng, another(rng, ()), x.dtype.char), x))


def _spaced(rng: Generator) -> Call:
    count = int(rng.integers(1, 7))
    return Call(lambda tf, a, b: tf.lin_space(a, b, count), (floats(rng, ()), floats(rng, ())))


def _top(rng: Generator) -> Call:
    x = numbers(rng, sizes(rng, 1, 3))
    k = int(rng.integers(0, x.shape[-1] + 1 + seldom(rng)))
    return Call(lambda tf, x: list(tf.math.top_k(x, k)), (x,))


def _in_top(rng: Generator) -> Call:
    x, k = floats(rng, [int(each) for each in rng.integers(1, 5, 2)]), int(rng.integers(1, 4))
    return Call(lambda tf, x, y: tf.math.in_top_k(x, y, k), (x, places(rng, [len(x)], x.shape[1])))


DRAWN: dict[str, Draw] = {
    **{f"unsorted_segment_{kind}": _unsorted(f"unsorted_segment_{kind}") for kind in KINDS},
    **{f"segment_{kind}": _sorted(f"segment_{kind}") for kind in KINDS},
    **{name: _ordered(name) for name in ("sort", "argsort")},
    **{name: _extreme(name) for name in ("arg_max", "arg_min")},
    "confusion_matrix": _confusion,
    "count_nonzero": _count,
    "meshgrid": _grid,
    "roll": _roll,
    "accumulate_n": _accumulate,
    "scalar_mul": _scaled,
    "lin_space": _spaced,
    "math.top_k": _top,
    "math.in_top_k": _in_top,
}
"""By the operation's name: what draws a call of it."""
