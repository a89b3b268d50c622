"""Parts of tensors."""

from __future__ import annotations

import numpy as np

from tests.tf1_ops.call import Calls, floats, ints, truths

CALLS = Calls()
add = CALLS.add

_KEYS = [
    "0",
    "-1",
    "None",
    "...",
    "1:",
    ":2",
    ":-1",
    "::-1",
    "::2",
    "1:0",
    "1:100",
    "-100:",
    "-2:-1",
    "2:0:-1",
    "-1:-100:-1",
    "1:3:2",
]
_KEYS += ["0, 1", "None, 0", "..., 1", "..., None", "0, ...", ":, 1", ":, None", ":, -1, :", "1:, :2, ::-1"]
_KEYS += ["..., ::-1", "None, ..., None", ":, :, 1:3", "0, ..., 1", "-1, 1:, None", "::-1, ::-1", "1:1", "..., 1:2, 0"]
_KEYS += ["0, 0, 0", "(0, 1)", "3", "0, 5", "0, 0, 0, 0", "..., ...", "::0", "'a'", "1.5", "[0, 1]", "True"]
for _key in _KEYS:
    add(f"x[{_key}]", eval(f"lambda tf, x: x[{_key}]"), floats(3, 4, 2))
for _key in [
    "i",
    "i:",
    ":i",
    "i:j",
    ":, i",
    "i, 1",
    "..., i",
    "::i",
    "None, i:j",
    "i:j, 1:",
    "j:i:-1",
    "i - 5:",
    "i:i",
]:
    add(f"x[{_key}] by tensors", eval(f"lambda tf, x, i, j: x[{_key}]"), floats(4, 3), 1, 3)
add("x[i] by int64", lambda tf, x, i: x[i], floats(4, 3), np.int64(2))
add("x[i] by NumPy", lambda tf, x: [x[np.int64(1)], x[np.int32(0) : np.int64(2)]], floats(4, 3))
add("x[i] past the end", lambda tf, x, i: x[i], floats(4, 3), 7)
add("x[i] by floats", lambda tf, x, i: x[i], floats(4, 3), 1.0)
add("x[i] by a vector", lambda tf, x, i: x[i], floats(4, 3), [1, 2])
add("x[truth]", lambda tf, x, m: x[m], floats(4, 3), truths(4))
add("x[: tf.shape(y)[0]]", lambda tf, x, y: x[: tf.shape(y)[0]], floats(4, 3), floats(2))
add("x[0] of a scalar", lambda tf, x: x[0], 1.0)
add("x[1:] of nothing", lambda tf, x: x[1:], floats(0, 3))
add("x[0] of nothing", lambda tf, x: x[0], floats(0, 3))
add("a shape's parts", lambda tf, x: [tf.shape(x)[1:], tf.shape(x)[::-1], tf.shape(x)[-1]], floats(2, 3, 4))
add("slice", lambda tf, x: tf.slice(x, [1, 0], [2, 2]), floats(4, 3))
add("slice of the rest", lambda tf, x: tf.slice(x, [1, 0], [-1, 2]), floats(4, 3))
add("slice by tensors", lambda tf, x, b, s: tf.slice(x, b, s), floats(4, 3), [1, 0], [2, -1])
add("slice by parts", lambda tf, x, n: tf.slice(x, [0, 0], [n, -1]), floats(4, 3), 2)
add("slice past the end", lambda tf, x: tf.slice(x, [3, 0], [2, 2]), floats(4, 3))
add("slice of nothing", lambda tf, x: tf.slice(x, [4, 0], [0, 3]), floats(4, 3))
add("slice of too few axes", lambda tf, x: tf.slice(x, [1], [2]), floats(4, 3))
add("strided_slice", lambda tf, x: tf.strided_slice(x, [0, 1], [4, 3], [2, 1]), floats(4, 3))
add("strided_slice without strides", lambda tf, x: tf.strided_slice(x, [1], [3]), floats(4, 3))
add("strided_slice by tensors", lambda tf, x, b, e: tf.strided_slice(x, b, e), floats(4, 3), [1, 0], [3, 2])
add("strided_slice masked", lambda tf, x: tf.strided_slice(x, [1, 0], [3, 0], end_mask=2), floats(4, 3))
for _axis in [0, 1, -1]:
    add(f"gather along {_axis}", lambda tf, x, i, a=_axis: tf.gather(x, i, axis=a), floats(3, 4, 3), [2, 0, 2])
    add(f"gather of matrices along {_axis}", lambda tf, x, i, a=_axis: tf.gather(x, i, axis=a), floats(3, 3), [[2, 0], [1, 1]])  # fmt: skip  # noqa: E501
