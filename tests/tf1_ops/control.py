"""Loops, branches and arrays, with gradients through them."""

from __future__ import annotations

from typing import Any

from tests.tf1_ops.call import Calls, floats, ints

CALLS = Calls()
add = CALLS.add


def _powers(tf: Any, x: Any, n: Any) -> Any:
    return tf.while_loop(lambda k, y: k < n, lambda k, y: (k + 1, y * x), [0, tf.ones_like(x)])


def _captured(tf: Any, x: Any, w: Any) -> Any:
    scale = tf.reduce_sum(w) * 2
    return tf.while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, tf.tanh(tf.matmul(y, w)) + scale), [0, x])[1]


def _nested(tf: Any, x: Any) -> Any:
    def outer(i: Any, total: Any) -> Any:
        inner = tf.while_loop(lambda j, y: j < i, lambda j, y: (j + 1, y * x + tf.cast(i, tf.float32)), [0, total])
        return i + 1, inner[1]

    return tf.while_loop(lambda i, _: i < 4, outer, [0, x])[1]


def _branch_in_a_loop(tf: Any, x: Any) -> Any:
    def body(k: Any, y: Any) -> Any:
        return k + 1, tf.cond(tf.equal(k % 2, 0), lambda: y * x, lambda: y + x)

    return tf.while_loop(lambda k, _: k < 5, body, [0, x])[1]


def _growing(tf: Any, x: Any) -> Any:
    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    return tf.while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, tf.concat([y, x], 0)), [0, x], shapes)[1]


def _written(tf: Any, x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=3)
    last = tf.while_loop(
        lambda k, _: k < 3, lambda k, a: (k + 1, a.write(k, x[k] * tf.cast(k, tf.float32))), [0, array]
    )
    return last[1].stack()


def _unstacked(tf: Any, x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=tf.shape(x)[0]).unstack(x)
    start = tf.zeros_like(x[0])
    return tf.while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, y * 0.5 + array.read(k)), [0, start])[1]


def _structured(tf: Any, x: Any) -> Any:
    body = lambda k, s: (k + 1, {"a": s["a"] + s["b"][0], "b": (s["b"][0] * 2, s["b"][1] + 1)})  # noqa: E731
    made = tf.while_loop(lambda k, s: k < 3, body, (0, {"a": x, "b": (x, tf.zeros([]))}))
    return [made[1]["a"], *made[1]["b"]]


add("while_loop", _powers, floats(2), 3)
add("while_loop that never runs", _powers, floats(2), 0)
add("while_loop over what is captured", _captured, floats(2, 3), floats(3, 3))
add("while_loop in a while_loop", _nested, 0.7)
add("while_loop with a branch", _branch_in_a_loop, floats(3))
add("while_loop over what grows", _growing, floats(2))
add("while_loop that writes an array", _written, floats(3, 2))
add("while_loop that reads an array", _unstacked, floats(3, 2))
add("while_loop over a structure", _structured, floats(2))
add("while_loop over one", lambda tf, x: tf.while_loop(lambda y: y < 9.0, lambda y: y * 2, [x]), 1.5)
add("while_loop over one alone", lambda tf, x: tf.while_loop(lambda y: y < 9.0, lambda y: [y * 2], x), 1.5)
add("while_loop over one in a tuple", lambda tf, x: tf.while_loop(lambda y: y < 9.0, lambda y: (y * 2,), (x,)), 1.5)
for _most in [0, 2, 100]:
    add(f"while_loop of {_most} turns at most", lambda tf, x, n=_most: tf.while_loop(lambda k, y: k < 5, lambda k, y: [k + 1, y * x], [0, x], maximum_iterations=n), floats(2))  # fmt: skip  # noqa: E501
add("while_loop of a fed number of turns", lambda tf, x, n: tf.while_loop(lambda y: True, lambda y: y * 2, [x], maximum_iterations=n), 1.5, 3)  # fmt: skip  # noqa: E501
add("while_loop with numbers", lambda tf, x: tf.while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, y), [0, 1.5])[0], floats(1))  # fmt: skip  # noqa: E501
add("while_loop without gradients", lambda tf, x: tf.while_loop(lambda y: y < 9.0, lambda y: y * 2, [x], back_prop=True), 1.5)  # fmt: skip  # noqa: E501

for _truth in [True, False]:
    add(f"cond {_truth}", lambda tf, p, x: tf.cond(p, lambda: x * 2, lambda: x - 1), _truth, floats(2))
    add(f"cond of lists {_truth}", lambda tf, p, x: tf.cond(p, lambda: [x, x * 2], lambda: [x * 3, x]), _truth, floats(2))  # fmt: skip  # noqa: E501
    add(f"cond of one in a list {_truth}", lambda tf, p, x: tf.cond(p, lambda: [x], lambda: [x * 3]), _truth, floats(2))
    add(f"cond of two shapes {_truth}", lambda tf, p, x: tf.cond(p, lambda: x, lambda: x[:1]), _truth, floats(2))
    add(f"cond of numbers {_truth}", lambda tf, p: tf.cond(p, lambda: 1.0, lambda: 2.0), _truth)
    add(f"cond that reads one alone {_truth}", lambda tf, p, x, y: tf.cond(p, lambda: x * 2, lambda: y * 3), _truth, floats(2), floats(2, seed=1))  # fmt: skip  # noqa: E501
    add(f"cond in a cond {_truth}", lambda tf, p, x: tf.cond(p, lambda: tf.cond(x[0] > 0, lambda: x, lambda: -x), lambda: x * 3), _truth, floats(2))  # fmt: skip  # noqa: E501
    add(f"cond by old names {_truth}", lambda tf, p, x: tf.cond(p, fn1=lambda: x, fn2=lambda: x * 3), _truth, floats(2))
    add(f"cond of a structure {_truth}", lambda tf, p, x: tf.cond(p, lambda: (x, (x * 2, x)), lambda: (x, (x, x))), _truth, floats(2))  # fmt: skip  # noqa: E501
