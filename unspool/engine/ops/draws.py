"""Random numbers, which the engine draws in front of a loop, in the order of the plain one."""

from __future__ import annotations

from unspool.engine.ops.table import Kind, Op
from unspool.engine.rows.rules import aligned
from unspool.engine.trace.graph import aten

ROWS = (
    Op(aten.rand.default, Kind.DRAW, shape_at=0),
    Op(aten.randn.default, Kind.DRAW, shape_at=0),
    Op(aten.bernoulli.p, Kind.DRAW, aligned),
    Op(aten.bernoulli.default, Kind.DRAW, aligned),
    Op(aten.native_dropout.default, Kind.DRAW, aligned),
    Op(aten.uniform.default, Kind.DRAW, aligned),
    Op(aten.normal_functional.default, Kind.DRAW, aligned),
    Op(aten.exponential.default, Kind.DRAW, aligned),
)