add("gather of a scalar index", lambda tf, x, i: tf.gather(x, i), floats(3, 4), 1)
add("gather of a number of a vector", lambda tf, x: tf.gather(x, 1), floats(3))
add("gather of nothing", lambda tf, x, i: tf.gather(x, i), floats(3, 4), ints(0))
add("gather by int64", lambda tf, x, i: tf.gather(x, i), floats(3, 4), np.array([0, 2]))
add("gather of lists", lambda tf: tf.gather([10, 20, 30], [2, 0]))
add("gather past the end", lambda tf, x, i: tf.gather(x, i), floats(3, 4), [3])
add("gather before the beginning", lambda tf, x, i: tf.gather(x, i), floats(3, 4), [-1])
add("gather by floats", lambda tf, x, i: tf.gather(x, i), floats(3, 4), [1.0])
add("gather of integers", lambda tf, x, i: tf.gather(x, i), ints(5), [1, 1, 4])
add("gather of a scalar", lambda tf, x, i: tf.gather(x, i), 1.0, [0])
add("gather_nd", lambda tf, x, i: tf.gather_nd(x, i), floats(3, 4), [[0, 1], [2, 3]])
add("gather_nd of rows", lambda tf, x, i: tf.gather_nd(x, i), floats(3, 4), [[0], [2]])
add("gather_nd of matrices", lambda tf, x, i: tf.gather_nd(x, i), floats(3, 4, 2), [[[0, 1], [2, 3]]])
add("gather_nd of one", lambda tf, x, i: tf.gather_nd(x, i), floats(3, 4), [1, 2])
add("gather_nd past the end", lambda tf, x, i: tf.gather_nd(x, i), floats(3, 4), [[0, 4]])
add("gather_nd before the beginning", lambda tf, x, i: tf.gather_nd(x, i), floats(3, 4), [[0, -1]])
add("gather_nd of too many axes", lambda tf, x, i: tf.gather_nd(x, i), floats(3, 4), [[0, 1, 1]])
add("boolean_mask", lambda tf, x, m: tf.boolean_mask(x, m), floats(4, 3), truths(4))
add("boolean_mask of matrices", lambda tf, x, m: tf.boolean_mask(x, m), floats(4, 3, 2), truths(4, 3))
add("boolean_mask along an axis", lambda tf, x, m: tf.boolean_mask(x, m, axis=1), floats(2, 4, 3), truths(4))
add("boolean_mask of lists", lambda tf: tf.boolean_mask([1, 2, 3], [True, False, True]))
add("boolean_mask of another size", lambda tf, x, m: tf.boolean_mask(x, m), floats(4, 3), truths(3))
add("where of truths", lambda tf, m: tf.where(m), truths(3, 4))
add("where of integers", lambda tf, x: tf.where(x), ints(6, low=0, high=2))
add("where", lambda tf, m, x, y: tf.where(m, x, y), truths(3, 4), floats(3, 4), floats(3, 4, seed=1))
add("where of rows", lambda tf, m, x, y: tf.where(m, x, y), truths(3), floats(3, 4), floats(3, 4, seed=1))
add("where of a scalar", lambda tf, m, x, y: tf.where(m, x, y), True, floats(3, 4), floats(3, 4, seed=1))
add("where with like", lambda tf, m, x: tf.where(m, x, tf.zeros_like(x)), truths(3, 4), floats(3, 4))
add("where of integers chosen", lambda tf, m, x: tf.where(m, x, -x), truths(4), ints(4))
add("where of two shapes", lambda tf, m, x, y: tf.where(m, x, y), truths(3, 4), floats(3, 4), floats(4))
add("where of a number", lambda tf, m, x: tf.where(m, x, 0.0), truths(3, 4), floats(3, 4))
add("where of x alone", lambda tf, m, x: tf.where(m, x), truths(3, 4), floats(3, 4))
add("where of numbers", lambda tf, m: tf.where(m, 1.0, 2.0), True)
add("where of lists", lambda tf, m: tf.where(m, [1.0, 2.0], [3.0, 4.0]), [True, False])
add("unique", lambda tf, x: tf.unique(x), [3, 1, 3, 2, 1])
add("unique of floats", lambda tf, x: tf.unique(x), [0.5, 0.1, 0.5])
add("unique of nothing", lambda tf, x: tf.unique(x), ints(0))
add("unique of a matrix", lambda tf, x: tf.unique(x), ints(2, 2))
for _lower, _upper in [(0, 0), (-1, 0), (0, -1), (1, 1), (-1, -1), (2, 0)]:
    add(f"matrix_band_part {_lower} {_upper}", lambda tf, x, k=_lower, n=_upper: tf.matrix_band_part(x, k, n), floats(2, 3, 4))  # fmt: skip  # noqa: E501
