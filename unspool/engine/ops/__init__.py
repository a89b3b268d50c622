"""The table of operations: a row in the file of its family is all that the engine needs to know of one."""

from __future__ import annotations

from unspool.engine.ops import draws, indexing, logic, pointwise, products, reductions, views
from unspool.engine.ops.table import Kind, Linear, Op, is_pointwise, kind_of, of_kind, op_of, register

__all__ = [
    "COMPARISONS",
    "INDEXING",
    "PRODUCTS",
    "REDUCTIONS",
    "VIEWS",
    "Kind",
    "Linear",
    "Op",
    "is_pointwise",
    "kind_of",
    "op_of",
]

for _family in (pointwise, logic, products, reductions, views, indexing, draws):
    register(*_family.ROWS)

PRODUCTS = of_kind(Kind.PRODUCT)
REDUCTIONS = of_kind(Kind.REDUCTION)
COMPARISONS = of_kind(Kind.COMPARISON)
VIEWS = of_kind(Kind.VIEW)
INDEXING = of_kind(Kind.INDEXING)
