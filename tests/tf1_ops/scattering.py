"""Diagonals, running products, and values put at places: of tensors and of variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1_ops.call import Calls, floats, ints

CALLS = Calls()
add = CALLS.add

for _how in [{}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True}]:
    _words = " ".join(_how)
    add(f"cumprod {_words}".strip(), lambda tf, x, how=_how: tf.cumprod(x, **how), floats(3, 4))
    add(f"cumprod of columns {_words}".strip(), lambda tf, x, how=_how: tf.cumprod(x, -1, **how), floats(3, 4))
add("cumprod of integers", lambda tf, x: tf.cumprod(x), ints(4))
add("cumprod of a scalar", lambda tf, x: tf.cumprod(x, -1), 2.0)
add("cumprod past the end", lambda tf, x: tf.cumprod(x, 2), floats(3, 4))

# -- diagonals -------------------------------------------------------------------------------------------------------

add("diag", lambda tf, x: tf.diag(x), floats(3))
add("diag of a matrix", lambda tf, x: tf.diag(x), floats(2, 3))
add("diag of integers", lambda tf, x: tf.diag(x), ints(3))
add("diag of a scalar", lambda tf, x: tf.diag(x), 1.0)
add("diag_part", lambda tf, x: tf.diag_part(x), floats(3, 3))
add("diag_part of four axes", lambda tf, x: tf.diag_part(x), floats(2, 3, 2, 3))
add("diag_part of no square", lambda tf, x: tf.diag_part(x), floats(2, 3))
add("diag_part of three axes", lambda tf, x: tf.diag_part(x), floats(2, 2, 2))
add("matrix_diag", lambda tf, x: tf.matrix_diag(x), floats(2, 3))
add("matrix_diag of a vector", lambda tf, x: tf.matrix_diag(x), floats(3))
add("matrix_diag of a scalar", lambda tf, x: tf.matrix_diag(x), 1.0)
add("matrix_diag_part", lambda tf, x: tf.matrix_diag_part(x), floats(2, 3, 4))
add("matrix_diag_part of a vector", lambda tf, x: tf.matrix_diag_part(x), floats(3))
add("matrix_set_diag", lambda tf, x, d: tf.matrix_set_diag(x, d), floats(2, 3, 3), floats(2, 3))
add("matrix_set_diag of another size", lambda tf, x, d: tf.matrix_set_diag(x, d), floats(2, 3, 3), floats(2, 4))
add("matrix_set_diag of more axes", lambda tf, x, d: tf.matrix_set_diag(x, d), floats(2, 3, 3), floats(2, 3, 1))
add("matrix_band_part of too many", lambda tf, x, n: tf.matrix_band_part(x, n, 0), floats(2, 3), 3)
add("matrix_transpose", lambda tf, x: tf.matrix_transpose(x), floats(2, 3, 4))
add("matrix_transpose of a vector", lambda tf, x: tf.matrix_transpose(x), floats(3))
add("trace", lambda tf, x: tf.trace(x), floats(2, 3, 3))
add("trace of integers", lambda tf, x: tf.trace(x), ints(3, 4))

# -- into new tensors ------------------------------------------------------------------------------------------------

add("scatter_nd", lambda tf, i, u: tf.scatter_nd(i, u, [5]), [[3], [1], [3]], floats(3))
add("scatter_nd of rows", lambda tf, i, u: tf.scatter_nd(i, u, [4, 3]), [[3], [1]], floats(2, 3))
add("scatter_nd of elements", lambda tf, i, u: tf.scatter_nd(i, u, [4, 3]), [[3, 0], [1, 2]], floats(2))
add("scatter_nd of integers", lambda tf, i, u: tf.scatter_nd(i, u, [4]), [[0], [0]], ints(2))
add("scatter_nd to a fed shape", lambda tf, i, u, s: tf.scatter_nd(i, u, s), [[1]], floats(1, 2), [3, 2])
add("scatter_nd past the end", lambda tf, i, u: tf.scatter_nd(i, u, [2]), [[3]], floats(1))
add("scatter_nd of another shape", lambda tf, i, u: tf.scatter_nd(i, u, [4, 3]), [[3], [1]], floats(2, 2))
add("scatter_nd too deep", lambda tf, i, u: tf.scatter_nd(i, u, [4]), [[3, 0]], floats(1))
add("dynamic_stitch", lambda tf, x, y: tf.dynamic_stitch([[0, 2], [1]], [x, y]), floats(2, 3), floats(1, 3))
add("dynamic_stitch by fed indices", lambda tf, i, x: tf.dynamic_stitch([i, [2]], [x, x[:1]]), [0, 1], floats(2, 3))
add("dynamic_stitch of scalars", lambda tf, x, y: tf.dynamic_stitch([0, [1, 2]], [x, y]), 1.0, floats(2))
add("dynamic_stitch over another", lambda tf, x, y: tf.dynamic_stitch([[0, 1], [1]], [x, y]), floats(2), floats(1))
add("dynamic_stitch twice in one", lambda tf, x: tf.dynamic_stitch([[0, 1, 0]], [x]), floats(3))
add("dynamic_stitch of another shape", lambda tf, x: tf.dynamic_stitch([[0, 1]], [x]), floats(3))
add("dynamic_stitch of two widths", lambda tf, x, y: tf.dynamic_stitch([[0], [1]], [x, y]), floats(1, 2), floats(1, 3))
add("dynamic_stitch of too few", lambda tf, x: tf.dynamic_stitch([[0], [1]], [x]), floats(1))
add("dynamic_partition", lambda tf, x, p: tf.dynamic_partition(x, p, 3), floats(4, 2), [0, 2, 0, 2])
add("dynamic_partition of a matrix", lambda tf, x, p: tf.dynamic_partition(x, p, 2), floats(2, 2), [[0, 1], [1, 1]])
add("dynamic_partition into one", lambda tf, x, p: tf.dynamic_partition(x, p, 1), floats(2), [0, 0])
add("dynamic_partition past the end", lambda tf, x, p: tf.dynamic_partition(x, p, 2), floats(2), [0, 2])
add("dynamic_partition of another shape", lambda tf, x, p: tf.dynamic_partition(x, p, 2), floats(3), [0, 1])
add("dynamic_partition into none", lambda tf, x, p: tf.dynamic_partition(x, p, 0), floats(2), [0, 0])

# -- into variables --------------------------------------------------------------------------------------------------

_BEGIN = floats(4, 3, seed=7)


def scattered(name: str, begin: np.ndarray = _BEGIN) -> Callable[..., Any]:
    """The new value of a variable after rows of it have changed."""

    def call(tf: Any, indices: Any, updates: Any) -> Any:
        variable = tf.Variable(begin, name="v")
        with tf.control_dependencies([variable.initializer]):
            return tf.identity(getattr(tf, name)(variable, indices, updates))

    return call


for _name in ["update", "add", "sub", "mul", "div", "min", "max"]:
    _function = scattered(f"scatter_{_name}")
    add(f"scatter_{_name}", _function, [2, 0], floats(2, 3))
    add(f"scatter_{_name} of one row", _function, 1, floats(3))
    add(f"scatter_{_name} of a number", _function, [2, 0], 2.0)
    add(f"scatter_{_name} of a matrix of rows", _function, [[2, 0], [1, 3]], floats(2, 2, 3))
    if _name != "update":  # TensorFlow says nothing of the order
        add(f"scatter_{_name} twice", _function, [2, 2, 0], floats(3, 3))
for _name in ["update", "add", "sub"]:
    _function = scattered(f"scatter_nd_{_name}")
    add(f"scatter_nd_{_name}", _function, [[2], [0]], floats(2, 3))
    add(f"scatter_nd_{_name} of elements", _function, [[2, 0], [0, 1]], floats(2))
add("scatter_nd_add twice", scattered("scatter_nd_add"), [[2, 0], [2, 0]], floats(2))
add("scatter_add past the end", scattered("scatter_add"), [4], floats(1, 3))
add("scatter_add before the beginning", scattered("scatter_add"), [-1], floats(1, 3))
add("scatter_add of another shape", scattered("scatter_add"), [1], floats(1, 4))
add("scatter_add of another dtype", scattered("scatter_add"), [1], ints(1, 3))
add("scatter_add of fractions for places", scattered("scatter_add"), floats(1), floats(1, 3))
add("scatter_update of integers", scattered("scatter_update", ints(4)), [1, 3], [7, 8])
add("scatter_div of integers", scattered("scatter_div", np.int32([7, -7, 5])), [0, 1], [2, 2])
add("scatter_add of one number", scattered("scatter_add", floats(3)), 2, 0.5)
add("scatter_nd_update too deep", scattered("scatter_nd_update"), [[1, 1, 1]], floats(1))

# -- gradients with parts held -----------------------------------------------------------------------------------------


def constant(tf: Any, made: list[Any]) -> list[Any]:
    """Gradients that are not differentiated again."""
    return [tf.stop_gradient(each) for each in made if each is not None]


def held(tf: Any, x: Any) -> Any:
    y = x * x
    return tf.gradients(x * y, [x, y], stop_gradients=[y])


def held_sources(tf: Any, a: Any) -> Any:
    b = 2 * a
    return constant(tf, tf.gradients(a + b, [a, b], stop_gradients=[a, b]))


def held_behind(tf: Any, x: Any) -> Any:
    y = tf.sin(x)
    z = tf.exp(y)
    return constant(tf, tf.gradients(z * y, [x, y, z], stop_gradients=y))


def held_in_a_loop(tf: Any, x: Any) -> Any:
    y = tf.while_loop(lambda k, _: k < 3, lambda k, s: [k + 1, s * x], [0, x])[1]
    return constant(tf, tf.gradients(tf.sin(y) * x, [x, y], stop_gradients=[y]))


def held_nowhere(tf: Any, x: Any) -> Any:
    return tf.gradients(x * x, x, stop_gradients=[])


add("gradients of gradients with a part held", held, 3.0)
add("gradients with a part held", lambda tf, x: constant(tf, held(tf, x)), 3.0)
add("gradients with a loop held", held_in_a_loop, 1.1)
add("gradients with the sources held", held_sources, 3.0)
add("gradients with what is behind held", held_behind, 0.5)
add("gradients with nothing held", held_nowhere, 0.5)
