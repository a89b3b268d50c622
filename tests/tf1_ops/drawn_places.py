"""Calls that put values at places, drawn at random: into new tensors, into variables, into parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1_ops.call import Call
from tests.tf1_ops.drawing import Draw, Generator, another, flag, numbers, one_of, places, seldom, sizes


def _changed(name: str, begin: np.ndarray) -> Any:
    """The value of a variable after a change."""

    def call(tf: Any, indices: Any, updates: Any) -> Any:
        variable = tf.Variable(begin, name="v")
        with tf.control_dependencies([variable.initializer]):
            return tf.identity(getattr(tf, name)(variable, indices, updates))

    return call


def _rows(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        begin = numbers(rng, (int(rng.integers(1, 6)), *sizes(rng, 0, 2)))
        shape = sizes(rng, 0, 2)
        at = places(rng, shape, len(begin))
        if name == "scatter_update":  # TensorFlow says nothing of the order
            shape = (int(rng.integers(1, len(begin) + 1)),)
            at = rng.permutation(len(begin))[: shape[0]].astype(np.int32)
        spread = () if seldom(rng) else another(rng, (*shape, *begin.shape[1:]))
        new = np.asarray(numbers(rng, spread, begin.dtype.char))
        new[new == 0] = 1  # nothing is divided by zero
        return Call(_changed(name, begin), (at, new))

    return draw


def _elements(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        begin = numbers(rng, [int(each) for each in rng.integers(1, 5, rng.integers(1, 4))])
        deep = int(rng.integers(1, begin.ndim + 1))
        every = np.argwhere(np.ones(begin.shape[:deep]))
        count = int(rng.integers(1, len(every) + 1))
        at = every[rng.permutation(len(every))[:count]]
        if name != "scatter_nd_update":
            at = every[rng.integers(0, len(every), count)]
        if seldom(rng):
            at[int(rng.integers(count))] = one_of(rng, [-1, 9])
        new = numbers(rng, another(rng, (count, *begin.shape[deep:])), begin.dtype.char)
        if name != "scatter_nd":
            return Call(_changed(name, begin), (at.astype(np.int32), new))
        shape = list(begin.shape)
        if flag(rng):
            return Call(lambda tf, i, u: tf.scatter_nd(i, u, shape), (at.astype(np.int32), new))
        fed = np.array(shape, np.int32)
        return Call(lambda tf, i, u, s: tf.scatter_nd(i, u, s), (at.astype(np.int32), new, fed))

    return draw


def _stitch(rng: Generator) -> Call:
    rest, kind = sizes(rng, 0, 2), one_of(rng, "ffil")
    count = int(rng.integers(1, 4))
    shapes = [sizes(rng, 0, 2) for _ in range(count)]
    at = [np.asarray(rng.integers(0, 6, each)).astype(np.int32) for each in shapes]
    if seldom(rng) and at[0].size:
        at[0].reshape(-1)[0] = -1
    values = [numbers(rng, another(rng, (*each, *rest)), kind) for each in shapes]
    if flag(rng):
        return Call(lambda tf, *x: tf.dynamic_stitch([*at], [*x]), tuple(values))
    return Call(lambda tf, *x: tf.dynamic_stitch([*x[:count]], [*x[count:]]), (*at, *values))


def _partition(rng: Generator) -> Call:
    shape, count = sizes(rng, 0, 2), int(rng.integers(1, 4))
    at = places(rng, shape, count).astype(np.int32)
    values = numbers(rng, another(rng, (*shape, *sizes(rng, 0, 2))))
    return Call(lambda tf, x, p: tf.dynamic_partition(x, p, count), (values, at))


_OF_ROWS = [f"scatter_{each}" for each in ("update", "add", "sub", "mul", "div", "min", "max")]
_OF_ELEMENTS = ["scatter_nd", *(f"scatter_nd_{each}" for each in ("update", "add", "sub"))]
DRAWN: dict[str, Draw] = {
    **{name: _rows(name) for name in _OF_ROWS},
    **{name: _elements(name) for name in _OF_ELEMENTS},
    "dynamic_stitch": _stitch,
    "dynamic_partition": _partition,
}
"""By the operation's name: what draws a call of it."""
