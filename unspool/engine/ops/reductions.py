"""Reductions and softmaxes within a row, with their lowerings.

A reduction's entry and what computes it for one row of the batch stand in this file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.dtypes import computed
from unspool.engine.ops.arguments import dim_of, dims_of, first, given
from unspool.engine.ops.table import Linear, Lowering, Op, OpKind
from unspool.engine.rows import op_axes
from unspool.engine.trace.graph import aten

if TYPE_CHECKING:  # the stages of emitters import the table of operations
    from unspool.engine.emit.stages.row import Row
    from unspool.engine.emit.stages.strided import Ref
    from unspool.engine.ir.program import Instruction, Value


def _floating(row: Row, instruction: Instruction) -> tuple[Ref, Value]:
    """The argument, which has to be of floating-point numbers, as the result has to be; halves are widened."""
    ref, result = first(row, instruction), instruction.results[0]
    if not result.dtype.is_floating_point or computed(ref.buffer.dtype) != computed(result.dtype):
        raise CannotEmitError(f"{instruction.operation} has no compiled form for {ref.buffer.dtype}")
    return row.widened(ref), result


def _count(ref: Ref, dims: Sequence[int]) -> int:
    return math.prod(ref.shape[dim] for dim in dims) if dims else ref.size


def _sum(row: Row, instruction: Instruction) -> Ref:
    if instruction.results[0].dtype.is_floating_point:
        ref, result = _floating(row, instruction)
        return row.reduce(result.name, "sum", ref, dims_of(instruction))
    return _folded(row, instruction, "sum", 0)


def _prod(row: Row, instruction: Instruction) -> Ref:
    return _folded(row, instruction, "prod", 1)


def _any(row: Row, instruction: Instruction) -> Ref:
    return _folded(row, instruction, "max", False)


def _all(row: Row, instruction: Instruction) -> Ref:
    return _folded(row, instruction, "min", True)


def _folded(row: Row, instruction: Instruction, fold: str, of_none: int) -> Ref:
    """Elements that are first taken to the result's type, in which they are folded; `of_none` if there are none."""
    ref, result, dims = first(row, instruction), instruction.results[0], dims_of(instruction)
    if not _count(ref, dims):
        return row.constant(of_none, result.dtype, result.local_shape)
    if ref.buffer.dtype != result.dtype:
        ref = row.compute(f"{result.name}_each", "{0}", result.dtype, ref.shape, ref)
    return row.reduce(result.name, fold, ref, dims)


def _extreme(fold: str) -> Lowering:
    def lowering(row: Row, instruction: Instruction) -> Ref:
        return row.reduce(instruction.results[0].name, fold, first(row, instruction), dims_of(instruction))

    return lowering


def _mean(row: Row, instruction: Instruction) -> Ref:
    ref, result = _floating(row, instruction)
    mean = _wide_mean(row, f"{result.name}_mean", ref, dims_of(instruction))
    return row.narrowed(result.name, mean, ref.buffer.dtype)


def _wide_mean(row: Row, name: str, ref: Ref, dims: Sequence[int]) -> Ref:
    """The mean in float64; of equal numbers, just that number: a variance of these is zero.

    The sum of equal float32 is exact in float64. Of float64, distances from the first number are summed.
    """
    count, dtype = _count(ref, dims), torch.float64
    if ref.buffer.dtype != dtype:
        wide = row.compute(f"{name}_each", "{0}", dtype, ref.shape, ref)
        return _share(row, name, row.fold(f"{name}_sum", "sum", wide, dims), count)
    first = ref
    for dim in dims or range(len(ref.shape)):
        first = first.narrow(dim, 0, 1)
    # From zero where distances could overflow, or would be NaN.
    pivot = row.compute(f"{name}_pivot", "(unspool::fabs({0}) < 1e300 ? {0} : 0)", dtype, first.shape, first)
    apart = row.compute(f"{name}_apart", "{0} - {1}", dtype, ref.shape, ref, pivot)
    share = _share(row, f"{name}_share", row.fold(f"{name}_sum", "sum", apart, dims), count)
    return row.compute(name, "{0} + {1}", dtype, share.shape, pivot, share)


