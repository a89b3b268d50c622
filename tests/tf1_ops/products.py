"""Products of matrices."""

from __future__ import annotations

import numpy as np

from tests.tf1_ops.call import Calls, floats, ints

CALLS = Calls()
add = CALLS.add

add("matmul", lambda tf, a, b: tf.matmul(a, b), floats(2, 3), floats(3, 4))
add("matmul transpose_a", lambda tf, a, b: tf.matmul(a, b, transpose_a=True), floats(3, 2), floats(3, 4))
add("matmul transpose_b", lambda tf, a, b: tf.matmul(a, b, transpose_b=True), floats(2, 3), floats(4, 3))
add("matmul adjoint", lambda tf, a, b: tf.matmul(a, b, adjoint_a=True, adjoint_b=True), floats(3, 2), floats(4, 3))
add("matmul of batches", lambda tf, a, b: tf.matmul(a, b), floats(5, 2, 3), floats(5, 3, 4))
add("matmul of stretched batches", lambda tf, a, b: tf.matmul(a, b), floats(1, 5, 2, 3), floats(6, 1, 3, 4))
add("matmul of a batch and a matrix", lambda tf, a, b: tf.matmul(a, b), floats(5, 2, 3), floats(3, 4))
add(
    "matmul of batches transposed", lambda tf, a, b: tf.matmul(a, b, transpose_b=True), floats(5, 2, 3), floats(5, 4, 3)
)
add("matmul of integers", lambda tf, a, b: tf.matmul(a, b), ints(2, 3), ints(3, 4))
add("matmul of float64", lambda tf, a: tf.matmul(a, np.eye(3)), np.ones((2, 3)))
add("matmul of nothing", lambda tf, a, b: tf.matmul(a, b), floats(0, 3), floats(3, 4))
add("matmul over nothing", lambda tf, a, b: tf.matmul(a, b), floats(2, 0), floats(0, 4))
add("matmul with lists", lambda tf, a: tf.matmul(a, [[1.0], [2.0]]), floats(3, 2))
add("matmul of sizes that do not fit", lambda tf, a, b: tf.matmul(a, b), floats(2, 3), floats(4, 5))
add("matmul of a vector", lambda tf, a, b: tf.matmul(a, b), floats(2, 3), floats(3))
add("matmul of batches that do not fit", lambda tf, a, b: tf.matmul(a, b), floats(2, 2, 3), floats(3, 3, 4))
add("matmul of two dtypes", lambda tf, a, b: tf.matmul(a, b), floats(2, 3), np.ones((3, 4)))
add("matmul with a known matrix", lambda tf, a: tf.matmul(a, tf.ones([3, 4])), floats(2, 3))
for _axes in [0, 1, 2, [[1], [0]], [[0, 1], [0, 1]], [[-1], [0]], [[0, 1], [1, 0]], [1, 0]]:
    _pair = {2: (floats(3, 4), floats(3, 4)), 0: (floats(2), floats(3))}.get(
        _axes if isinstance(_axes, int) else -1,
        (floats(3, 4), floats(4, 3)) if _axes != [[0, 1], [0, 1]] else (floats(3, 4), floats(3, 4)),
    )
    add(f"tensordot {_axes}", lambda tf, a, b, axes=_axes: tf.tensordot(a, b, axes), *_pair)
add("tensordot of sequences", lambda tf, a, b: tf.tensordot(a, b, 1), floats(2, 5, 3), floats(3, 4))
add("tensordot with a vector", lambda tf, a, b: tf.tensordot(a, b, axes=[[2], [0]]), floats(2, 5, 3), floats(3))
add("tensordot with a known matrix", lambda tf, a: tf.tensordot(a, tf.ones([3, 4]), 1), floats(2, 5, 3))
_TWO, _THREE = (floats(2, 3), floats(3, 4)), (floats(5, 2, 3), floats(5, 3, 4))
for _equation, _pair in {
    "ij,jk->ik": _TWO,
    "ij,jk->ki": _TWO,
    "ij,jk": _TWO,
    "bij,bjk->bik": _THREE,
    "bij,bjk->bk": _THREE,
    "bij,jk->bik": (floats(5, 2, 3), floats(3, 4)),
    "...ij,jk->...ik": (floats(5, 2, 3), floats(3, 4)),
    "i,j->ij": (floats(2), floats(3)),
    "i,i->": (floats(3), floats(3, seed=1)),
}.items():
    add(f"einsum {_equation}", lambda tf, *x, e=_equation: tf.einsum(e, *x), *_pair)
add("einsum ij->ji", lambda tf, x: tf.einsum("ij->ji", x), floats(2, 3))
add("einsum ij->", lambda tf, x: tf.einsum("ij->", x), floats(2, 3))
add("einsum ii->i", lambda tf, x: tf.einsum("ii->i", x), floats(3, 3))
add("einsum ij,jk,kl->il", lambda tf, *x: tf.einsum("ij,jk,kl->il", *x), floats(2, 3), floats(3, 4), floats(4, 2))
add("einsum of sizes that do not fit", lambda tf, *x: tf.einsum("ij,jk->ik", *x), floats(2, 3), floats(4, 5))
