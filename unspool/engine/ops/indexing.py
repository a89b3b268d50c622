"""Gathers, scatters and look-ups: elements that are found by indices. On a CPU no emitter compiles them yet."""

from __future__ import annotations

from unspool.engine.ops.table import Linear, Op, OpKind
from unspool.engine.rows import index_rules, op_axes
from unspool.engine.trace.graph import aten

ROWS = (
    Op(aten.embedding.default, OpKind.INDEXING, index_rules.looked_up),
    Op(aten.embedding_dense_backward.default, OpKind.INDEXING, index_rules.summed_look_up),
    Op(aten.index.Tensor, OpKind.INDEXING, index_rules.indexed, linear=Linear.FIRST),
    Op(aten._unsafe_index.Tensor, OpKind.INDEXING, index_rules.indexed, linear=Linear.FIRST),
    Op(aten.index_select.default, OpKind.INDEXING, axes=op_axes.second, linear=Linear.FIRST),
    Op(aten.index_put.default, OpKind.INDEXING, index_rules.index_put, linear=Linear.PUT),
    Op(aten._unsafe_index_put.default, OpKind.INDEXING, index_rules.index_put, linear=Linear.PUT),
    Op(aten.index_add.default, OpKind.INDEXING, index_rules.index_added),
    Op(aten.gather.default, OpKind.INDEXING, index_rules.addressed, linear=Linear.FIRST),
    Op(aten.take_along_dim.default, OpKind.INDEXING),
    Op(aten.scatter.src, OpKind.INDEXING, index_rules.addressed),
    Op(aten.scatter.value, OpKind.INDEXING, index_rules.addressed),
    Op(aten.scatter_add.default, OpKind.INDEXING, index_rules.addressed),
    Op(aten.scatter_reduce.two, OpKind.INDEXING),
)
