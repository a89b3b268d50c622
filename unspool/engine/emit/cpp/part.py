"""Compiles *before* and *after*: pointwise groups as C++, sums over rows as products, the rest left to torch.

What is not compiled stays an instruction of the program; what is becomes an instruction too, whose operation is a
compiled function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from unspool.engine.emit.beside import Group, has_row_form, in_groups, without_dead
from unspool.engine.emit.cpp.libraries.kernels import Kernels
from unspool.engine.emit.cpp.libraries.module import Module
from unspool.engine.emit.cpp.libraries.runtime import Runtime
from unspool.engine.emit.cpp.loop import Compiled
from unspool.engine.emit.protocol import Beside
from unspool.engine.emit.stages.dtypes import MULTIPLIED, computed
from unspool.engine.emit.stages.lowering import is_row_sum
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.program import Instruction, Kind, Program, Value
from unspool.engine.trace.graph import aten


class Sums:
    """Several `left^T @ right` as one operation, `sums(right, *lefts)`; each left may come in pieces, or be ones.

    Args:
        pieces: for each product, how many of the lefts it has side by side; 0 if it is the sum of `right` itself.
        totals: the numbers of those lefts whose own sums over rows are results too, after the products.
        shapes: the results' shapes.
    """

    def __init__(self, pieces: Sequence[int], totals: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> None:
        ends = list(accumulate(pieces, initial=0))
        self._pieces = [range(begin, end) for begin, end in pairwise(ends)]
        """The numbers of the lefts of each product."""
        self._totals = tuple(totals)
        self._product_shapes, self._total_shapes = shapes[: len(pieces)], shapes[len(pieces) :]

    def __call__(self, right: Tensor, *lefts: Tensor) -> Tensor | list[Tensor]:
        """Its one result, or all of them."""
        right = (right if right.dim() == 2 else right.flatten(1)).contiguous()
        lefts = tuple(map(Tensor.contiguous, lefts))  # alive until the end
        dtype, inner = right.dtype, computed(right.dtype)
        results = [right.new_empty(shape, dtype=inner) for shape in self._product_shapes]
        own = [right.new_empty(shape, dtype=torch.float64) for shape in self._total_shapes]
        places = {left: each.data_ptr() for left, each in zip(self._totals, own, strict=True)}
        factors: list[int] = []
        row = right.shape[1] * inner.itemsize
        for numbers, result in zip(self._pieces, results, strict=True):
            place = result.data_ptr()
            if not numbers:
                factors += (0, 0, 1, place, 0)
            for number in numbers:
                width = lefts[number].shape[1]
                factors += (lefts[number].data_ptr(), width, width, place, places.get(number, 0))
                place += width * row
        Runtime.get().sums(right, factors)
        results = [result if result.dtype == dtype else result.to(dtype) for result in (*results, *own)]
        return results[0] if len(results) == 1 else results


class BatchedSums:
    """`left^T @ right` for each matrix of two batches of them, `sums(left, right)`: heads that have weights each."""

    def __call__(self, left: Tensor, right: Tensor) -> Tensor:
        """All results, one after another."""
        left, right = (each if each.stride(2) == 1 else each.contiguous() for each in (left, right))
        (count, rows, depth), width = left.shape, right.shape[2]
        results = right.new_empty((count, depth, width))
        for each, other, result in zip(left, right, results, strict=True):
            apart = each.stride(0) if rows > 1 else depth
            Runtime.get().sums(other, [each.data_ptr(), apart, depth, result.data_ptr(), 0])
        return results


BLOCK = 128
"""How many rows each thread works on at once: their intermediate results stay in its cache."""


def fuse_part(program: Program, module: Module, name: str) -> Beside:
    """Replaces what can be compiled by calls of functions in `module`, whose names begin with `name`."""
    every = without_dead(_with_sums(program), program.outputs)
    sums = [each for each in every if isinstance(each.operation, Sums | BatchedSums)]
    module.need(*(Kernels("products", each.results[0].dtype) for each in sums))
    on_rows = {each for each in every if has_row_form(each)}
    at_hand = {value for each in on_rows for value in (*each.results, *each.uses())}
    on_rows |= {each for each in every if is_row_sum(each) and each.arguments[0] in at_hand}
    summed = replace(program, instructions=tuple(every))
    return in_groups(
        summed, on_rows.__contains__, lambda core, number: Group(Compiled(core, module, f"{name}_{number}"), _in_blocks)
    )


def _in_blocks(rows: int) -> Counts:
    return Counts.in_blocks(rows, BLOCK * torch.get_num_threads())


# -- sums over rows ---------------------------------------------------------------------------------------------------


def _with_sums(program: Program) -> list[Instruction]:
    """The instructions, with sums over rows of products by the same right factor joined, and sums of either factor."""
    makers = {value: each for each in program.instructions for value in each.results}
    lefts: dict[Value, list[tuple[Instruction, list[Value]]]] = {}
    for each in program.instructions:
        found = _sum_of_products(each, makers)
        if found is not None:
            lefts.setdefault(found[0], []).append((each, found[1]))
    alone = {value: sums[0][0] for value, sums in lefts.items() if not any(pieces for _, pieces in sums)}
    joined: dict[Instruction, Instruction | None] = {}
    for right, sums in lefts.items():
        if right in alone:
            continue  # nothing but a sum, which torch is good at
        pieces = [piece for _, pieces in sums for piece in pieces]
        left = [value for value in dict.fromkeys(pieces) if value in alone and alone[value] not in joined]
        totals = {pieces.index(value): alone[value] for value in left}
        every = [*(each for each, _ in sums), *totals.values()]
        results = tuple(each.results[0] for each in every)
        operation = Sums([len(pieces) for _, pieces in sums], list(totals), [result.shape for result in results])
        joined.update((each, None) for each in every)
        last = sums[-1][0]
        joined[last] = Instruction(Kind.OTHER, operation, (right, *pieces), {}, results, last.source)
    joined.update((each, batched) for each in program.instructions if (batched := _batched_sum(each, makers)))
    kept = [joined.get(each, each) for each in program.instructions]
    return [each for each in kept if each is not None]


def _sum_of_products(instruction: Instruction, makers: dict[Value, Instruction]) -> tuple[Value, list[Value]] | None:
    """The right factor of a sum over rows, and the pieces of the left one; none for the sum of the right one itself."""
    if len(instruction.results) != 1 or not instruction.results[0].shared:
        return None
    if is_row_sum(instruction):
        return instruction.arguments[0], []
    if instruction.operation is not aten.mm.default:
        return None
    left, right = instruction.arguments
    turned = makers.get(left)
    if turned is None or turned.operation is not aten.t.default or not _has_rows(right, 0):
        return None
    (base,) = turned.arguments
    joined = makers.get(base)
    pieces = [base]
    if joined is not None and joined.operation is aten.cat.default and joined.arguments[1:] in ((1,), (-1,)):
        pieces = list(joined.arguments[0])
    same = all(_has_rows(piece, 0) and len(piece.shape) == 1 for piece in pieces)
    alike = all((piece.dtype, piece.times) == (right.dtype, right.times) for piece in pieces) if same else False
    return (right, pieces) if alike else None


def _batched_sum(instruction: Instruction, makers: dict[Value, Instruction]) -> Instruction | None:
    """A product of batches that sums over rows, by the same products."""
    if instruction.operation is not aten.bmm.default or not instruction.results[0].shared:
        return None
    left, right = instruction.arguments
    turned = makers.get(left)
    if turned is None or turned.operation is not aten.transpose.int or turned.arguments[1:] not in ((1, 2), (2, 1)):
        return None
    base = turned.arguments[0]
    same = _has_rows(base, 1) and _has_rows(right, 1) and (base.dtype, base.times) == (right.dtype, right.times)
    if not same or right.dtype not in (torch.float32, torch.float64):
        return None
    return Instruction(Kind.OTHER, BatchedSums(), (base, right), {}, instruction.results, instruction.source)


def _has_rows(value: Any, axis: int) -> bool:
    """Whether `value` is numbers that products are made of, the entries of each row side by side along an axis."""
    on_axis = isinstance(value, Value) and not value.shared and value.axis == axis
    return on_axis and not value.interleaved and value.dtype in MULTIPLIED
