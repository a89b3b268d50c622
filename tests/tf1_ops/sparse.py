"""Sparse tensors: each call makes them of what is fed, and returns their parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1_ops.call import Calls, floats

CALLS = Calls()
add = CALLS.add

PLACES = np.array([[0, 1], [1, 0], [1, 3]])
VALUES = floats(3)
SHAPE = np.array([2, 4])
DEEP = np.array([[0, 0, 1], [1, 2, 0]]), floats(2), np.array([2, 3, 2])


def parts(sparse: Any) -> list[Any]:
    """What a sparse tensor is made of."""
    return [sparse.indices, sparse.values, sparse.dense_shape]


add("SparseTensor", lambda tf, i, v, s: parts(tf.SparseTensor(i, v, s)), PLACES, VALUES, SHAPE)
add("SparseTensor of lists", lambda tf: parts(tf.SparseTensor([[0, 1]], [2.0], [1, 2])))
add("SparseTensor of another rank", lambda tf, i, v, s: parts(tf.SparseTensor(i, v, s)), PLACES[0], VALUES, SHAPE)
add("SparseTensor of too many values", lambda tf, i, v, s: parts(tf.SparseTensor(i, v, s)), PLACES, floats(4), SHAPE)
add("SparseTensor of too few sizes", lambda tf, i, v, s: parts(tf.SparseTensor(i, v, s)), PLACES, VALUES, SHAPE[:1])
add("SparseTensor of int32 places", lambda tf, i, v, s: parts(tf.SparseTensor(i, v, s)), PLACES.astype(np.int32), VALUES, SHAPE)  # fmt: skip  # noqa: E501
add("from_value", lambda tf: parts(tf.SparseTensor.from_value(tf.SparseTensorValue([[0, 1]], [2.0], [1, 2]))))
add("from_value of a tensor", lambda tf: parts(tf.SparseTensor.from_value(tf.constant([1.0]))))
add("convert_to_tensor_or_sparse_tensor", lambda tf: parts(tf.convert_to_tensor_or_sparse_tensor(tf.SparseTensorValue([[0, 1]], [2.0], [1, 2]))))  # fmt: skip  # noqa: E501
add("convert_to_tensor_or_sparse_tensor of a list", lambda tf: tf.convert_to_tensor_or_sparse_tensor([1.0]))
add("cast of a sparse tensor", lambda tf, i, v, s: parts(tf.cast(tf.SparseTensor(i, v, s), tf.int32)), PLACES, VALUES, SHAPE)  # fmt: skip  # noqa: E501
add("to_int32 of a sparse tensor", lambda tf, i, v, s: parts(tf.to_int32(tf.SparseTensor(i, v, s))), PLACES, VALUES, SHAPE)  # fmt: skip  # noqa: E501


def _add(name: str, function: Any) -> None:
    """A call on a sparse matrix that is fed, and on one whose shape is a constant."""
    add(name, lambda tf, i, v, s: function(tf, tf.SparseTensor(i, v, s)), PLACES, VALUES, SHAPE)
    add(f"{name} of a known shape", lambda tf, i, v: function(tf, tf.SparseTensor(i, v, [2, 4])), PLACES, VALUES)


_add("sparse_tensor_to_dense", lambda tf, x: tf.sparse_tensor_to_dense(x))
_add("sparse_tensor_to_dense with a default", lambda tf, x: tf.sparse_tensor_to_dense(x, -1.0))
_add("sparse_reorder", lambda tf, x: parts(tf.sparse_reorder(x)))
_add("sparse_reshape", lambda tf, x: parts(tf.sparse_reshape(x, [4, 2])))
_add("sparse_reshape to what is left", lambda tf, x: parts(tf.sparse_reshape(x, [-1])))
_add("sparse_reshape to another number", lambda tf, x: parts(tf.sparse_reshape(x, [3, 2])))
_add("sparse_transpose", lambda tf, x: parts(tf.sparse_transpose(x)))
_add("sparse_transpose by an order", lambda tf, x: parts(tf.sparse_transpose(x, [1, 0])))
_add("sparse_retain", lambda tf, x: parts(tf.sparse_retain(x, [True, False, True])))
_add("sparse_slice", lambda tf, x: parts(tf.sparse_slice(x, [0, 1], [2, 9])))
_add("sparse_concat", lambda tf, x: parts(tf.sparse_concat(1, [x, x])))
_add("sparse_concat along rows", lambda tf, x: parts(tf.sparse_concat(0, [x, x, x])))
_add("sparse_concat of two sizes", lambda tf, x: parts(tf.sparse_concat(0, [x, tf.SparseTensor([[0, 0]], [1.0], [1, 2])])))  # fmt: skip  # noqa: E501
_add("sparse_concat expanded", lambda tf, x: parts(tf.sparse_concat(0, [x, tf.SparseTensor([[0, 0]], [1.0], [1, 2])], expand_nonconcat_dim=True)))  # fmt: skip  # noqa: E501
_add("sparse_reset_shape", lambda tf, x: parts(tf.sparse_reset_shape(x)))
_add("sparse_reset_shape to another", lambda tf, x: parts(tf.sparse_reset_shape(x, [3, 4])))
_add("sparse_fill_empty_rows", lambda tf, x: [*parts(tf.sparse_fill_empty_rows(x, 7.0)[0]), tf.sparse_fill_empty_rows(x, 7.0)[1]])  # fmt: skip  # noqa: E501
add("sparse_fill_empty_rows that are empty", lambda tf, i, v, s: parts(tf.sparse_fill_empty_rows(tf.SparseTensor(i, v, s), 7.0)[0]), np.array([[2, 1]]), VALUES[:1], np.array([4, 4]))  # fmt: skip  # noqa: E501
for _axis in [None, 0, 1, -1, [0, 1]]:
    for _keep in [False, True]:
        _add(f"sparse_reduce_sum {_axis} keepdims={_keep}", lambda tf, x, a=_axis, k=_keep: tf.sparse_reduce_sum(x, a, k))  # fmt: skip  # noqa: E501
_add("sparse_reduce_max", lambda tf, x: tf.sparse_reduce_max(x, 1))
_add("sparse_add of a dense tensor", lambda tf, x: tf.sparse_add(x, tf.ones([2, 4])))
_add("sparse_add of itself", lambda tf, x: parts(tf.sparse_add(x, x)))
_add("sparse_add above a threshold", lambda tf, x: parts(tf.sparse_add(x, x, 1.0)))
add("sparse_add of two tensors", lambda tf: tf.sparse_add([1.0], [2.0]))
add("sparse_tensor_dense_matmul", lambda tf, i, v, s, b: tf.sparse_tensor_dense_matmul(tf.SparseTensor(i, v, s), b), PLACES, VALUES, SHAPE, floats(4, 3))  # fmt: skip  # noqa: E501
add("sparse_tensor_dense_matmul adjoint", lambda tf, i, v, s, b: tf.sparse_tensor_dense_matmul(tf.SparseTensor(i, v, s), b, True, True), PLACES, VALUES, SHAPE, floats(3, 2))  # fmt: skip  # noqa: E501
add("sparse_tensor_dense_matmul of another size", lambda tf, i, v, s, b: tf.sparse_tensor_dense_matmul(tf.SparseTensor(i, v, s), b), PLACES, VALUES, SHAPE, floats(3, 3))  # fmt: skip  # noqa: E501
add("sparse_to_indicator", lambda tf, i, v, s: tf.sparse_to_indicator(tf.SparseTensor(i, v, s), 5), PLACES, np.array([4, 0, 2]), SHAPE)  # fmt: skip  # noqa: E501
add("sparse_reshape of three axes", lambda tf, i, v, s: parts(tf.sparse_reshape(tf.SparseTensor(i, v, s), [3, -1])), *DEEP)  # fmt: skip  # noqa: E501
add("sparse_transpose of three axes", lambda tf, i, v, s: parts(tf.sparse_transpose(tf.SparseTensor(i, v, s), [1, 2, 0])), *DEEP)  # fmt: skip  # noqa: E501
add("sparse_tensor_to_dense of three axes", lambda tf, i, v, s: tf.sparse_tensor_to_dense(tf.SparseTensor(i, v, s)), *DEEP)  # fmt: skip  # noqa: E501
add("sparse_reorder of disorder", lambda tf, i, v, s: parts(tf.sparse_reorder(tf.SparseTensor(i, v, s))), PLACES[::-1].copy(), VALUES, SHAPE)  # fmt: skip  # noqa: E501
add("sparse_tensor_to_dense of disorder", lambda tf, i, v, s: tf.sparse_tensor_to_dense(tf.SparseTensor(i, v, s)), PLACES[::-1].copy(), VALUES, SHAPE)  # fmt: skip  # noqa: E501
add("sparse_tensor_to_dense of disorder, unseen", lambda tf, i, v, s: tf.sparse_tensor_to_dense(tf.SparseTensor(i, v, s), validate_indices=False), PLACES[::-1].copy(), VALUES, SHAPE)  # fmt: skip  # noqa: E501
add("sparse_tensor_to_dense of a repeat", lambda tf, i, v, s: tf.sparse_tensor_to_dense(tf.SparseTensor(i, v, s)), PLACES[[0, 0, 1]], VALUES, SHAPE)  # fmt: skip  # noqa: E501
add("sparse_tensor_to_dense outside", lambda tf, i, v, s: tf.sparse_tensor_to_dense(tf.SparseTensor(i, v, s)), PLACES, VALUES, SHAPE - 1)  # fmt: skip  # noqa: E501
add("sparse_tensor_to_dense of nothing", lambda tf, i, v, s: tf.sparse_tensor_to_dense(tf.SparseTensor(i, v, s)), PLACES[:0], VALUES[:0], SHAPE)  # fmt: skip  # noqa: E501
add("sparse_tensor_to_dense of a tensor", lambda tf, v: tf.sparse_tensor_to_dense(v), VALUES)
add("sparse_tensor_to_dense of strings", lambda tf, i, s: tf.equal(tf.sparse_tensor_to_dense(tf.SparseTensor(i, ["a", "b", "c"], s)), [["", "a", "", ""], ["b", "", "", "c"]]), PLACES, SHAPE)  # fmt: skip  # noqa: E501
add("sparse_to_dense", lambda tf, i, v: tf.sparse_to_dense(i, [2, 4], v), PLACES, VALUES)
add("sparse_to_dense of a vector", lambda tf, i, v, d: tf.sparse_to_dense(i, [5], v, d), [1, 3], floats(2), 0.5)
add("sparse_to_dense of one value", lambda tf, i, s: tf.sparse_to_dense(i, s, 1.0, 0.0), PLACES, SHAPE)
add("sparse_to_dense of one place", lambda tf, i: tf.sparse_to_dense(i, [4], 9), 2)
add("sparse_to_dense of int32 places", lambda tf, i, s: tf.sparse_to_dense(i, s, 5, -1), PLACES.astype(np.int32), SHAPE.astype(np.int32))  # fmt: skip  # noqa: E501
add("sparse_to_dense of too many values", lambda tf, i, v: tf.sparse_to_dense(i, [5], v), [1, 3], floats(3))
add("sparse_to_dense with a default that is a list", lambda tf, i, v, d: tf.sparse_to_dense(i, [5], v, d), [1, 3], floats(2), [0.5])  # fmt: skip  # noqa: E501
add("sparse_to_dense outside", lambda tf, i, v: tf.sparse_to_dense(i, [3], v), [1, 3], floats(2))
add("sparse_to_dense of disorder", lambda tf, i, v: tf.sparse_to_dense(i, [5], v), [3, 1], floats(2))
add("tf.sparse", lambda tf, i, v, s: [tf.sparse.to_dense(tf.sparse.reorder(tf.SparseTensor(i, v, s))), *parts(tf.sparse.concat(0, [tf.sparse.reshape(tf.sparse.transpose(tf.sparse.SparseTensor(i, v, s)), [2, 4])] * 2)), tf.sparse.reduce_sum(tf.sparse.retain(tf.SparseTensor(i, v, s), [True, True, False]), 0), *parts(tf.sparse.from_dense([[0, 2], [3, 0]]))], PLACES, VALUES, SHAPE)  # fmt: skip  # noqa: E501

TABLE = floats(5, 3)
IDS = np.array([0, 4, 1, 1, 2])
WHERE = np.array([[0, 0], [0, 1], [1, 0], [3, 0], [3, 2]])
WEIGHTS = floats(5, low=0.5)


def _looked_up(tf: Any, table: Any, ids: Any, weights: Any, *more: Any, **options: Any) -> Any:
    """The numbers and their weights as sparse tensors."""
    function = tf.nn.safe_embedding_lookup_sparse if options.pop("safe", False) else tf.nn.embedding_lookup_sparse
    where = more[0] if more else WHERE
    sizes = [4, 3] if where.shape[1] == 2 else [2, 2, 3]
    given = None if weights is None else tf.SparseTensor(where, weights, sizes)
    return function(table, tf.SparseTensor(where, ids, sizes), given, **options)


for _how in ("mean", "sum", "sqrtn"):
    for _safe in (False, True):
        _name = f"{'safe_' if _safe else ''}embedding_lookup_sparse {_how}"
        _options = {"combiner": _how, "safe": _safe}
        add(_name, lambda tf, t, i, o=_options: _looked_up(tf, t, i, None, **o), TABLE, IDS)
        add(f"{_name} weighted", lambda tf, t, i, w, o=_options: _looked_up(tf, t, i, w, **o), TABLE, IDS, WEIGHTS)
DEEPER = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 0], [1, 1, 2]])
SOME = np.array([0, -1, 1, -1, -1])
MIXED = np.array([1.0, -1.0, 0.0, 2.0, 0.5], np.float32)
add("safe_embedding_lookup_sparse of no numbers", lambda tf, t, i: _looked_up(tf, t, i, None, safe=True), TABLE, SOME)
add("safe_embedding_lookup_sparse by default", lambda tf, t, i: _looked_up(tf, t, i, None, safe=True, default_id=3), TABLE, SOME)  # fmt: skip  # noqa: E501
add("safe_embedding_lookup_sparse of no weights", lambda tf, t, i, w: _looked_up(tf, t, i, w, safe=True), TABLE, IDS, MIXED)  # fmt: skip  # noqa: E501
add("safe_embedding_lookup_sparse of three axes", lambda tf, t, i: _looked_up(tf, t, i, None, DEEPER, safe=True), TABLE, IDS)  # fmt: skip  # noqa: E501
add("safe_embedding_lookup_sparse in two parts", lambda tf, t, i: _looked_up(tf, [t[:3], t[3:]], i, None, safe=True), TABLE, IDS)  # fmt: skip  # noqa: E501
add("embedding_lookup_sparse otherwise", lambda tf, t, i: _looked_up(tf, t, i, None, combiner="max"), TABLE, IDS)
add("embedding_lookup_sparse of dense numbers", lambda tf, t, i: tf.nn.embedding_lookup_sparse(t, i, None), TABLE, IDS)
