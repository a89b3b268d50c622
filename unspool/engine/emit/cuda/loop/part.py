"""Kernels for *before* and *after*: pointwise work and folds of a row's elements; products are left to torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median_low
from typing import Any

import torch
from torch import Tensor

from unspool.engine.emit.beside import Group, has_row_form, in_groups
from unspool.engine.emit.cuda.loop.machine import Machine
from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.printer.loops import LANES
from unspool.engine.emit.cuda.loop.printer.vectors import BYTES, WIDEST
from unspool.engine.emit.cuda.loop.running import CudaLoop
from unspool.engine.emit.cuda.loop.tiles import Tiling
from unspool.engine.emit.protocol import Beside, Chunk, Results
from unspool.engine.emit.python import can_join, fuse
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Instruction, Kind, Program
from unspool.engine.trace.graph import aten

WARPS = 8
ELEMENTS = 4
"""Of a thread, which are on their way from memory together: vectors of few values, or elements one by one."""
FOLDED = 8192
"""Elements of a block whose rows are folded: a few rows, each by a warp that has many terms on their way."""
MOST_ROWS = 32
MOST_TIMES = 4
"""How much wider than most of a row's values the widest may be, before it is what blocks are made for."""
SHARED_BYTES, FOLDED_BYTES = 48 << 10, 72 << 10
"""Of a block, so that several of them share a multiprocessor; of one that keeps rows until it has folded them."""


class RowsLoop(CudaLoop):
    """What is beside a core: all rows of a chunk are one step, of tensors that begin at multiples of 16 bytes."""

    def prepare(self, shared: Sequence[Tensor]) -> list[Tensor]:
        """The core's `shared` values, where kernels can read them."""
        return super().prepare([_aligned(each) for each in shared])

    def __call__(self, shared: Sequence[Tensor], chunk: Chunk) -> Results:
        """Runs it for the rows of a chunk."""
        if any(each.data_ptr() % BYTES for each in chunk.streamed):
            chunk = chunk._replace(streamed=[_aligned(each) for each in chunk.streamed])
        return super().__call__(shared, chunk)

    def printed(self, tiling: Tiling, *, wide: bool) -> KernelText:
        """The kernel of a tiling."""
        return KernelText(self._lowered, tiling, wide=wide, aligned=True)


def fuse_part(program: Program, machine: Machine, made: list[CudaLoop], *, rounds: bool) -> Beside:
    """Replaces what can be a kernel by launches.

    Args:
        program: the part.
        machine: what runs kernels.
        made: a list that gets what is made of it.
        rounds: whether halves are rounded after every operation.
    """

    def kernel(core: Core, number: int) -> Group:
        rows, folds = rows_of_block(core), core.count(Kind.REDUCTION)
        room = min(FOLDED_BYTES if folds else SHARED_BYTES, machine.limits().shared_bytes)
        warps = rows if folds else WARPS  # a warp folds a row
        tiling = Tiling(None, rows, warps, "memory", shared_bytes=room)
        made.append(RowsLoop(core, machine, tiling, rounds=rounds))
        return Group(made[-1], Counts.of_step)

    if not rounds:  # a product that starts from its bias rounds once
        program = replace(program, instructions=tuple(fuse(program, _adds_bias)))
    return in_groups(program, _is_fused, kernel)


def rows_of_block(core: Core) -> int:
    """How many rows a block has: its threads then have a few vectors or elements each, or its warps a row to fold."""
    sizes = [math.prod(each.shape) * each.times for each in (*core.streamed, *core.emitted)]
    vector = math.gcd(WIDEST, *(size for size in sizes if size > 1))
    vectors = max(1, ELEMENTS // max(1, len(core.streamed)))
    elements = LANES * WARPS * max(ELEMENTS, vector * vectors if vector > 1 else 0)
    width = max(1, median_low([size for size in sizes if size > 1] or [1]), max(sizes) // MOST_TIMES)
    if core.count(Kind.REDUCTION):
        return max(1, min(FOLDED // width, WARPS))
    return max(1, min(elements // width, MOST_ROWS))


def _adds_bias(product: Instruction, addend: Any, total: Instruction) -> bool:
    """Whether a product may start from what is added to it: numbers for its columns, which cost it nothing."""
    if product.operation is not aten.mm.default or not can_join(product, addend, total):
        return False
    return addend.shared and addend.shape == product.results[0].shape


def _is_fused(instruction: Instruction) -> bool:
    return instruction.kind in (Kind.POINTWISE, Kind.REDUCTION, Kind.VIEW) and has_row_form(instruction)


def _aligned(tensor: Tensor) -> Tensor:
    """A tensor that begins where a vector may: slices of others do not always."""
    return tensor if tensor.data_ptr() % BYTES == 0 else tensor.clone(memory_format=torch.contiguous_format)
