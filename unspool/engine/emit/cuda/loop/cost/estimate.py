"""What a tiling costs: a small model, of bytes that cross, tiles of tensor cores, sums, and groups that wait in turn.

The constants are fitted to the LSTM's loop in bfloat16 on an H200, forward and adjoint: tests/test_cuda_tiles.py has
what was measured.
"""

from __future__ import annotations

from unspool.engine.emit.cuda.loop.lowered import Lowered
from unspool.engine.emit.cuda.loop.tiles import (
    Limits,
    Tiling,
    by_tensor_cores,
    columns,
    held_registers,
    loads,
    parts,
)
from unspool.engine.emit.stages.passes import Pass
from unspool.engine.emit.stages.statements import Product

CROSSING = 0.65
"""Microseconds from posting a word to having it."""
FOLD = 1.2
"""Microseconds for a fold over units: lanes meet, then blocks, then lanes again, which wait for the slowest of both."""
MEGABYTE = 0.22
"""Microseconds for a megabyte that blocks read of each other."""
TENSOR_TILE = 0.005
"""Microseconds for a tile of tensor cores, times the warps that share a multiprocessor."""
SUM = 0.015
"""Microseconds for one of the sums that a thread adds up."""
MOST_LOADS, LOAD = 4, 0.01
"""Loads of a lane that are on their way together, and microseconds for each one more."""
READ = 80.0
"""Kilobytes of weights that a block of whole rows reads in a microsecond."""

NEAR_PRODUCT, NEAR_TILE, NEAR_COLUMN = 0.33, 0.0029, 0.0006
"""Microseconds for a product of a block that has all units of its rows, for each of its tiles of tensor cores, and for
each column of eight rows: what its threads do besides."""


def teams(tiling: Tiling, rows: int, limits: Limits) -> int:
    """How many groups of rows are run at the same time."""
    assert tiling.units is not None
    return min(-(-rows // tiling.rows), max(1, limits.processors // tiling.units.tiles))


def turns(tiling: Tiling, rows: int, at_once: int, *, ragged: bool) -> float:
    """The steps of the team that has the most of them, in those of the longest row: `group_of` of native/steps.h.

    Lengths that differ are taken to be uniform: of sorted rows, they fall evenly.

    >>> [turns(Tiling(rows=8), 64, at_once, ragged=True) for at_once in (8, 4, 2, 1)]
    [1.0, 1.125, 2.25, 4.5]
    """
    groups = -(-rows // tiling.rows)
    if not ragged:
        return -(-groups // at_once)
    steps = [0.0] * at_once
    for group in range(groups):
        nth, place = divmod(group, at_once)
        steps[at_once - 1 - place if nth % 2 else place] += 1 - group * tiling.rows / rows
    return max(steps)


def estimate(lowered: Lowered, tiling: Tiling, rows: int, limits: Limits, *, ragged: bool = False) -> float:
    """About how many microseconds a chunk takes, for each step of its longest row.

    Args:
        lowered: what a step does.
        tiling: how it is divided.
        rows: of the first step.
        limits: what the device has.
        ragged: whether rows have lengths of their own.
    """
    weights = sum(each.matrix.size * each.matrix.buffer.dtype.itemsize for each in lowered.products)
    if tiling.units is None:
        return CROSSING + weights / 1024 / READ * -(-tiling.rows // 4)
    at_once = teams(tiling, rows, limits)
    blocks, times = at_once * tiling.units.tiles, turns(tiling, rows, at_once, ragged=ragged)
    if tiling.near:
        return sum(_near(each, tiling) for each in lowered.products) * times
    crossing = sum(not isinstance(stage, Pass) for stage in lowered.stages)
    total = CROSSING * crossing + FOLD * _folds(lowered, tiling.units.count)
    for each in lowered.products:
        depth, size = each.matrix.shape[0], each.matrix.buffer.dtype.itemsize
        total += MEGABYTE * blocks * min(rows, tiling.rows) * depth * size / (1 << 20)
        tensor = columns(each, tiling) // 16 * loads(each, tiling) * 2 * tiling.rows // 8
        slow = 1 if by_tensor_cores(each, tiling) else 8
        total += TENSOR_TILE * slow * tensor * tiling.warps / 4 * (1 if tiling.kept == "registers" else 2)
        if tiling.kept == "memory":  # all blocks read their matrices again
            matrix = 32 * 4 * tiling.warps * held_registers(each, tiling)
            total += MEGABYTE * blocks * matrix / (1 << 20)
        total += SUM * tiling.rows * columns(each, tiling) / 32
        total += LOAD * max(0, loads(each, tiling) - MOST_LOADS)
    return total * times


def _folds(lowered: Lowered, units: int) -> int:
    """Loops whose folds go over units, so that blocks post what they have folded."""
    loops = (loop for stage in lowered.stages if isinstance(stage, Pass) for loop in stage.loops)
    return sum(loop.kept is not None and loop.domain[-1:] == (units,) for loop in loops)


def _near(product: Product, tiling: Tiling) -> float:
    width = columns(product, tiling)
    tensor = width // 16 * loads(product, tiling) * parts(product, tiling) * 2
    return NEAR_PRODUCT + NEAR_TILE * tensor + NEAR_COLUMN * width
