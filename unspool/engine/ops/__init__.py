"""The table of operations: a row in the file of its family is all that the engine needs to know of one."""

from __future__ import annotations

from unspool.engine.ops import convolutions, draws, indexing, logic, pointwise, products, reductions, scans, views
from unspool.engine.ops.table import Linear, Op, OpKind, is_pointwise, kind_of, of_kind, op_of, register

__all__ = [
    "COMPARISONS",
    "INDEXING",
    "PRODUCTS",
    "REDUCTIONS",
    "VIEWS",
    "Linear",
    "Op",
    "OpKind",
    "is_pointwise",
    "kind_of",
    "op_of",
]

for _family in (pointwise, logic, products, convolutions, reductions, scans, views, indexing, draws):
    register(*_family.ROWS)

PRODUCTS = of_kind(OpKind.PRODUCT)
REDUCTIONS = of_kind(OpKind.REDUCTION)
COMPARISONS = of_kind(OpKind.COMPARISON)
VIEWS = of_kind(OpKind.VIEW)
INDEXING = of_kind(OpKind.INDEXING)
