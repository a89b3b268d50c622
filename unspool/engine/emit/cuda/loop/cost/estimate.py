"""What a tiling costs: a small model, of bytes that cross, tiles of tensor cores, sums, and groups that wait in turn.

The constants are fitted to the LSTM's loop in bfloat16 on an H200, forward and adjoint: tests/test_cuda_tiles.py has
what was measured.
"""

from __future__ import annotations

import math

from unspool.engine.emit.cuda.loop.lowered import Lowered
from unspool.engine.emit.cuda.loop.tiles import (
    Limits,
    Tiling,
    by_tensor_cores,
    columns,
    group_rows,
    held_registers,
    loads,
    parts,
    warp_tiles,
)
from unspool.engine.emit.stages.passes import Pass
from unspool.engine.emit.stages.statements import Product

CROSSING = 0.65
"""Microseconds from posting a word to having it."""
FOLD = 1.2
"""Microseconds for a fold over units: lanes meet, then blocks, then lanes again, which wait for the slowest of both."""
MEGABYTE = 0.2
"""Microseconds for a megabyte that blocks read of each other."""
TENSOR_TILE, EXACT = 0.004, 0.04
"""Microseconds for a tile of tensor cores, and for as many exact products, times the warps that share a processor."""
SUM = 0.015
"""Microseconds for one of the sums of eight warps that a thread adds up, and half as much again for sixteen."""
TURN = 0.25
"""Microseconds for each element of a thread but the first."""
MOST_LOADS, LOAD = 3, 0.02
"""Loads of a lane that are on their way together, and microseconds for each one more."""
AHEAD = 0.6
"""The part of the shorter of both that is spared where words are on their way while others are multiplied."""
EXCHANGE = 0.38
"""Microseconds for sums of eight warps that blocks of a cluster hand each other, besides adding them up."""
READ = 80.0
"""Kilobytes of weights that a block of whole rows reads in a microsecond."""

SENT, SENT_KB = 0.06, 0.022
"""Microseconds for words that a block has in others' shared memory, and for each kilobyte that it sends them."""

NEAR_PRODUCT, NEAR_TILE, NEAR_COLUMN = 0.33, 0.0029, 0.0006
"""Microseconds for a product of a block that has all units of its rows, for each of its tiles of tensor cores, and for
each column of eight rows: what its threads do besides."""


def teams(tiling: Tiling, rows: int, limits: Limits) -> int:
    """How many groups of rows are run at the same time."""
    assert tiling.units is not None
    processors = limits.processors if tiling.cluster <= 2 else limits.processors * 7 // 8  # the rest has no neighbours
    return min(-(-rows // tiling.rows), max(1, processors // tiling.units.tiles))


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
        steps[at_once - 1 - place if nth % 2 else place] += 1 - group * group_rows(tiling) / rows
    return max(steps)


def mean_rows(tiling: Tiling, rows: int) -> float:
    """About how many rows of a block run at a step of the longest one of them, where lengths are uniform.

    >>> [mean_rows(Tiling(rows=each), 64) for each in (8, 16, 32)]
    [8.0, 12.0, 20.0]
    """
    apart = -(-rows // tiling.rows) * 8
    tiles = range(0, apart * tiling.rows // 8, apart)
    return sum(max(0.0, 1 - first / rows) for first in tiles) * min(8, tiling.rows, rows)


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
        total = sum(_near(each, tiling) for each in lowered.products)
        return (total if tiling.alone else total + _sending(lowered, tiling) + _turns(tiling, tiling.rows)) * times
    crossing = sum(not isinstance(stage, Pass) for stage in lowered.stages)
    height = mean_rows(tiling, rows) if ragged else min(rows, tiling.rows)
    total = CROSSING * crossing + FOLD * folds_over_units(lowered, tiling.units.count)
    total += _turns(tiling, height)
    return (total + sum(_divided(each, tiling, blocks, height) for each in lowered.products)) * times


def _turns(tiling: Tiling, height: float) -> float:
    """What it takes that a thread has several elements, of so many rows."""
    assert tiling.units is not None
    return TURN * (max(1, math.ceil(height * tiling.units.each / (32 * tiling.warps))) - 1)


def _sending(lowered: Lowered, tiling: Tiling) -> float:
    """What blocks of a cluster take to send each other what is multiplied."""
    others = (tiling.cluster - 1) / tiling.cluster
    sent = {each.left.root().buffer for each in lowered.products}
    return sum(SENT + SENT_KB * tiling.rows * each.size * each.dtype.itemsize * others / 1024 for each in sent)


def _divided(product: Product, tiling: Tiling, blocks: int, height: float) -> float:
    """What a product takes whose columns are divided among so many blocks, of which each has so many rows."""
    depth, size, tall = product.matrix.shape[0], product.matrix.buffer.dtype.itemsize, math.ceil(height / 8)
    reading = MEGABYTE * blocks * height * depth * size / tiling.cluster / (1 << 20)
    each = TENSOR_TILE if by_tensor_cores(product, tiling) else EXACT
    tensor = warp_tiles(product, tiling) * loads(product, tiling) * 2 * tall
    multiplying = each * tensor * tiling.warps / 4 * (1 if tiling.kept == "registers" else 2)
    total = reading + multiplying - AHEAD * tiling.ahead * min(reading, multiplying)
    if tiling.kept == "memory":  # all blocks read their matrices again
        total += MEGABYTE * blocks * 32 * 4 * tiling.warps * held_registers(product, tiling) / (1 << 20)
    more = max(1, tiling.warps / 16 + 0.5)
    total += SUM * tall * columns(product, tiling) * tiling.cluster * more / 4 + EXCHANGE * more * (tiling.cluster - 1)
    return total + LOAD * max(0, loads(product, tiling) - MOST_LOADS)


def folds_over_units(lowered: Lowered, units: int) -> int:
    """Loops whose folds go over units, so that blocks post what they have folded."""
    loops = (loop for stage in lowered.stages if isinstance(stage, Pass) for loop in stage.loops)
    return sum(loop.kept is not None and loop.domain[-1:] == (units,) for loop in loops)


def _near(product: Product, tiling: Tiling) -> float:
    width = columns(product, tiling)
    tensor = width // 16 * loads(product, tiling) * parts(product, tiling) * 2
    return NEAR_PRODUCT + NEAR_TILE * tensor + NEAR_COLUMN * width
