"""Random operations: drawn for a chunk of steps ahead of it, step by step, in the order of the plain loop."""

from __future__ import annotations

from unspool.engine.ops.table import Op, OpKind
from unspool.engine.rows.rules import aligned
from unspool.engine.trace.graph import aten

ROWS = (
    Op(aten.rand.default, OpKind.DRAW, shape_at=0),
    Op(aten.randn.default, OpKind.DRAW, shape_at=0),
    Op(aten.bernoulli.p, OpKind.DRAW, aligned),
    Op(aten.bernoulli.default, OpKind.DRAW, aligned),
    Op(aten.native_dropout.default, OpKind.DRAW, aligned),
    Op(aten.uniform.default, OpKind.DRAW, aligned),
    Op(aten.normal_functional.default, OpKind.DRAW, aligned),
    Op(aten.exponential.default, OpKind.DRAW, aligned),
)
