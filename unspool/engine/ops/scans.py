"""Scans, searches and orders within a row, with their lowerings: sums and extremes so far, sort, topk, medians."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.places import order, scan, take
from unspool.engine.ops.arguments import dim_of, dims_of, first, given, name_of
from unspool.engine.ops.table import Linear, Lowering, Op, OpKind
from unspool.engine.rows import op_axes
from unspool.engine.trace.graph import aten

if TYPE_CHECKING:  # the stages of emitters import the table of operations
    from unspool.engine.emit.stages.row import Row
    from unspool.engine.emit.stages.strided import Ref
    from unspool.engine.ir.program import Instruction


def _with_places(row: Row, instruction: Instruction, ref: Ref, dim: int, places: Ref) -> list[Ref]:
    """What is found at places along `dim`, and the places; the one if nobody wants the other."""
    name = instruction.results[0].name
    return [places if name == "_" else take(row, name, ref, dim, places), places]


# -- scans ------------------------------------------------------------------------------------------------------------


def _so_far(fold: str) -> Lowering:
    def lowering(row: Row, instruction: Instruction) -> Ref:
        (result,), ref = instruction.results, first(row, instruction)
        dim, dtype = dim_of(instruction, ref), result.dtype
        if ref.buffer.dtype != dtype:
            ref = row.compute(f"{result.name}_each", "{0}", dtype, ref.shape, ref)
        if ref.size == 0 or ref.shape[dim] == 1:
            return ref
        # As torch does, float32 is folded in float64.
        return scan(row, result.name, fold, ref, dim, dtype, torch.float64 if dtype.is_floating_point else dtype)

    return lowering


def _extreme_so_far(fold: str) -> Lowering:
    def lowering(row: Row, instruction: Instruction) -> list[Ref]:
        ref, name = first(row, instruction), name_of(instruction)
        dim = dim_of(instruction, ref)
        if ref.size == 0 or ref.shape[dim] == 1:
            return [ref, row.constant(0, torch.int64, ref.shape)]
        places = scan(row, f"{name}_places", fold, ref, dim, torch.int64, ref.buffer.dtype)
        return _with_places(row, instruction, ref, dim, places)

    return lowering


# -- searches ---------------------------------------------------------------------------------------------------------


def _argmax(row: Row, instruction: Instruction) -> Ref:
    ref, dims = first(row, instruction), dims_of(instruction)
    if len(dims) != 1:
        raise CannotEmitError(f"{instruction.operation} over {dims}")
    return row.search(instruction.results[0].name, instruction.arguments[0], dim_of(instruction, ref))


def _argmin(row: Row, instruction: Instruction) -> Ref:
    ref, dims = first(row, instruction), dims_of(instruction)
    if len(dims) != 1:
        raise CannotEmitError(f"{instruction.operation} over {dims}")
    return row.find(instruction.results[0].name, "argmin", ref, dim_of(instruction, ref))


def _extreme(fold: str) -> Lowering:
    """An extreme and its place."""

    def lowering(row: Row, instruction: Instruction) -> list[Ref]:
        ref, name = first(row, instruction), name_of(instruction)
        dim = dim_of(instruction, ref)
        place = row.find(f"{name}_place", fold, ref, dim)
        return _with_places(row, instruction, ref, dim, place)

    return lowering


# -- orders -----------------------------------------------------------------------------------------------------------


def _sort(row: Row, instruction: Instruction) -> list[Ref]:
    ref, name = first(row, instruction), name_of(instruction)
    dim, descending = (
        dim_of(instruction, ref),
        bool(given(instruction, 2, instruction.options.get("descending", False))),
    )
    if ref.size == 0 or ref.shape[dim] == 1:
        return [ref, row.constant(0, torch.int64, ref.shape)]
    places = order(row, f"{name}_places", ref, dim, descending=descending)
    return _with_places(row, instruction, ref, dim, places)


def _topk(row: Row, instruction: Instruction) -> list[Ref]:
    ref, name, count = first(row, instruction), name_of(instruction), int(instruction.arguments[1])
    dim = dim_of(instruction, ref, 2)
    largest, in_order = (
        bool(given(instruction, k, instruction.options.get(option, True)))
        for k, option in ((3, "largest"), (4, "sorted"))
    )
    if ref.size == 0 or ref.shape[dim] == 1 or count == 0:
        few = ref.narrow(dim, 0, count)
        return [few, row.constant(0, torch.int64, few.shape)]
    places = order(row, f"{name}_places", ref, dim, descending=largest, first=count, in_order=in_order)
    return _with_places(row, instruction, ref, dim, places)


def _kthvalue(row: Row, instruction: Instruction) -> list[Ref]:
    ref, name = first(row, instruction), name_of(instruction)
    dim = dim_of(instruction, ref, 2)
    place = _in_order(row, name, ref, dim, int(instruction.arguments[1]) - 1)
    return _with_places(row, instruction, ref, dim, place)


def _median(row: Row, instruction: Instruction) -> list[Ref]:
    """The first NaN, if there is one; else the lower of the two in the middle."""
    ref, name = first(row, instruction), name_of(instruction)
    dim = dim_of(instruction, ref)
    if not ref.buffer.dtype.is_floating_point:
        raise CannotEmitError(f"{instruction.operation} has no compiled form for {ref.buffer.dtype}")
    middle = _in_order(row, name, ref, dim, (ref.shape[dim] - 1) // 2)
    top = row.find(f"{name}_top_place", "argmax", ref, dim)  # NaN is larger than any
    largest = take(row, f"{name}_top", ref, dim, top)
    nan = row.compute(f"{name}_nan", "({0} != {0} ? 1 : 0)", ref.buffer.dtype, largest.shape, largest)
    place = row.compute(f"{name}_place", "({0} ? {1} : {2})", torch.int64, top.shape, nan, top, middle)
    return _with_places(row, instruction, ref, dim, place)


def _nanmedian(row: Row, instruction: Instruction) -> list[Ref]:
    """That of the numbers which are none: in order, they come first."""
    ref, name = first(row, instruction), name_of(instruction)
    dim = dim_of(instruction, ref)
    if ref.shape[dim] < 2 or not ref.buffer.dtype.is_floating_point:
        return _median(row, instruction)
    numbers = row.compute(f"{name}_numbers", "({0} == {0} ? 1 : 0)", ref.buffer.dtype, ref.shape, ref)
    count = row.fold(f"{name}_count", "sum", numbers, [dim])
    text = "({0} > 0 ? ({0} - 1) / 2 : 0)"
    middle = row.compute(f"{name}_middle", text, torch.int64, count.shape, count)
    places = order(row, f"{name}_places", ref, dim, descending=False)
    return _with_places(row, instruction, ref, dim, take(row, f"{name}_place", places, dim, middle))


def _in_order(row: Row, name: str, ref: Ref, dim: int, number: int) -> Ref:
    """The place along `dim`, which stays with size one, of the number that comes after so many."""
    if ref.size == 0:
        raise CannotEmitError("a search in nothing")
    if ref.shape[dim] == 1:
        return row.constant(0, torch.int64, ref.shape)
    return order(row, f"{name}_places", ref, dim, descending=False).narrow(dim, number, 1)


_SECOND, _THIRD, _LAST = op_axes.second, op_axes.third_or_last_axis, op_axes.second_or_last_axis

ROWS = (
    Op(aten.cumsum.default, OpKind.OTHER, axes=_SECOND, linear=Linear.ALL, lowering=_so_far("sum")),
    Op(aten.cumprod.default, OpKind.OTHER, axes=_SECOND, lowering=_so_far("prod")),
    Op(aten.logcumsumexp.default, OpKind.OTHER, axes=_SECOND, lowering=_so_far("logaddexp")),
    Op(aten.cummax.default, OpKind.OTHER, axes=_SECOND, lowering=_extreme_so_far("max")),
    Op(aten.cummin.default, OpKind.OTHER, axes=_SECOND, lowering=_extreme_so_far("min")),
    Op(aten.argmax.default, OpKind.OTHER, axes=_SECOND, lowering=_argmax),
    Op(aten.argmin.default, OpKind.OTHER, axes=_SECOND, lowering=_argmin),
    Op(aten.max.dim, OpKind.OTHER, axes=_SECOND, lowering=_extreme("argmax")),
    Op(aten.min.dim, OpKind.OTHER, axes=_SECOND, lowering=_extreme("argmin")),
    Op(aten.sort.default, OpKind.OTHER, axes=_LAST, lowering=_sort),
    Op(aten.topk.default, OpKind.OTHER, axes=_THIRD, lowering=_topk),
    Op(aten.kthvalue.default, OpKind.OTHER, axes=_THIRD, lowering=_kthvalue),
    Op(aten.median.dim, OpKind.OTHER, axes=_SECOND, lowering=_median),
    Op(aten.nanmedian.dim, OpKind.OTHER, axes=_SECOND, lowering=_nanmedian),
)
