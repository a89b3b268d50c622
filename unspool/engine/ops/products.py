"""Matrix products, which are lowered by their shapes, in `emit/stages`."""

from __future__ import annotations

from unspool.engine.ops.table import Linear, Op, OpKind
from unspool.engine.rows import product_rules
from unspool.engine.trace.graph import aten

ROWS = (
    Op(aten.mm.default, OpKind.PRODUCT, product_rules.matrix_product, linear=Linear.EACH),
    Op(aten.bmm.default, OpKind.PRODUCT, product_rules.batched_product, linear=Linear.EACH),
    Op(aten.mv.default, OpKind.PRODUCT, product_rules.matrix_times_vector, linear=Linear.EACH),
    Op(aten._weight_norm_interface_backward.default, OpKind.OTHER, linear=Linear.FIRST),
)
