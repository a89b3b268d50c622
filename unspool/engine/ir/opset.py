"""Operations of torch by what they do with elements."""

from __future__ import annotations

from typing import Any

from unspool.engine.trace.graph import aten

PRODUCTS: set[Any] = {aten.mm.default, aten.bmm.default, aten.mv.default}
"""Matrix products."""

REDUCTIONS: set[Any] = {
    aten.sum.dim_IntList,
    aten.mean.dim,
    aten.amax.default,
    aten.amin.default,
    aten.var.correction,
    aten.var_mean.correction,
    aten.logsumexp.default,
    aten._softmax.default,
    aten._log_softmax.default,
    aten._safe_softmax.default,
    aten._softmax_backward_data.default,
    aten._log_softmax_backward_data.default,
    aten.linalg_vector_norm.default,
}
"""Elements of one row meet."""

COMPARISONS: set[Any] = {
    getattr(getattr(aten, name), kind) for name in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Tensor", "Scalar")
}
"""The last bit may decide."""

VIEWS: set[Any] = {
    aten.slice.Tensor,
    aten.select.int,
    aten.split_with_sizes.default,
    aten.split.Tensor,
    aten.unbind.int,
    aten.reshape.default,
    aten.t.default,
    aten.transpose.int,
    aten.permute.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.expand.default,
    aten.cat.default,
    aten.stack.default,
    aten.slice_backward.default,
}
"""The same elements under other indices, and zeros beside them."""

INDEXING: set[Any] = {
    aten.embedding.default,
    aten.index.Tensor,
    aten.index_select.default,
    aten.index_put.default,
    aten._unsafe_index.Tensor,
    aten._unsafe_index_put.default,
    aten.index_add.default,
    aten.index_copy.default,
    aten.gather.default,
    aten.scatter.src,
    aten.scatter.value,
    aten.scatter_add.default,
    aten.scatter_reduce.two,
    aten.take_along_dim.default,
    aten.embedding_dense_backward.default,
}
"""Elements are found by indices, which have to be in range."""
