"""Reductions, and what else looks along an axis."""

from __future__ import annotations

import numpy as np

from tests.tf1_ops.call import Calls, floats, ints, truths

CALLS = Calls()
add = CALLS.add

NUMBERS = ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"]
for _name in [*NUMBERS, "reduce_logsumexp"]:
    _call = lambda tf, x, _name=_name, **how: getattr(tf, _name)(x, **how)  # noqa: E731
    for _axis in [None, 0, 1, -1, [0, 2], [-1, 0], [], (1,), np.int64(1), np.array([0, 1])]:
        for _keep in [False, True]:
            add(
                f"{_name} axis={_axis!r} keepdims={_keep}",
                lambda tf, x, f=_call, a=_axis, k=_keep: f(tf, x, axis=a, keepdims=k),
                floats(2, 3, 2),
            )
    add(f"{_name} by old names", lambda tf, x, f=_call: f(tf, x, reduction_indices=[1], keep_dims=True), floats(2, 3))
    add(f"{_name} of a scalar", _call, 1.5)
    add(f"{_name} of float64", _call, np.array([[1.0, 2.0]]))
    add(f"{_name} of rows of nothing", lambda tf, x, f=_call: f(tf, x, axis=1), floats(0, 3))
    add(f"{_name} of a list", lambda tf, x, f=_call: f(tf, [x, x]), 1.5)
    add(f"{_name} by an axis that is not there", lambda tf, x, f=_call: f(tf, x, axis=2), floats(2, 3))
    add(f"{_name} by a tensor", lambda tf, x, f=_call: f(tf, x, axis=tf.constant(1)), floats(2, 3))
    add(f"{_name} by one axis twice", lambda tf, x, f=_call: f(tf, x, axis=[1, 1]), floats(2, 3))
    add(f"{_name} by all axes", lambda tf, x, f=_call: f(tf, x, axis=tf.range(tf.rank(x))), floats(2, 3))
    add(f"{_name} by an axis that is fed", lambda tf, x, a, f=_call: f(tf, x, axis=a), floats(2, 3), 1)
for _name in NUMBERS:
    _call = lambda tf, x, _name=_name, **how: getattr(tf, _name)(x, **how)  # noqa: E731
    add(f"{_name} of integers", _call, ints(2, 3))
    add(f"{_name} of integers along an axis", lambda tf, x, f=_call: f(tf, x, axis=0), ints(2, 3))
    add(f"{_name} of int64", _call, ints(2, 3, dtype=np.int64))
    add(f"{_name} of truths", _call, truths(4))
for _name in NUMBERS:
    add(f"{_name} of nothing", lambda tf, x, _name=_name: getattr(tf, _name)(x), floats(0, 3))
add("reduce_max of no integers", lambda tf, x: [tf.reduce_max(x, 1), tf.reduce_min(x, 1)], ints(2, 0))
add("reduce_max of equals", lambda tf, x: [tf.reduce_max(x), tf.reduce_min(x, 1)], [[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
add("reduce_prod with zeros", lambda tf, x: tf.reduce_prod(x, 1), [[0.0, 2.0, 3.0], [0.0, 0.0, 1.0], [2.0, 3.0, 4.0]])
add("reduce_logsumexp far out", lambda tf, x: tf.reduce_logsumexp(x, 1), [[1000.0, 1000.0], [-1000.0, -1001.0]])
add("reduce_logsumexp of minus infinity", lambda tf, x: tf.reduce_logsumexp(x), [-np.inf, -np.inf])
for _name in ["reduce_any", "reduce_all"]:
    _call = lambda tf, x, _name=_name, **how: getattr(tf, _name)(x, **how)  # noqa: E731
    for _axis in [None, 0, -1, [0, 1], []]:
        add(f"{_name} axis={_axis!r}", lambda tf, x, f=_call, a=_axis: f(tf, x, axis=a), truths(3, 4))
    add(f"{_name} keepdims", lambda tf, x, f=_call: f(tf, x, axis=1, keepdims=True), truths(3, 4))
    add(f"{_name} of nothing", _call, truths(0))
    add(f"{_name} of integers", _call, ints(3))
for _name in ["argmax", "argmin"]:
    _call = lambda tf, x, *a, _name=_name, **how: getattr(tf, _name)(x, *a, **how)  # noqa: E731
    for _axis in [None, 0, 1, -1]:
        add(f"{_name} axis={_axis!r}", lambda tf, x, f=_call, a=_axis: f(tf, x, a), floats(3, 4))
    add(f"{_name} of equals", lambda tf, x, f=_call: f(tf, x, 1), [[1, 3, 3, 1], [2, 2, 1, 1]])
    add(f"{_name} as int32", lambda tf, x, f=_call: f(tf, x, 1, output_type=tf.int32), floats(3, 4))
    add(f"{_name} by the old name", lambda tf, x, f=_call: f(tf, x, dimension=1), floats(3, 4))
    add(f"{_name} of a vector", _call, floats(5))
    add(f"{_name} by an axis that is not there", lambda tf, x, f=_call: f(tf, x, 2), floats(3, 4))
for _how in [{}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True}]:
    _words = " ".join(_how)
    add(f"cumsum {_words}".strip(), lambda tf, x, how=_how: tf.cumsum(x, **how), floats(3, 4))
    add(f"cumsum of columns {_words}".strip(), lambda tf, x, how=_how: tf.cumsum(x, -1, **how), floats(3, 4))
add("cumsum of integers", lambda tf, x: tf.cumsum(x), ints(4))
add("cumsum exclusive of infinity", lambda tf, x: tf.cumsum(x, exclusive=True), [1.0, np.inf, 2.0])
for _ord in ["euclidean", 1, 2, np.inf, 3.0]:
    add(f"norm {_ord}", lambda tf, x, o=_ord: tf.norm(x, ord=o), floats(5))
    add(f"norm {_ord} of rows", lambda tf, x, o=_ord: tf.norm(x, ord=o, axis=1), floats(3, 4))
add("norm keepdims", lambda tf, x: tf.norm(x, axis=-1, keepdims=True), floats(3, 4))
add("norm of a matrix", lambda tf, x: tf.norm(x), floats(3, 4))
add("norm of matrices", lambda tf, x: tf.norm(x, axis=[-2, -1]), floats(2, 3, 4))
add("norm fro of matrices", lambda tf, x: tf.norm(x, "fro", axis=[-2, -1]), floats(2, 3, 4))