def _share(row: Row, name: str, total: Ref, count: float) -> Ref:
    """A sum divided by how many were summed, in its own dtype."""
    dtype = total.buffer.dtype
    return row.compute(name, "{0} / {1}", dtype, total.shape, total, row.constant(count, dtype, ()))


def _var_mean(row: Row, instruction: Instruction) -> list[Ref]:
    ref, result = _floating(row, instruction)
    dims = dims_of(instruction)
    name, dtype = result.name if result.name != "_" else instruction.results[-1].name, ref.buffer.dtype
    correction = instruction.options.get("correction", 1)
    count = max(_count(ref, dims) - (1 if correction is None else correction), 0)
    if row.one_pass and dtype != torch.float64:
        return _var_mean_at_once(row, name, ref, dims, count)
    mean = _wide_mean(row, f"{name}_mean", ref, dims)
    square = row.compute(f"{name}_square", "({0} - {1}) * ({0} - {1})", mean.buffer.dtype, ref.shape, ref, mean)
    squares = row.fold(f"{name}_squares", "sum", square, dims)
    variance = _share(row, f"{name}_wide", squares, count)
    return [row.narrowed(name, variance, dtype), row.narrowed(f"{name}_mean", mean, dtype)]


def _var_mean_at_once(row: Row, name: str, ref: Ref, dims: Sequence[int], count: float) -> list[Ref]:
    """From the sums of numbers and of squares: float64 has the digits that the difference of these loses of float32.

    What is left of equal numbers is rounding, less than 2^-48 of the squares, and is zero.
    """
    dtype = torch.float64
    wide = row.compute(f"{name}_each", "{0}", dtype, ref.shape, ref)
    total = row.fold(f"{name}_sum", "sum", wide, dims)
    square = row.compute(f"{name}_square", "{0} * {0}", dtype, ref.shape, wide)
    squares = row.fold(f"{name}_squares", "sum", square, dims)
    mean = _share(row, f"{name}_mean", total, _count(ref, dims))
    left = row.compute(f"{name}_left", "{0} - {1} * {2}", dtype, total.shape, squares, total, mean)
    rest = row.compute(f"{name}_rest", "({0} < {1} * 0x1p-48 ? 0 : {0})", dtype, total.shape, left, squares)
    variance = _share(row, f"{name}_wide", rest, count)
    return [row.narrowed(name, variance, ref.buffer.dtype), row.narrowed(f"{name}_mean", mean, ref.buffer.dtype)]


def _var(row: Row, instruction: Instruction) -> Ref:
    return _var_mean(row, instruction)[0]


def _std(row: Row, instruction: Instruction) -> Ref:
    variance, _ = _var_mean(row, instruction)
    name = f"{instruction.results[0].name}_root"
    return row.compute(name, "unspool::sqrt({0})", variance.buffer.dtype, variance.shape, variance)


def _norm(row: Row, instruction: Instruction) -> Ref:
    ref, result = _floating(row, instruction)
    order, dims, dtype = given(instruction, 1, 2), dims_of(instruction, 2), ref.buffer.dtype
    folds = {2: ("{0} * {0}", "sum"), 1: ("unspool::fabs({0})", "sum"), math.inf: ("unspool::fabs({0})", "max")}
    if order not in folds:
        raise CannotEmitError(f"a norm of order {order}")
    text, fold = folds[order]
    parts = row.compute(f"{result.name}_part", text, dtype, ref.shape, ref)
    total = row.reduce(f"{result.name}_sum", fold, parts, dims)
    return row.compute(result.name, "unspool::sqrt({0})", dtype, total.shape, total) if order == 2 else total


def _exponentials(row: Row, name: str, ref: Ref, dims: Sequence[int]) -> tuple[Ref, Ref, Ref]:
    """The largest entry, the exponentials of what is below it, and their sum."""
    dtype = ref.buffer.dtype
    top = row.reduce(f"{name}_max", "max", ref, dims)
    powers = row.compute(f"{name}_exp", "unspool::exp({0} - {1})", dtype, ref.shape, ref, top)
    return top, powers, row.reduce(f"{name}_sum", "sum", powers, dims)


