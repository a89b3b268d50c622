"""How operations in which the elements of a row meet are lowered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from unspool.engine.emit.cpp.row import Row
from unspool.engine.emit.cpp.scalars import literal
from unspool.engine.emit.cpp.strided import Ref
from unspool.engine.emit.cpp.views import Rule, first, given
from unspool.engine.emit.reasons import CannotEmitError
from unspool.engine.ir.program import Instruction, Value
from unspool.engine.trace.graph import aten


def _dims(instruction: Instruction, k: int = 1) -> list[int]:
    dims = given(instruction, k, instruction.options.get("dim"))
    return [dims] if isinstance(dims, int) else list(dims or ())


def _floating(row: Row, instruction: Instruction) -> tuple[Ref, Value]:
    """The argument, which has to be of floating-point numbers, as the result has to be."""
    ref, result = first(row, instruction), instruction.results[0]
    if not result.dtype.is_floating_point or ref.buffer.dtype != result.dtype:
        raise CannotEmitError(f"{instruction.operation} has no C++ form for {ref.buffer.dtype}")
    return ref, result


def _count(ref: Ref, dims: Sequence[int]) -> int:
    return math.prod(ref.shape[dim] for dim in dims) if dims else ref.size


def _sum(row: Row, instruction: Instruction) -> Ref:
    ref, result = _floating(row, instruction)
    return row.reduce(result.name, "sum", ref, _dims(instruction))


def _extreme(fold: str) -> Rule:
    def rule(row: Row, instruction: Instruction) -> Ref:
        ref, result = _floating(row, instruction)
        return row.reduce(result.name, fold, ref, _dims(instruction))

    return rule


def _argmax(row: Row, instruction: Instruction) -> Ref:
    ref, dims = first(row, instruction), _dims(instruction)
    if not ref.buffer.dtype.is_floating_point or len(dims) != 1:
        raise CannotEmitError(f"{instruction.operation} has no C++ form for {ref.buffer.dtype} over {dims}")
    (dim,) = (each % len(ref.shape) for each in dims)
    name = instruction.results[0].name
    if ref.shape[dim] < 2:
        return row.constant(0, torch.int64, tuple(1 if k == dim else size for k, size in enumerate(ref.shape)))
    return row.search(name, instruction.arguments[0], dim)


def _mean(row: Row, instruction: Instruction) -> Ref:
    ref, result = _floating(row, instruction)
    mean = _wide_mean(row, f"{result.name}_mean", ref, _dims(instruction))
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
    pivot = row.compute(f"{name}_pivot", "(std::fabs({0}) < 1e300 ? {0} : 0)", dtype, first.shape, first)
    apart = row.compute(f"{name}_apart", "{0} - {1}", dtype, ref.shape, ref, pivot)
    share = _share(row, f"{name}_share", row.fold(f"{name}_sum", "sum", apart, dims), count)
    return row.compute(name, "{0} + {1}", dtype, share.shape, pivot, share)


def _share(row: Row, name: str, total: Ref, count: float) -> Ref:
    """A sum divided by how many were summed, in its own dtype."""
    dtype = total.buffer.dtype
    return row.compute(name, f"{{0}} / {literal(count, dtype)}", dtype, total.shape, total)


def _var_mean(row: Row, instruction: Instruction) -> list[Ref]:
    ref, result = _floating(row, instruction)
    dims = _dims(instruction)
    name, dtype = result.name if result.name != "_" else instruction.results[-1].name, ref.buffer.dtype
    mean = _wide_mean(row, f"{name}_mean", ref, dims)
    square = row.compute(f"{name}_square", "({0} - {1}) * ({0} - {1})", mean.buffer.dtype, ref.shape, ref, mean)
    squares = row.fold(f"{name}_squares", "sum", square, dims)
    correction = instruction.options.get("correction", 1)
    count = max(_count(ref, dims) - (1 if correction is None else correction), 0)
    variance = _share(row, f"{name}_wide", squares, count)
    return [row.narrowed(name, variance, dtype), row.narrowed(f"{name}_mean", mean, dtype)]


def _var(row: Row, instruction: Instruction) -> Ref:
    return _var_mean(row, instruction)[0]


def _std(row: Row, instruction: Instruction) -> Ref:
    variance, _ = _var_mean(row, instruction)
    name = f"{instruction.results[0].name}_root"
    return row.compute(name, "std::sqrt({0})", variance.buffer.dtype, variance.shape, variance)


def _norm(row: Row, instruction: Instruction) -> Ref:
    ref, result = _floating(row, instruction)
    order, dims, dtype = given(instruction, 1, 2), _dims(instruction, 2), ref.buffer.dtype
    folds = {2: ("{0} * {0}", "sum"), 1: ("std::fabs({0})", "sum"), math.inf: ("std::fabs({0})", "max")}
    if order not in folds:
        raise CannotEmitError(f"a norm of order {order}")
    text, fold = folds[order]
    parts = row.compute(f"{result.name}_part", text, dtype, ref.shape, ref)
    total = row.reduce(f"{result.name}_sum", fold, parts, dims)
    return row.compute(result.name, "std::sqrt({0})", dtype, total.shape, total) if order == 2 else total


def _exponentials(row: Row, name: str, ref: Ref, dims: Sequence[int]) -> tuple[Ref, Ref, Ref]:
    """The largest entry, the exponentials of what is below it, and their sum."""
    dtype = ref.buffer.dtype
    top = row.reduce(f"{name}_max", "max", ref, dims)
    powers = row.compute(f"{name}_exp", "unspool::exp({0} - {1})", dtype, ref.shape, ref, top)
    return top, powers, row.reduce(f"{name}_sum", "sum", powers, dims)


def _softmax(row: Row, instruction: Instruction) -> Ref:
    ref, result = _floating(row, instruction)
    _, powers, total = _exponentials(row, result.name, ref, _dims(instruction))
    return row.compute(result.name, "{0} / {1}", ref.buffer.dtype, ref.shape, powers, total)


def _safe_softmax(row: Row, instruction: Instruction) -> Ref:
    ref, result = _floating(row, instruction)
    top, powers, total = _exponentials(row, result.name, ref, _dims(instruction))
    # Zero where all entries are minus infinity.
    text = "({2} == -HUGE_VAL ? 0 : {0} / {1})"
    return row.compute(result.name, text, ref.buffer.dtype, ref.shape, powers, total, top)


def _log_softmax(row: Row, instruction: Instruction) -> Ref:
    ref, result = _floating(row, instruction)
    top, _, total = _exponentials(row, result.name, ref, _dims(instruction))
    text = "{0} - {1} - {2}"
    logarithm = row.compute(f"{result.name}_log", "unspool::log({0})", ref.buffer.dtype, total.shape, total)
    return row.compute(result.name, text, ref.buffer.dtype, ref.shape, ref, top, logarithm)


def _logsumexp(row: Row, instruction: Instruction) -> Ref:
    ref, result = _floating(row, instruction)
    dtype, dims = ref.buffer.dtype, _dims(instruction)
    top = row.reduce(f"{result.name}_max", "max", ref, dims)
    # Where the largest entry is infinite, it is the result.
    top = row.compute(f"{result.name}_top", "(std::fabs({0}) == HUGE_VAL ? 0 : {0})", dtype, top.shape, top)
    powers = row.compute(f"{result.name}_exp", "unspool::exp({0} - {1})", dtype, ref.shape, ref, top)
    total = row.reduce(f"{result.name}_sum", "sum", powers, dims)
    return row.compute(result.name, "unspool::log({0}) + {1}", dtype, total.shape, total, top)


def _softmax_backward(row: Row, instruction: Instruction) -> Ref:
    gradient, result = _floating(row, instruction)
    output, dims, dtype = row.ref(instruction.arguments[1]), _dims(instruction, 2), gradient.buffer.dtype
    weighted = row.compute(f"{result.name}_part", "{0} * {1}", dtype, gradient.shape, gradient, output)
    total = row.reduce(f"{result.name}_sum", "sum", weighted, dims)
    return row.compute(result.name, "{0} - {1} * {2}", dtype, gradient.shape, weighted, output, total)


def _log_softmax_backward(row: Row, instruction: Instruction) -> Ref:
    gradient, result = _floating(row, instruction)
    output, dims, dtype = row.ref(instruction.arguments[1]), _dims(instruction, 2), gradient.buffer.dtype
    total = row.reduce(f"{result.name}_sum", "sum", gradient, dims)
    return row.compute(result.name, "{0} - unspool::exp({1}) * {2}", dtype, gradient.shape, gradient, output, total)


REDUCTIONS: dict[Any, Rule] = {
    aten.sum.dim_IntList: _sum,
    aten.mean.dim: _mean,
    aten.amax.default: _extreme("max"),
    aten.argmax.default: _argmax,
    aten.amin.default: _extreme("min"),
    aten.var.correction: _var,
    aten.std.correction: _std,
    aten.var_mean.correction: _var_mean,
    aten.linalg_vector_norm.default: _norm,
    aten.logsumexp.default: _logsumexp,
    aten._softmax.default: _softmax,
    aten._safe_softmax.default: _safe_softmax,
    aten._log_softmax.default: _log_softmax,
    aten._softmax_backward_data.default: _softmax_backward,
    aten._log_softmax_backward_data.default: _log_softmax_backward,
}
