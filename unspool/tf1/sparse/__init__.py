"""`tf.sparse`: sparse tensors, as labels for CTC and as rows of features."""

from __future__ import annotations

from typing import Any

from unspool.tf1.namespace import missing
from unspool.tf1.sparse.dense import sparse_add as add
from unspool.tf1.sparse.dense import sparse_from_dense as from_dense
from unspool.tf1.sparse.dense import sparse_reduce_max as reduce_max
from unspool.tf1.sparse.dense import sparse_reduce_sum as reduce_sum
from unspool.tf1.sparse.dense import sparse_tensor_dense_matmul as matmul
from unspool.tf1.sparse.dense import sparse_tensor_to_dense as to_dense
from unspool.tf1.sparse.dense import sparse_to_indicator as to_indicator
from unspool.tf1.sparse.layout import sparse_concat as concat
from unspool.tf1.sparse.layout import sparse_fill_empty_rows as fill_empty_rows
from unspool.tf1.sparse.layout import sparse_reorder as reorder
from unspool.tf1.sparse.layout import sparse_reset_shape as reset_shape
from unspool.tf1.sparse.layout import sparse_reshape as reshape
from unspool.tf1.sparse.layout import sparse_retain as retain
from unspool.tf1.sparse.layout import sparse_slice as slice
from unspool.tf1.sparse.layout import sparse_transpose as transpose
from unspool.tf1.sparse.tensor import SparseTensor
from unspool.tf1.sparse.tensor import sparse_placeholder as placeholder

sparse_dense_matmul = matmul

__all__ = [
    "SparseTensor",
    "add",
    "concat",
    "fill_empty_rows",
    "from_dense",
    "matmul",
    "placeholder",
    "reduce_max",
    "reduce_sum",
    "reorder",
    "reset_shape",
    "reshape",
    "retain",
    "slice",
    "sparse_dense_matmul",
    "to_dense",
    "to_indicator",
    "transpose",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.sparse", name, __all__)