def _softmax(row: Row, instruction: Instruction) -> Ref:
    ref, result = _floating(row, instruction)
    _, powers, total = _exponentials(row, result.name, ref, dims_of(instruction))
    return row.compute(result.name, "{0} / {1}", ref.buffer.dtype, ref.shape, powers, total)


def _safe_softmax(row: Row, instruction: Instruction) -> Ref:
    ref, result = _floating(row, instruction)
    top, powers, total = _exponentials(row, result.name, ref, dims_of(instruction))
    # Zero where all entries are minus infinity.
    text, dtype = "({2} == {3} ? 0 : {0} / {1})", ref.buffer.dtype
    least = row.constant(-math.inf, dtype, ())
    return row.compute(result.name, text, dtype, ref.shape, powers, total, top, least)


def _log_softmax(row: Row, instruction: Instruction) -> Ref:
    ref, result = _floating(row, instruction)
    top, _, total = _exponentials(row, result.name, ref, dims_of(instruction))
    text = "{0} - {1} - {2}"
    logarithm = row.compute(f"{result.name}_log", "unspool::log({0})", ref.buffer.dtype, total.shape, total)
    return row.compute(result.name, text, ref.buffer.dtype, ref.shape, ref, top, logarithm)


def _logsumexp(row: Row, instruction: Instruction) -> Ref:
    ref, result = _floating(row, instruction)
    dtype, dims = ref.buffer.dtype, dims_of(instruction)
    top = row.reduce(f"{result.name}_max", "max", ref, dims)
    # Where the largest entry is infinite, it is the result.
    text, infinity = "(unspool::fabs({0}) == {1} ? 0 : {0})", row.constant(math.inf, dtype, ())
    top = row.compute(f"{result.name}_top", text, dtype, top.shape, top, infinity)
    powers = row.compute(f"{result.name}_exp", "unspool::exp({0} - {1})", dtype, ref.shape, ref, top)
    total = row.reduce(f"{result.name}_sum", "sum", powers, dims)
    return row.compute(result.name, "unspool::log({0}) + {1}", dtype, total.shape, total, top)


def _softmax_backward(row: Row, instruction: Instruction) -> Ref:
    gradient, result = _floating(row, instruction)
    output, dims, dtype = row.ref(instruction.arguments[1]), dims_of(instruction, 2), gradient.buffer.dtype
    weighted = row.compute(f"{result.name}_part", "{0} * {1}", dtype, gradient.shape, gradient, output)
    total = row.reduce(f"{result.name}_sum", "sum", weighted, dims)
    return row.compute(result.name, "{0} - {1} * {2}", dtype, gradient.shape, weighted, output, total)


def _log_softmax_backward(row: Row, instruction: Instruction) -> Ref:
    gradient, result = _floating(row, instruction)
    output, dims, dtype = row.ref(instruction.arguments[1]), dims_of(instruction, 2), gradient.buffer.dtype
    total = row.reduce(f"{result.name}_sum", "sum", gradient, dims)
    return row.compute(result.name, "{0} - unspool::exp({1}) * {2}", dtype, gradient.shape, gradient, output, total)


def _halves(ref: Ref, dim: int) -> tuple[Ref, Ref]:
    half = ref.shape[dim] // 2
    return ref.narrow(dim, 0, half), ref.narrow(dim, half, half)


def _glu(row: Row, instruction: Instruction) -> Ref:
    ref, result = _floating(row, instruction)
    value, gate = _halves(ref, dim_of(instruction, ref))
    return row.compute(result.name, "{0} * unspool::sigmoid({1})", result.dtype, value.shape, value, gate)


