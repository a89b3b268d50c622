"""Rows of a table for the numbers in a sparse tensor, one sum of them for each row."""

from __future__ import annotations

from typing import Any

import torch

from unspool.tf1.dtypes import int64
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.classes import embedding_lookup
from unspool.tf1.shapes import Dims
from unspool.tf1.sparse.tensor import SparseTensor
from unspool.tf1.tensor import Tensor

COMBINERS = ("mean", "sqrtn", "sum")


def embedding_lookup_sparse(
    params: Any,
    sp_ids: SparseTensor,
    sp_weights: SparseTensor | None,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: float | None = None,
) -> Tensor:
    """For each row of a sparse matrix of numbers, the rows of a table at these numbers, added up.

    Args:
        params: the table, or a list of its parts.
        sp_ids: the numbers; each row that there is, up to the last, has one at least.
        sp_weights: a weight for each number; None for ones.
        partition_strategy: how parts share the rows: "mod" in turn, "div" one after the other.
        name: the operation's name.
        combiner: "sum"; "mean", the sum divided by that of the weights; or "sqrtn", by the root of that of squares.
        max_norm: not supported.

    Raises:
        TypeError: if `sp_ids` or `sp_weights` is no sparse tensor.
        ValueError: if `combiner` is none of these.

    >>> from unspool import tf1 as tf
    >>> numbers = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [0, 2, 1], [2, 2])
    >>> tf.Session().run(tf.nn.embedding_lookup_sparse(tf.constant([[1.0], [2.0], [5.0]]), numbers, None))
    array([[3.],
           [2.]], dtype=float32)
    """
    how = _checked(combiner, sp_ids, sp_weights)
    found = embedding_lookup(params, sp_ids.values, partition_strategy, max_norm=max_norm)
    rows = apply("Rows", lambda at: at[:, 0], sp_ids.indices, outputs=[(int64, (None,))])
    weights = [] if sp_weights is None else [as_tensor(sp_weights.values)]
    return _combined(name or "embedding_lookup_sparse", how, found, rows, None, weights)


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: SparseTensor,
    sparse_weights: SparseTensor | None = None,
    combiner: str | None = "mean",
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: float | None = None,
) -> Tensor:
    """`embedding_lookup_sparse` for rows of which some are empty, or have numbers that are none.

    Args:
        embedding_weights: the table, or a list of its parts.
        sparse_ids: the numbers `[..., count]`; negative ones are left out.
        sparse_weights: a weight for each; but for "sum", numbers with none that is positive are left out.
        combiner: see `embedding_lookup_sparse`.
        default_id: the number that an empty row has; zeros stand for such rows if None.
        name: the operation's name.
        partition_strategy: how parts share the rows: "mod" in turn, "div" one after the other.
        max_norm: not supported.

    Returns:
        `[..., depth]`.

    >>> from unspool import tf1 as tf
    >>> numbers = tf.SparseTensor([[0, 0], [2, 0], [2, 1]], [1, 0, -1], [3, 2])
    >>> tf.Session().run(tf.nn.safe_embedding_lookup_sparse(tf.constant([[1.0], [2.0]]), numbers))
    array([[2.],
           [0.],
           [1.]], dtype=float32)
    """
    parts: list[Any] = list(embedding_weights) if isinstance(embedding_weights, list | tuple) else [embedding_weights]  # pyright: ignore[reportUnknownArgumentType]
    if not parts or any(each is None for each in parts):
        raise ValueError(f"Missing embedding_weights {embedding_weights}.")
    how = _checked(combiner, sparse_ids, sparse_weights)
    ids = as_tensor(sparse_ids.values)
    weights = [] if sparse_weights is None else [as_tensor(sparse_weights.values)]
    outputs = [(ids.dtype, (None,)), (int64, (None,)), (int64, ())]
    outputs += [(each.dtype, (None,)) for each in weights]
    given = sparse_ids.indices, ids, sparse_ids.dense_shape, *weights
    kept, rows, count, *left = apply("SparseFillEmptyRows", _Pruned(how, default_id), *given, outputs=outputs)
    found = embedding_lookup(embedding_weights, kept, partition_strategy, max_norm=max_norm)
    made = _combined(name or "embedding_lookup_sparse", how, found, rows, count, left)
    known, dims = sparse_ids.dims, None
    if known is not None and made.dims is not None:
        dims = (*known[:-1], *made.dims[1:])

    def shaped(x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        return x.reshape(*sizes[:-1].tolist(), *x.shape[1:])

    return apply("Reshape", shaped, made, sparse_ids.dense_shape, outputs=[(made.dtype, dims)])


class _Pruned:
    """The numbers of a sparse tensor that are some, the row of each, how many rows there are, and the weights."""

    def __init__(self, combiner: str, default: int | None) -> None:
        self._combiner, self._default = combiner, default

    def __call__(self, at: torch.Tensor, ids: torch.Tensor, sizes: torch.Tensor, *weights: torch.Tensor) -> Any:
        around = sizes[:-1].flip(0)
        steps = torch.cat([around.new_ones(1), around.cumprod(0)[:-1]]).flip(0)[: len(around)]
        rows, count = (at[:, :-1] * steps).sum(1), int(around.prod())
        kept = ids >= 0
        if self._combiner != "sum":
            for each in weights:
                kept = kept & (each > 0)
        ids, rows, weights = ids[kept], rows[kept], tuple(each[kept] for each in weights)
        if self._default is not None:
            empty = torch.ones(count, dtype=torch.bool).index_fill(0, rows, False).nonzero()[:, 0]
            ids = torch.cat([ids, ids.new_full((len(empty),), self._default)])
            weights = tuple(torch.cat([each, each.new_ones(len(empty))]) for each in weights)
            rows = torch.cat([rows, empty])
        return ids, rows, torch.tensor(count), *weights


def _checked(combiner: str | None, ids: Any, weights: Any) -> str:
    how = combiner or "mean"
    if how not in COMBINERS:
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', but is {combiner!r}")
    if not isinstance(ids, SparseTensor):
        raise TypeError(f"sp_ids must be SparseTensor, but is {ids!r}")
    if weights is not None and not isinstance(weights, SparseTensor):
        raise TypeError(f"sp_weights must be either None or SparseTensor, but is {weights!r}")
    return how


def _combined(name: str, how: str, found: Tensor, rows: Tensor, count: Tensor | None, weights: list[Tensor]) -> Tensor:
    """The rows of a table that belong together, added up and divided."""

    def compute(values: torch.Tensor, at: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        given = list(rest)
        total = int(given.pop(0)) if count is not None else int(at[-1]) + 1 if len(at) else 0
        weight = given[0].to(values.dtype) if given else values.new_ones(len(at))
        weight = weight.reshape(-1, *[1] * (values.dim() - 1))
        made = values.new_zeros(total, *values.shape[1:]).index_add(0, at, values * weight)
        if how == "sum":
            return made
        sizes = values.new_zeros(total, *weight.shape[1:])
        sizes = sizes.index_add(0, at, weight) if how == "mean" else sizes.index_add(0, at, weight**2).sqrt()
        return torch.where(sizes == 0, torch.zeros_like(made), made / torch.where(sizes == 0, 1.0, sizes))

    dims: Dims = None if found.dims is None else (None, *found.dims[1:])
    inputs = [found, rows, *([] if count is None else [count]), *weights]
    made: Tensor = apply("embedding_lookup_sparse", compute, *inputs, name=name, outputs=[(found.dtype, dims)])
    return made
