"""Matrix products, and operations that are left to library kernels: convolutions, pooling, upsampling.

Matrix products are lowered by their shapes, in `emit/stages`; no emitter compiles the others.
"""

from __future__ import annotations

from unspool.engine.ops.table import Linear, Op, OpKind
from unspool.engine.rows import product_rules
from unspool.engine.trace.graph import aten

ROWS = (
    Op(aten.mm.default, OpKind.PRODUCT, product_rules.matrix_product, linear=Linear.EACH),
    Op(aten.bmm.default, OpKind.PRODUCT, product_rules.batched_product, linear=Linear.EACH),
    Op(aten.mv.default, OpKind.PRODUCT, product_rules.matrix_times_vector, linear=Linear.EACH),
    Op(aten.convolution.default, OpKind.OTHER, product_rules.convolution),
    Op(aten.convolution_backward.default, OpKind.OTHER, product_rules.convolution_backward),
    Op(aten.avg_pool2d.default, OpKind.OTHER, product_rules.images),
    Op(aten.avg_pool2d_backward.default, OpKind.OTHER, product_rules.images),
    Op(aten.max_pool2d_with_indices.default, OpKind.OTHER, product_rules.images),
    Op(aten.max_pool2d_with_indices_backward.default, OpKind.OTHER, product_rules.images),
    Op(aten._adaptive_avg_pool2d.default, OpKind.OTHER, product_rules.images),
    Op(aten._adaptive_avg_pool2d_backward.default, OpKind.OTHER, product_rules.images),
    Op(aten.upsample_nearest2d.vec, OpKind.OTHER, product_rules.images),
    Op(aten._weight_norm_interface_backward.default, OpKind.OTHER, linear=Linear.FIRST),
)