def _glu_backward(row: Row, instruction: Instruction) -> Ref:
    gradient, result = _floating(row, instruction)
    ref, dtype = row.ref(instruction.arguments[1]), result.dtype
    dim = dim_of(instruction, ref, 2)
    value, gate = _halves(ref, dim)
    open_ = row.compute(f"{result.name}_gate", "unspool::sigmoid({0})", dtype, gate.shape, gate)
    one = row.compute(f"{result.name}_value", "{0} * {1}", dtype, gate.shape, gradient, open_)
    text = "(1 - {0}) * {0} * {1} * {2}"
    other = row.compute(f"{result.name}_of_gate", text, dtype, gate.shape, open_, gradient, value)
    return row.join(result.name, dtype, [one, other], dim)


_SECOND, _THIRD = op_axes.second, op_axes.third_or_last_axis

ROWS = (
    Op(aten.sum.dim_IntList, OpKind.REDUCTION, axes=_SECOND, linear=Linear.ALL, lowering=_sum),
    Op(aten.mean.dim, OpKind.REDUCTION, axes=_SECOND, linear=Linear.ALL, lowering=_mean),
    Op(aten.amax.default, OpKind.REDUCTION, axes=_SECOND, lowering=_extreme("max")),
    Op(aten.amin.default, OpKind.REDUCTION, axes=_SECOND, lowering=_extreme("min")),
    Op(aten.var.correction, OpKind.REDUCTION, axes=_SECOND, lowering=_var),
    Op(aten.var_mean.correction, OpKind.REDUCTION, axes=_SECOND, lowering=_var_mean),
    Op(aten.logsumexp.default, OpKind.REDUCTION, axes=_SECOND, lowering=_logsumexp),
    Op(aten._softmax.default, OpKind.REDUCTION, axes=_SECOND, lowering=_softmax),
    Op(aten._log_softmax.default, OpKind.REDUCTION, axes=_SECOND, lowering=_log_softmax),
    Op(aten._safe_softmax.default, OpKind.REDUCTION, axes=_SECOND, lowering=_safe_softmax),
    Op(
        aten._softmax_backward_data.default,
        OpKind.REDUCTION,
        axes=_THIRD,
        linear=Linear.FIRST,
        lowering=_softmax_backward,
    ),
    Op(
        aten._log_softmax_backward_data.default,
        OpKind.REDUCTION,
        axes=_THIRD,
        linear=Linear.FIRST,
        lowering=_log_softmax_backward,
    ),
    Op(aten.linalg_vector_norm.default, OpKind.REDUCTION, axes=_THIRD, lowering=_norm),
    # Reductions that are computed again rather than kept for backward.
    Op(aten.std.correction, OpKind.OTHER, axes=_SECOND, lowering=_std),
    Op(aten.any.dim, OpKind.OTHER, axes=_SECOND, lowering=_any),
    Op(aten.any.dims, OpKind.OTHER, axes=_SECOND, lowering=_any),
    Op(aten.all.dim, OpKind.OTHER, axes=_SECOND, lowering=_all),
    Op(aten.prod.dim_int, OpKind.OTHER, axes=_SECOND, lowering=_prod),
    Op(aten.sum.default, OpKind.OTHER, axes=op_axes.all_axes, linear=Linear.ALL),
    Op(aten.mean.default, OpKind.OTHER, axes=op_axes.all_axes),
    Op(aten.max.default, OpKind.OTHER, axes=op_axes.all_axes),
    Op(aten.min.default, OpKind.OTHER, axes=op_axes.all_axes),
    # What has as many elements as it is given, or twice and half of these.
    Op(aten._fft_r2c.default, OpKind.OTHER, axes=_SECOND, linear=Linear.ALL),
    Op(aten._fft_c2r.default, OpKind.OTHER, axes=_SECOND, linear=Linear.ALL),
    Op(aten._fft_c2c.default, OpKind.OTHER, axes=_SECOND, linear=Linear.ALL),
    Op(aten.glu.default, OpKind.OTHER, axes=op_axes.second_or_last_axis, lowering=_glu),
    Op(aten.glu_backward.default, OpKind.OTHER, axes=_THIRD, lowering=_glu_backward),
)
