"""From sparse to dense and back, and what is computed with both."""

from __future__ import annotations

from typing import Any

import torch

from unspool.tf1.dtypes import bool_, int64, string
from unspool.tf1.operations import apply, as_sizes, as_tensor, known_ints
from unspool.tf1.ops.math import cast
from unspool.tf1.ops.reductions import as_axes, reduced
from unspool.tf1.shapes import described, fit
from unspool.tf1.sparse.tensor import SparseTensor, SparseTensorValue, as_sparse
from unspool.tf1.tensor import Operators

__all__ = [
    "sparse_add",
    "sparse_reduce_max",
    "sparse_reduce_sum",
    "sparse_tensor_dense_matmul",
    "sparse_tensor_to_dense",
    "sparse_to_dense",
    "sparse_to_indicator",
]


def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Any:
    """A tensor with values at some places, and a default everywhere else.

    Args:
        sparse_indices: `[count, rank]`, the places; `[count]` or a number for a vector.
        output_shape: the shape of the result.
        sparse_values: `[count]`, or one value for all places.
        default_value: what stands elsewhere.
        validate_indices: whether the places must be in order, and none twice.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.sparse_to_dense([1, 3], [5], 1.0))
    array([0., 1., 0., 1., 0.], dtype=float32)
    """
    values = as_tensor(sparse_values)
    places, sizes, default = as_tensor(sparse_indices), as_sizes(output_shape), as_tensor(default_value, values.dtype)

    def compute(p: torch.Tensor, s: torch.Tensor, v: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        where = p.reshape(-1, 1) if p.dim() < 2 else p
        shape = s.tolist()
        if p.dim() > 2 or where.shape[1] != len(shape):
            raise ValueError(f"output_shape has {len(shape)} sizes, but sparse_indices have shape {list(p.shape)}")
        if v.dim() > 1 or (v.dim() == 1 and len(v) != len(where)):
            raise ValueError(f"sparse_values has incorrect shape {list(v.shape)}, should be [] or [{len(where)}]")
        if d.dim():
            raise ValueError(f"default_value should be a scalar, but has shape {list(d.shape)}")
        flat = flat_places(where, s, ordered=validate_indices)
        blank = d.reshape(1).expand(int(s.prod())).clone()
        return blank.index_put((flat,), v.expand(len(flat))).reshape(shape)

    found = known_ints(sizes)
    dims = None if found is None else tuple(found)
    return apply("SparseToDense", compute, places, sizes, values, default, name=name, outputs=[(values.dtype, dims)])


def flat_places(places: torch.Tensor, sizes: torch.Tensor, *, ordered: bool) -> torch.Tensor:
    """The number of each place, row by row; `ValueError` if one is outside, or not after the one before it."""
    bad = ((places < 0) | (places >= sizes)).any(1)
    if bool(bad.any()):
        first = int(bad.nonzero()[0, 0])
        raise ValueError(
            f"indices[{first}] = {places[first].tolist()} is out of bounds: need 0 <= index < {sizes.tolist()}"
        )
    steps = sizes.flip(0).cumprod(0).flip(0).long()
    flat = (places.long() * torch.cat([steps[1:], steps.new_ones(min(1, len(steps)))])).sum(1)
    if ordered and len(flat) > 1 and bool((flat[1:] <= flat[:-1]).any()):
        first = int((flat[1:] <= flat[:-1]).nonzero()[0, 0]) + 1
        what = "is repeated" if flat[first] == flat[first - 1] else "is out of order"
        raise ValueError(
            f"indices[{first}] = {places[first].tolist()} {what}. Use `tf.sparse.reorder` to fix the order"
        )
    return flat


def sparse_tensor_to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Any:
    """A sparse tensor as a dense one, with a default where nothing is: 0, or an empty string, unless given."""
    given = as_sparse(sp_input)
    nothing = "" if given.dtype is string else 0
    default = as_tensor(nothing if default_value is None else default_value, given.dtype)
    return sparse_to_dense(given.indices, given.dense_shape, given.values, default, validate_indices, name)


def sparse_from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """The elements of a tensor that are not zero."""
    given = as_tensor(tensor)

    def compute(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        places = x.nonzero()
        return places, x[tuple(places.unbind(1))], torch.tensor(x.shape, dtype=torch.int64)

    rank = None if given.dims is None else len(given.dims)
    outputs = [(int64, (None, rank)), (given.dtype, (None,)), (int64, (rank,))]
    return SparseTensor(*apply("DenseToSparse", compute, given, name=name, outputs=outputs))


def sparse_to_indicator(sp_input: Any, vocab_size: int, name: str | None = None) -> Any:
    """Which ids stand in each row: the values are ids, and the last axis of the result is over all of them."""
    given = as_sparse(sp_input)

    def compute(places: torch.Tensor, ids: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        where = torch.cat([places[:, :-1], ids[:, None].long()], 1)
        wide = torch.cat([sizes[:-1], sizes.new_tensor([vocab_size])])
        found = torch.zeros(int(wide.prod()), dtype=torch.bool, device=ids.device)
        return found.index_fill(0, flat_places(where, wide, ordered=False), True).reshape(wide.tolist())

    dims = None if given.dims is None else (*given.dims[:-1], vocab_size)
    return apply("SparseToIndicator", compute, *given.parts(), name=name, outputs=[(bool_, dims)])


def sparse_reduce_sum(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Any:
    """The sum of the elements along axes, all of them by default, as a dense tensor."""
    return _reduce(
        "SparseReduceSum", "sum", sp_input, axis if axis is not None else reduction_axes, keepdims, keep_dims
    )


def sparse_reduce_max(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Any:
    """The largest of the elements that are there, along axes; 0 where none is."""
    return _reduce(
        "SparseReduceMax", "amax", sp_input, axis if axis is not None else reduction_axes, keepdims, keep_dims
    )


def _reduce(kind: str, fold: str, sp_input: Any, axis: Any, keepdims: Any, keep_dims: Any) -> Any:
    given, keep, axes = as_sparse(sp_input), bool(keepdims or keep_dims), as_axes(axis)

    def compute(places: torch.Tensor, values: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        rank = len(sizes)
        gone = {each % rank for each in (range(rank) if axes is None else [axes] if isinstance(axes, int) else axes)}
        kept = [each for each in range(rank) if each not in gone]
        flat = flat_places(places[:, kept], sizes[kept], ordered=False)
        blank = values.new_zeros(int(sizes[kept].prod()))
        if fold == "sum":
            made = blank.index_add(0, flat, values)
        else:
            made = blank.scatter_reduce(0, flat, values, fold, include_self=False)
        shape = [
            1 if each in gone else int(size) for each, size in enumerate(sizes.tolist()) if keep or each not in gone
        ]
        return made.reshape(shape)

    dims = reduced(kind, given.dims, axes, keep)
    return apply(kind, compute, *given.parts(), outputs=[(given.dtype, dims)])


def sparse_tensor_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Any:
    """The product of a sparse matrix and a dense one.

    >>> from unspool import tf1 as tf
    >>> rows = tf.SparseTensor([[0, 1]], [2.0], [1, 3])
    >>> tf.Session().run(tf.sparse_tensor_dense_matmul(rows, [[1.0], [10.0], [100.0]]))
    array([[20.]], dtype=float32)
    """
    given = as_sparse(sp_a)
    right = as_tensor(b, None if isinstance(b, Operators) else given.dtype)
    if right.dtype is not given.dtype:
        raise TypeError(f"sp_a is {given.dtype.name}, but b is {right.dtype.name}; use tf.cast")
    side = 1 if adjoint_a else 0

    def compute(places: torch.Tensor, values: torch.Tensor, sizes: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        matrix = matrix.T if adjoint_b else matrix
        rows, inner = int(sizes[side]), int(sizes[1 - side])
        if inner != len(matrix):
            raise ValueError(
                f"Cannot multiply A and B because inner dimension does not match: {inner} vs. {len(matrix)}"
            )
        terms = matrix.index_select(0, places[:, 1 - side]) * values[:, None]
        return matrix.new_zeros(rows, matrix.shape[1]).index_add(0, places[:, side], terms)

    rows = None if given.dims is None else given.dims[side]
    wide = None if right.dims is None else right.dims[0 if adjoint_b else 1]
    outputs = [(given.dtype, (rows, wide))]
    return apply("SparseTensorDenseMatMul", compute, *given.parts(), right, name=name, outputs=outputs)


def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None) -> Any:
    """The sum of two tensors of one shape: sparse if both are, without what is below the threshold; dense otherwise."""
    both = [isinstance(each, SparseTensor | SparseTensorValue) for each in (a, b)]
    if not any(both):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if all(both):
        return _sparse_sum(as_sparse(a), as_sparse(b), thresh if threshold is None else threshold)
    sparse, other = (as_sparse(a), b) if both[0] else (as_sparse(b), a)
    dense = as_tensor(other, None if isinstance(other, Operators) else sparse.dtype)
    if not fit(sparse.dims, dense.dims):
        raise ValueError(f"shapes {described(sparse.dims)} and {described(dense.dims)} of a sum do not fit")

    def compute(places: torch.Tensor, values: torch.Tensor, sizes: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        if sizes.tolist() != list(x.shape):
            raise ValueError(f"Dimensions of a sum do not match: {sizes.tolist()} and {list(x.shape)}")
        flat = flat_places(places, sizes, ordered=False)
        return x.reshape(-1).index_add(0, flat, values).reshape(x.shape)

    return apply("SparseTensorDenseAdd", compute, *sparse.parts(), dense, outputs=[(dense.dtype, dense.dims)])


def _sparse_sum(a: SparseTensor, b: SparseTensor, threshold: Any) -> SparseTensor:
    least = as_tensor(0 if threshold is None else threshold, None if isinstance(threshold, Operators) else a.dtype)

    def compute(*given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        (p, v, s), (q, w, r), limit = given[:3], given[3:6], given[6]
        if s.tolist() != r.tolist():
            raise ValueError(f"Operands' shapes do not match: {s.tolist()} and {r.tolist()}")
        flat = torch.cat([flat_places(each, s, ordered=False) for each in (p, q)])
        found, which = flat.unique(return_inverse=True)
        total = v.new_zeros(len(found)).index_add(0, which, torch.cat([v, w]))
        places = p.new_zeros(len(found), p.shape[1]).index_copy(0, which, torch.cat([p, q]))
        kept = (total.abs() >= limit).nonzero()[:, 0]
        return places[kept], total[kept], s

    rank = None if a.dims is None else len(a.dims)
    outputs = [(int64, (None, rank)), (a.dtype, (None,)), (int64, (rank,))]
    made = apply("SparseAdd", compute, *a.parts(), *b.parts(), cast(least, a.dtype), outputs=outputs)
    made[2].known = a.dense_shape.known
    return SparseTensor(*made)
