"""Elementwise functions."""

from __future__ import annotations

import numpy as np

from tests.tf1_ops.call import Calls, floats, ints, truths

CALLS = Calls()
add = CALLS.add

ANYWHERE = ["abs", "negative", "sign", "square", "exp", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh"]
ANYWHERE += ["sigmoid", "log_sigmoid", "erf", "floor", "ceil", "round", "is_nan", "is_inf", "is_finite"]
POSITIVE = ["sqrt", "rsqrt", "log", "log1p", "lgamma", "reciprocal"]
UNIT = ["asin", "acos"]

for _name in ANYWHERE:
    add(_name, lambda tf, x, _name=_name: getattr(tf, _name)(x), floats(2, 3))
for _name in POSITIVE:
    add(_name, lambda tf, x, _name=_name: getattr(tf, _name)(x), floats(2, 3, low=0.1, high=3.0))
for _name in UNIT:
    add(_name, lambda tf, x, _name=_name: getattr(tf, _name)(x), floats(2, 3, low=-0.9, high=0.9))
for _name in ["exp", "tanh", "sigmoid", "log", "sqrt"]:
    add(f"{_name} of float64", lambda tf, x, _name=_name: getattr(tf, _name)(x), np.array([0.5, 1.5]))
    add(f"{_name} of nothing", lambda tf, x, _name=_name: getattr(tf, _name)(x), floats(0, 3))
    add(f"{_name} of a scalar", lambda tf, x, _name=_name: getattr(tf, _name)(x), 0.7)
    add(f"{_name} of integers", lambda tf, x, _name=_name: getattr(tf, _name)(x), [1, 2])
for _name in ["abs", "negative", "sign", "square", "round", "floor", "ceil"]:
    add(f"{_name} of integers", lambda tf, x, _name=_name: getattr(tf, _name)(x), ints(2, 3))
for _name in ["abs", "negative", "square", "exp"]:
    add(f"{_name} of truths", lambda tf, x, _name=_name: getattr(tf, _name)(x), truths(3))
add("abs at zero", lambda tf, x: tf.abs(x), [-1.0, 0.0, 1.0])
add("round halves", lambda tf, x: tf.round(x), [-1.5, -0.5, 0.5, 1.5, 2.5])
add("is_nan of everything", lambda tf, x: [tf.is_nan(x), tf.is_inf(x), tf.is_finite(x)], [1.0, np.nan, np.inf, -np.inf])
add("sigmoid far out", lambda tf, x: [tf.sigmoid(x), tf.log_sigmoid(x)], [-100.0, 100.0])
add("a list", lambda tf: tf.exp([0.0, 1.0]))
add("an array of float64", lambda tf: tf.exp(np.array([0.0, 1.0])))
add("a number", lambda tf: [tf.square(3), tf.square(3.5)])
add("logical_not", lambda tf, x: tf.logical_not(x), truths(4))
add("logical_not of integers", lambda tf, x: tf.logical_not(x), ints(4))

ARITHMETIC = ["add", "subtract", "multiply", "divide", "truediv", "div", "realdiv", "floordiv", "mod", "floormod"]
ARITHMETIC += ["div_no_nan", "maximum", "minimum", "squared_difference"]
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
for _name in [*ARITHMETIC, *COMPARISONS]:
    _call = lambda tf, *x, _name=_name: getattr(tf, _name)(*x)  # noqa: E731
    add(_name, _call, floats(2, 3), floats(2, 3, seed=1))
    add(f"{_name} of integers", _call, ints(2, 3), ints(2, 3, low=1, seed=1))
    add(f"{_name} of negative integers", _call, ints(2, 3), ints(2, 3, low=-4, high=0, seed=1))
    add(f"{_name} of small integers", _call, ints(4, low=0, dtype=np.uint8), ints(4, low=1, seed=1, dtype=np.uint8))
    add(f"{_name} stretched", _call, floats(2, 1, 3), floats(4, 1, seed=1))
    add(f"{_name} with a scalar", _call, floats(2, 3), 0.7)
    add(f"{_name} with a number", lambda tf, x, _name=_name: getattr(tf, _name)(x, 2), floats(2, 3))
    add(f"{_name} after a number", lambda tf, x, _name=_name: getattr(tf, _name)(2, x), floats(2, 3, low=0.5))
    add(f"{_name} with a list", lambda tf, x, _name=_name: getattr(tf, _name)(x, [1, 2, 3]), floats(2, 3))
    add(f"{_name} of nothing", _call, floats(0, 3), floats(3))
    add(f"{_name} of two dtypes", _call, floats(3), ints(3, low=1))
    add(f"{_name} of numbers", lambda tf, _name=_name: getattr(tf, _name)(7, 2))
for _name in ["equal", "not_equal", "less", "add"]:
    add(f"{_name} of truths", lambda tf, *x, _name=_name: getattr(tf, _name)(*x), truths(4), truths(4, seed=1))
add("pow", lambda tf, x, y: tf.pow(x, y), floats(2, 3, low=0.2), floats(3, seed=1))
add("pow of a negative base", lambda tf, x: tf.pow(x, 2), floats(2, 3, low=-2, high=-1))
add("pow at zero", lambda tf, x, y: tf.pow(x, y), [0.0, 0.0, 2.0], [2.0, 1.0, 0.0])
add("pow of integers", lambda tf, x, y: tf.pow(x, y), ints(4), ints(4, low=0, high=4, seed=1))
add("atan2", lambda tf, y, x: tf.atan2(y, x), floats(2, 3), floats(2, 3, seed=1))
add("maximum of equals", lambda tf, x, y: [tf.maximum(x, y), tf.minimum(x, y)], [1.0, 2.0], [1.0, 3.0])
add("div_no_nan by zero", lambda tf, x, y: tf.div_no_nan(x, y), [1.0, -1.0, 0.0, 3.0], [0.0, 0.0, 0.0, 2.0])
add("mod of signs", lambda tf, x, y: tf.mod(x, y), [5.5, -5.5, 5.5, -5.5], [2.0, 2.0, -2.0, -2.0])
add("division of integers by zero", lambda tf, x: tf.floordiv(x, 0), [1, 2])
for _name in ["logical_and", "logical_or", "logical_xor"]:
    add(_name, lambda tf, *x, _name=_name: getattr(tf, _name)(*x), truths(2, 4), truths(4, seed=1))
    add(f"{_name} with a number", lambda tf, x, _name=_name: getattr(tf, _name)(x, True), truths(4))
add("add_n", lambda tf, x, y, z: tf.add_n([x, y, z]), floats(2, 3), floats(2, 3, seed=1), floats(2, 3, seed=2))
add("add_n of one", lambda tf, x: tf.add_n([x]), floats(2, 3))
add("add_n of two shapes", lambda tf, x, y: tf.add_n([x, y]), floats(2, 3), floats(3))
add("add_n of nothing", lambda tf: tf.add_n([]))

for _dtype in ["float32", "float64", "int32", "int64", "bool", "uint8"]:
    add(f"cast floats to {_dtype}", lambda tf, x, _dtype=_dtype: tf.cast(x, _dtype), [0.0, 1.7, 2.3, 100.0])
    add(f"cast integers to {_dtype}", lambda tf, x, _dtype=_dtype: tf.cast(x, _dtype), [0, 1, 2, 100])
    add(f"cast truths to {_dtype}", lambda tf, x, _dtype=_dtype: tf.cast(x, _dtype), truths(4))
add("cast negative floats to int32", lambda tf, x: tf.cast(x, tf.int32), [-0.5, -1.7])
add("cast of a number", lambda tf: [tf.cast(1.7, tf.int32), tf.cast([1, 2], tf.float32)])
add("cast by Python's types", lambda tf, x: [tf.cast(x, float), tf.cast(x, bool)], [0, 2])
add("to_float", lambda tf, x: [tf.to_float(x), tf.to_double(x), tf.to_int32(x), tf.to_int64(x)], [1.5, -1.5])
add("saturate_cast", lambda tf, x: tf.saturate_cast(x, tf.uint8), [-5.0, 3.5, 300.0])
add("saturate_cast of integers", lambda tf, x: tf.saturate_cast(x, tf.int8), [-500, 3, 300])
add("clip_by_value", lambda tf, x: tf.clip_by_value(x, -1.0, 0.5), floats(2, 3))
add("clip_by_value of integers", lambda tf, x: tf.clip_by_value(x, -1, 3), ints(6))
add("clip_by_value at the bounds", lambda tf, x: tf.clip_by_value(x, -1.0, 1.0), [-1.0, 0.0, 1.0, 2.0])
add("clip_by_value by tensors", lambda tf, x, a, b: tf.clip_by_value(x, a, b), floats(2, 3), floats(3, high=0.0), 1.0)
add("clip_by_norm", lambda tf, x: tf.clip_by_norm(x, 1.5), floats(2, 3))
add("clip_by_norm short", lambda tf, x: tf.clip_by_norm(x, 50.0), floats(2, 3))
add("clip_by_norm of rows", lambda tf, x: tf.clip_by_norm(x, 1.5, axes=[1]), floats(2, 3))
add("clip_by_norm of zero", lambda tf, x: tf.clip_by_norm(x, 1.5), [0.0, 0.0])
add("global_norm", lambda tf, x, y: tf.global_norm([x, None, y]), floats(2, 3), floats(4))
add("clip_by_global_norm", lambda tf, x, y: tf.clip_by_global_norm([x, y], 1.5), floats(2, 3), floats(4))
add("clip_by_global_norm short", lambda tf, x: tf.clip_by_global_norm([x], 50.0), floats(2, 3))
add("clip_by_global_norm of infinity", lambda tf, x: tf.clip_by_global_norm([x], 1.0), [np.inf, 1.0])
