"""Operations that find elements by indices; no emitter compiles them yet."""

from __future__ import annotations

from unspool.engine.ops.table import Kind, Linear, Op
from unspool.engine.rows import index_rules, op_axes
from unspool.engine.trace.graph import aten

ROWS = (
    Op(aten.embedding.default, Kind.INDEXING, index_rules.looked_up),
    Op(aten.embedding_dense_backward.default, Kind.INDEXING, index_rules.summed_look_up),
    Op(aten.index.Tensor, Kind.INDEXING, index_rules.indexed, linear=Linear.FIRST),
    Op(aten._unsafe_index.Tensor, Kind.INDEXING),
    Op(aten.index_select.default, Kind.INDEXING, axes=op_axes.second, linear=Linear.FIRST),
    Op(aten.index_put.default, Kind.INDEXING, index_rules.index_put, linear=Linear.PUT),
    Op(aten._unsafe_index_put.default, Kind.INDEXING, index_rules.index_put, linear=Linear.PUT),
    Op(aten.index_add.default, Kind.INDEXING, index_rules.index_added),
    Op(aten.index_copy.default, Kind.INDEXING),
    Op(aten.gather.default, Kind.INDEXING, index_rules.addressed, linear=Linear.FIRST),
    Op(aten.take_along_dim.default, Kind.INDEXING),
    Op(aten.scatter.src, Kind.INDEXING, index_rules.addressed),
    Op(aten.scatter.value, Kind.INDEXING, index_rules.addressed),
    Op(aten.scatter_add.default, Kind.INDEXING, index_rules.addressed),
    Op(aten.scatter_reduce.two, Kind.INDEXING),
)
