"""Convolutions, and operations on images that are left to library kernels: pooling, upsampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.convolutions import AXES, Options
from unspool.engine.emit.stages.dtypes import MULTIPLIED
from unspool.engine.ops.table import Op, OpKind
from unspool.engine.rows import product_rules
from unspool.engine.trace.graph import aten

if TYPE_CHECKING:  # the stages of emitters import the table of operations
    from unspool.engine.emit.stages.row import Row
    from unspool.engine.emit.stages.strided import Ref
    from unspool.engine.ir.program import Instruction, Value


def _convolution(row: Row, instruction: Instruction) -> Ref:
    image, filters, bias, steps, padding, dilation, transposed, _, groups = instruction.arguments
    (result,) = instruction.results
    axes = len(filters.shape) - 2
    if axes > AXES:
        raise CannotEmitError(f"a convolution of images with {axes} axes")
    steps, padding, dilation = (_for_each(numbers, axes) for numbers in (steps, padding, dilation))
    return row.convolve(result, image, filters, bias, Options(steps, padding, dilation, groups, transposed))


PIXELS = 256
"""Of an image, from which the gradient of filters is added up row by row as fast as for many rows at once."""


def gradient_of_filters(instruction: Instruction) -> tuple[Value, Value, Options] | None:
    """The image, the gradient of what it was convolved to, and how, of an instruction that computes that of filters.

    None if it is another instruction, too small, or of several images a row. A transposed convolution goes from the
    gradient to the image.
    """
    if instruction.operation is not aten.convolution_backward.default:
        return None
    gradient, image, filters, _, steps, padding, dilation, transposed, _, groups, mask = instruction.arguments
    if transposed:
        gradient, image = image, gradient
    axes, dtypes = len(filters.shape) - 2, {gradient.dtype, image.dtype, filters.dtype}
    if mask != [False, True, False] or axes > AXES or not dtypes <= MULTIPLIED.keys() or len(dtypes) > 1:
        return None
    if math.prod(gradient.shape[1:]) < PIXELS or not math.prod(filters.shape) or image.times > 1:
        return None
    steps, padding, dilation = (_for_each(numbers, axes) for numbers in (steps, padding, dilation))
    return image, gradient, Options(steps, padding, dilation, groups, spreads=False)


def _for_each(numbers: Sequence[int], axes: int) -> tuple[int, ...]:
    """Numbers for each axis; a single one is for all."""
    return tuple(numbers) if len(numbers) == axes else tuple(numbers) * axes


ROWS = (
    Op(aten.convolution.default, OpKind.OTHER, product_rules.convolution, lowering=_convolution),
    Op(aten.convolution_backward.default, OpKind.OTHER, product_rules.convolution_backward),
    Op(aten.avg_pool2d.default, OpKind.OTHER, product_rules.images),
    Op(aten.avg_pool2d_backward.default, OpKind.OTHER, product_rules.images),
    Op(aten.max_pool2d_with_indices.default, OpKind.OTHER, product_rules.images),
    Op(aten.max_pool2d_with_indices_backward.default, OpKind.OTHER, product_rules.images),
    Op(aten._adaptive_avg_pool2d.default, OpKind.OTHER, product_rules.images),
    Op(aten._adaptive_avg_pool2d_backward.default, OpKind.OTHER, product_rules.images),
    Op(aten.upsample_nearest2d.vec, OpKind.OTHER, product_rules.images),
)
