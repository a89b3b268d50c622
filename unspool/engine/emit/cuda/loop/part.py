"""Kernels for *before* and *after*: pointwise work and folds of a row's elements; products are left to torch."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from unspool.engine.emit.beside import Group, has_row_form, in_groups
from unspool.engine.emit.cuda.loop.machine import Machine
from unspool.engine.emit.cuda.loop.running import CudaLoop
from unspool.engine.emit.cuda.loop.tiles import Tiling
from unspool.engine.emit.protocol import Beside
from unspool.engine.emit.python import can_join, fuse
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Instruction, Kind, Program
from unspool.engine.trace.graph import aten

WARPS = 8
MOST_ROWS = 8
ELEMENTS = 32 * WARPS * 4
"""Of a block: a thread has a few at a time, so that more than one is on its way from memory."""
SHARED_BYTES = 48 << 10
"""Of a block, so that several of them share a multiprocessor."""


def fuse_part(program: Program, machine: Machine, made: list[CudaLoop], *, rounds: bool) -> Beside:
    """Replaces what can be a kernel by launches.

    Args:
        program: the part.
        machine: what runs kernels.
        made: a list that gets what is made of it.
        rounds: whether halves are rounded after every operation.
    """

    def kernel(core: Core, number: int) -> Group:
        width = max(math.prod(each.shape) * each.times for each in (*core.streamed, *core.emitted))
        rows = max(1, min(MOST_ROWS, ELEMENTS // max(1, width)))
        tiling = Tiling(None, rows, WARPS, "memory", shared_bytes=min(SHARED_BYTES, machine.limits().shared_bytes))
        made.append(CudaLoop(core, machine, tiling, rounds=rounds))
        return Group(made[-1], Counts.of_step)

    if not rounds:  # a product that starts from its bias rounds once
        program = replace(program, instructions=tuple(fuse(program, _adds_bias)))
    return in_groups(program, _is_fused, kernel)


def _adds_bias(product: Instruction, addend: Any, total: Instruction) -> bool:
    """Whether a product may start from what is added to it: numbers for its columns, which cost it nothing."""
    if product.operation is not aten.mm.default or not can_join(product, addend, total):
        return False
    return addend.shared and addend.shape == product.results[0].shape


def _is_fused(instruction: Instruction) -> bool:
    return instruction.kind in (Kind.POINTWISE, Kind.REDUCTION, Kind.VIEW) and has_row_form(instruction)
