"""Reductions of the rows that belong together, counts, and orders."""

from __future__ import annotations

import numpy as np

from tests.tf1_ops.call import Calls, floats, ints

CALLS = Calls()
add = CALLS.add

for _name in ["sum", "mean", "max", "min", "prod"]:
    _function = f"unsorted_segment_{_name}"
    add(_function, lambda tf, x, i, f=_function: getattr(tf, f)(x, i, 4), floats(5, 2), [0, 2, 0, 3, 2])
    add(
        f"{_function} of a matrix",
        lambda tf, x, i, f=_function: getattr(tf, f)(x, i, 3),
        floats(2, 2),
        [[0, 2], [2, 1]],
    )
    add(f"{_function} past the end", lambda tf, x, i, f=_function: getattr(tf, f)(x, i, 2), floats(2), [0, 2])
    _function = f"segment_{_name}"
    add(_function, lambda tf, x, i, f=_function: getattr(tf, f)(x, i), floats(5, 2), [0, 0, 1, 1, 2])
    add(f"{_function} with a gap", lambda tf, x, i, f=_function: getattr(tf, f)(x, i), floats(3), [0, 0, 2])
    add(f"{_function} of numbers that fall", lambda tf, x, i, f=_function: getattr(tf, f)(x, i), floats(3), [1, 0, 2])
add("unsorted_segment_sum of integers", lambda tf, x, i: tf.unsorted_segment_sum(x, i, 2), ints(3), [0, 1, 1])
add("unsorted_segment_sum of some", lambda tf, x, i: tf.unsorted_segment_sum(x, i, 2), floats(3), [0, -1, 1])
add(
    "unsorted_segment_sum of a fed number",
    lambda tf, x, i, n: tf.unsorted_segment_sum(x, i, n),
    floats(3),
    [0, 1, 1],
    3,
)
add("unsorted_segment_sum of another shape", lambda tf, x, i: tf.unsorted_segment_sum(x, i, 2), floats(3), [0, 1])
add("segment_sum of too few", lambda tf, x, i: tf.segment_sum(x, i), floats(3), [0, 1])

add("count_nonzero", lambda tf, x: tf.count_nonzero(x), ints(3, 4, low=-1, high=2))
add("count_nonzero along 0", lambda tf, x: tf.count_nonzero(x, 0), ints(3, 4, low=-1, high=2))
add("count_nonzero of fractions", lambda tf, x: tf.count_nonzero(x, -1, keepdims=True), np.float32([[0, 1], [0.5, 0]]))
add("count_nonzero as another dtype", lambda tf, x: tf.count_nonzero(x, dtype=tf.int32), ints(3, 4))
add("accumulate_n", lambda tf, x, y: tf.accumulate_n([x, y, x]), floats(2, 3), floats(2, 3, seed=1))
add("scalar_mul", lambda tf, x: tf.scalar_mul(2.5, x), floats(2, 3))
add("scalar_mul by a tensor", lambda tf, a, x: tf.scalar_mul(a, x), 2.5, floats(2, 3))
add("confusion_matrix", lambda tf, a, b: tf.confusion_matrix(a, b, 4), [0, 1, 2, 2, 1], [0, 2, 2, 0, 1])
add("confusion_matrix of what comes", lambda tf, a, b: tf.confusion_matrix(a, b), [0, 1, 2, 2, 1], [0, 2, 2, 0, 1])
add(
    "confusion_matrix with weights",
    lambda tf, a, b, w: tf.confusion_matrix(a, b, 3, tf.float32, weights=w),
    *([0, 1, 2], [0, 2, 2], np.float32([0.5, 2.0, 1.0])),
)
add(
    "confusion_matrix with weights of another shape",
    lambda tf, a, b, w: tf.confusion_matrix(a, b, 3, weights=w),
    *([0, 1, 2], [0, 2, 2], ints(2)),
)
add("confusion_matrix of a column", lambda tf, a, b: tf.confusion_matrix(a, b, 3), [0, 1, 2], [[0], [2], [2]])
add("confusion_matrix past the end", lambda tf, a, b: tf.confusion_matrix(a, b, 2), [0, 1, 2], [0, 0, 1])
add("confusion_matrix before the beginning", lambda tf, a, b: tf.confusion_matrix(a, b, 2), [0, -1], [0, 0])

for _axis in [0, -1]:
    for _direction in ["ASCENDING", "DESCENDING"]:
        _words, _how = f"along {_axis} {_direction.lower()}", dict(axis=_axis, direction=_direction)
        add(f"sort {_words}", lambda tf, x, how=_how: tf.sort(x, **how), floats(3, 4))
        add(f"argsort {_words}", lambda tf, x, how=_how: tf.argsort(x, **how), floats(3, 4))
add("sort of integers", lambda tf, x: tf.sort(x), ints(5))
add("sort in another direction", lambda tf, x: tf.sort(x, direction="UP"), floats(5))
add("sort past the end", lambda tf, x: tf.sort(x, 1), floats(5))
add("arg_max past the end of a vector", lambda tf, x: tf.arg_max(x, 1), floats(3))
add("arg_max", lambda tf, x: tf.arg_max(x, 1), floats(3, 4))
add("arg_min", lambda tf, x: tf.arg_min(x, 0), floats(3, 4))
add("roll", lambda tf, x: tf.roll(x, 1, 0), floats(3, 4))
add("roll back", lambda tf, x: tf.roll(x, -2, 1), floats(3, 4))
add("roll of both axes", lambda tf, x: tf.roll(x, [1, 2], [0, 1]), floats(3, 4))
add("roll by a tensor", lambda tf, x, n: tf.roll(x, n, 0), floats(3, 4), 2)
for _indexing in ["xy", "ij"]:
    add(f"meshgrid {_indexing}", lambda tf, x, y, i=_indexing: tf.meshgrid(x, y, indexing=i), floats(2), floats(3))
    add(
        f"meshgrid {_indexing} of three",
        lambda tf, x, y, i=_indexing: tf.meshgrid(x, y, x, indexing=i),
        floats(2),
        floats(3),
    )
add("meshgrid in another order", lambda tf, x: tf.meshgrid(x, x, indexing="ji"), floats(2))
add("rint", lambda tf, x: tf.rint(x), np.float32([-1.5, 0.5, 1.5, 2.4]))
add("lin_space", lambda tf: tf.lin_space(0.0, 1.0, 5))
add("erfc", lambda tf, x: tf.erfc(x), floats(4))
_NOTHING = np.zeros((4, 0, 2), np.float32)
add("roll of nothing past the end", lambda tf, x, s, a: tf.roll(x, s, a), _NOTHING, [6, 4], [3, -3])
add("unsorted_segment_min of nothing of another shape", lambda tf, x, i: tf.unsorted_segment_min(x, i, 1), _NOTHING, np.zeros((3, 0), np.int64))  # fmt: skip  # noqa: E501
