"""Python's operators on tensors."""

from __future__ import annotations

import operator

import numpy as np

from tests.tf1_ops.call import Calls, floats, ints, truths

CALLS = Calls()
add = CALLS.add

_BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
for _sign, _function in _BINARY.items():
    add(f"x {_sign} y", lambda tf, x, y, f=_function: f(x, y), floats(2, 3, low=0.5), floats(3, low=0.5, seed=1))
    add(f"x {_sign} 2", lambda tf, x, f=_function: f(x, 2), floats(2, 3, low=0.5))
    add(f"2 {_sign} x", lambda tf, x, f=_function: f(2, x), floats(2, 3, low=0.5))
    add(f"x {_sign} 2.5", lambda tf, x, f=_function: f(x, 2.5), floats(2, 3, low=0.5))
    add(f"x {_sign} array", lambda tf, x, f=_function: f(x, np.array([1, 2, 3], np.float32)), floats(2, 3, low=0.5))
    add(f"array {_sign} x", lambda tf, x, f=_function: f(np.array([1, 2, 3], np.float32), x), floats(2, 3, low=0.5))
    add(f"x {_sign} array of float64", lambda tf, x, f=_function: f(x, np.array([1.0, 2, 3])), floats(2, 3, low=0.5))
    add(f"x {_sign} list", lambda tf, x, f=_function: f(x, [1.0, 2.0, 3.0]), floats(2, 3, low=0.5))
    add(f"list {_sign} x", lambda tf, x, f=_function: f([1.0, 2.0, 3.0], x), floats(2, 3, low=0.5))
    add(f"k {_sign} m", lambda tf, x, y, f=_function: f(x, y), ints(2, 3, low=1), ints(3, low=1, seed=1))
    add(f"k {_sign} 2", lambda tf, x, f=_function: f(x, 2), ints(2, 3, low=1))
    add(f"2 {_sign} k", lambda tf, x, f=_function: f(2, x), ints(2, 3, low=1))
    add(f"k {_sign} 2.5", lambda tf, x, f=_function: f(x, 2.5), ints(2, 3, low=1))
    add(f"k {_sign} x", lambda tf, k, x, f=_function: f(k, x), ints(2, 3, low=1), floats(2, 3))
for _sign, _function in {"&": operator.and_, "|": operator.or_, "^": operator.xor}.items():
    add(f"a {_sign} b", lambda tf, x, y, f=_function: f(x, y), truths(4), truths(4, seed=1))
    add(f"a {_sign} True", lambda tf, x, f=_function: f(x, True), truths(4))
    add(f"True {_sign} a", lambda tf, x, f=_function: f(True, x), truths(4))
add("-x", lambda tf, x: -x, floats(2, 3))
add("-k", lambda tf, x: -x, ints(2, 3))
add("abs(x)", lambda tf, x: abs(x), floats(2, 3))
add("~a", lambda tf, x: ~x, truths(4))
add("x @ y", lambda tf, x, y: x @ y, floats(2, 3), floats(3, 4))
add("array @ x", lambda tf, x: np.ones((2, 3), np.float32) @ x, floats(3, 4))
add("x @ array", lambda tf, x: x @ np.ones((3, 2), np.float32), floats(4, 3))
add("a variable", lambda tf: _variable(tf))
add("x + [y, z]", lambda tf, x, y, z: operator.add(x, [y, z]), floats(2), 1.0, 2.0)
add("x + [y, 2]", lambda tf, x, y: operator.add(x, [y, 2]), floats(2), 1.0)
add("x == x", lambda tf, x: tf.constant([x == x, x != x]), floats(2))


def _variable(tf):
    v = tf.placeholder_with_default([1.0, 2.0], [2])
    return [v + 1, 1 - v, v * v, -v, v[0], v[::-1], 2 / v, v > 1.5]