for _k in [0, 1, 2]:
    add(f"case {_k}", lambda tf, k, x: tf.case([(tf.equal(k, 0), lambda: x), (tf.equal(k, 1), lambda: x * 2)], default=lambda: x * 3), _k, floats(2))  # fmt: skip  # noqa: E501
    add(f"case without default {_k}", lambda tf, k, x: tf.case([(k < 1, lambda: x), (k < 3, lambda: x * 2)]), _k, floats(2))  # fmt: skip  # noqa: E501

add("map_fn", lambda tf, x: tf.map_fn(lambda e: e * e, x), floats(3, 2))
add("map_fn of nothing", lambda tf, x: tf.map_fn(lambda e: e * e, x), floats(0, 2))
add("map_fn of two", lambda tf, x, y: tf.map_fn(lambda e: e[0] * e[1], (x, y), dtype=tf.float32), floats(3), floats(3, seed=1))  # fmt: skip  # noqa: E501
add("map_fn to two", lambda tf, x: tf.map_fn(lambda e: (e, e * 2), x, dtype=(tf.float32, tf.float32)), floats(3, 2))
add("map_fn to another dtype", lambda tf, x: tf.map_fn(lambda e: tf.cast(e, tf.float32) / 2, x, dtype=tf.float32), ints(3))  # fmt: skip  # noqa: E501
add("map_fn over what is captured", lambda tf, x, w: tf.map_fn(lambda e: tf.reduce_sum(e * w), x), floats(3, 2), floats(2))  # fmt: skip  # noqa: E501
add("map_fn to another shape", lambda tf, x: tf.map_fn(lambda e: tf.stack([e, e]), x), floats(3))
add("scan", lambda tf, x: tf.scan(lambda a, e: a * 0.5 + e, x), floats(4, 2))
add("scan from a value", lambda tf, x, a: tf.scan(lambda a, e: a * e, x, initializer=a), floats(4), 1.5)
add("scan backwards", lambda tf, x: tf.scan(lambda a, e: a * 0.5 + e, x, reverse=True), floats(4))
add("scan backwards from a value", lambda tf, x, a: tf.scan(lambda a, e: a * e, x, a, reverse=True), floats(4), 1.5)
add("scan of a structure", lambda tf, x: tf.scan(lambda a, e: (a[0] + e, a[1] * e), x, (0.0, 1.0)), floats(4))
add("scan of two", lambda tf, x, y: tf.scan(lambda a, e: a + e[0] * e[1], (x, y), 0.0), floats(4), floats(4, seed=1))
add("scan of integers", lambda tf, x: tf.scan(lambda a, e: a + e, x), ints(4))
add("foldl", lambda tf, x: tf.foldl(lambda a, e: a * 0.5 + e, x), floats(4, 2))
add("foldl from a value", lambda tf, x, a: tf.foldl(lambda a, e: a * e, x, initializer=a), floats(4), 1.5)

add("TensorArray stack", lambda tf, x: tf.TensorArray(tf.float32, 2).write(1, x).write(0, x * 2).stack(), floats(2))
add("TensorArray read", lambda tf, x: tf.TensorArray(tf.float32, 3).unstack(x).read(1), floats(3, 2))
add("TensorArray gather", lambda tf, x: tf.TensorArray(tf.float32, 3).unstack(x).gather([2, 0]), floats(3, 2))
add("TensorArray concat", lambda tf, x: tf.TensorArray(tf.float32, 3).unstack(x).concat(), floats(3, 2))
add("TensorArray size", lambda tf, x: tf.TensorArray(tf.float32, 3).unstack(x).size(), floats(3, 2))
add("TensorArray with holes", lambda tf, x: tf.TensorArray(tf.float32, 3, element_shape=[2]).write(1, x).stack(), floats(2))  # fmt: skip  # noqa: E501
add("TensorArray that grows", lambda tf, x: tf.TensorArray(tf.float32, 0, dynamic_size=True).write(1, x).write(0, x).stack(), floats(2))  # fmt: skip  # noqa: E501
add("TensorArray read twice", lambda tf, x: _read_twice(tf, x), floats(3))
add("TensorArray of integers", lambda tf, x: tf.TensorArray(tf.int32, 2).write(0, x).write(1, 7).stack(), 3)


def _read_twice(tf: Any, x: Any) -> Any:
    array = tf.TensorArray(tf.float32, 3, clear_after_read=False).unstack(x)
    return array.read(0) * array.read(0) + array.read(2)
