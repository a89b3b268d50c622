"""Ways to divide a core among blocks, as far as registers and shared memory allow; the cheapest first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from unspool.engine.emit.cuda.loop.cost.estimate import estimate, folds_over_units, teams
from unspool.engine.emit.cuda.loop.division import Division, Units
from unspool.engine.emit.cuda.loop.lowered import Lowered
from unspool.engine.emit.cuda.loop.tiles import (
    BASE_REGISTERS,
    MOST_REGISTERS,
    Limits,
    Tiling,
    all_by_tensor_cores,
    held_registers,
    loads,
    shared_bytes,
    used_registers,
)
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.passes import Pass
from unspool.engine.emit.stages.statements import Convolve, Largest

ROW_CLASSES = (8, 16, 64, 256)
"""Numbers of rows that kernels are made for: a call takes the first that has as many, or the last."""
WORTH = 0.9
"""How much of the time that ragged rows take by the kernel for full ones another may take to be compiled too."""
LEAST_UNITS = 8
"""Of a block: words are read 16 bytes at a time, and a tile of tensor cores has 16 columns."""
MANY_LOADS, MANY_BYTES = 6, 4 << 20
"""Loads of a lane, and bytes that all blocks read of each other in a step, from which reading all of them again and
again delays those who post them; but not where several tiles of rows wait in turn."""


def row_class(rows: int) -> int:
    """The number of rows that a kernel for so many is made for."""
    return next((each for each in ROW_CLASSES if rows <= each), ROW_CLASSES[-1])


def tilings(lowered: Lowered, rows: int, limits: Limits, *, ragged: bool = False) -> list[Tiling]:
    """Ways to divide a core, the cheapest first.

    Args:
        lowered: what a step does.
        rows: about how many there are of the first step.
        limits: what the device has.
        ragged: whether rows have lengths of their own.
    """
    options = list(_options(lowered, rows, limits))
    full = [estimate(lowered, each, rows, limits) for each in options]
    found = _sorted(options, full)
    if ragged:
        own = [estimate(lowered, each, rows, limits, ragged=True) for each in options]
        if min(own) < WORTH * own[options.index(found[0])]:
            return _sorted(options, own)
    return found


def _sorted(options: list[Tiling], costs: list[float]) -> list[Tiling]:
    return [options[k] for k in sorted(range(len(options)), key=costs.__getitem__)]


def _options(lowered: Lowered, rows: int, limits: Limits) -> Iterator[Tiling]:
    share = -(-rows // limits.processors)
    whole = next((each for each in (1, 2, 4) if share <= each), 8)
    yield Tiling(None, whole, 8, "memory", limits.tf32, limits.shared_bytes)
    if not lowered.products:
        return
    for count in unit_counts(lowered, LEAST_UNITS):
        for tiling in () if folds_over_units(lowered, count) else _near(count, limits):
            if all_by_tensor_cores(lowered, tiling) and _fits(lowered, tiling, rows, limits):
                yield tiling
        eaches = [each for each in range(LEAST_UNITS, count, LEAST_UNITS) if count % each == 0]
        for each in eaches:
            for height in (8, 16, 32):
                for warps in (8, 4, 16):  # of those that cost the same, the first
                    for kept in ("registers", "shared", "memory"):
                        tiling = Tiling(Units(count, each), height, warps, kept, limits.tf32, limits.shared_bytes)
                        yield from _waiting(lowered, tiling, rows, limits)


def _near(count: int, limits: Limits) -> Iterator[Tiling]:
    """Ways to have all units of eight rows in a block, or in the blocks of a cluster."""
    for cluster in (1, 2, 4, 8) if limits.clusters else (1,):
        if count % cluster == 0 and count // cluster >= LEAST_UNITS:
            for warps in (16, 8) if cluster == 1 else (4, 8, 16):
                tiling = Tiling(Units(count, count // cluster), 8, warps, "registers", limits.tf32, limits.shared_bytes)
                yield replace(tiling, cluster=cluster)


def _waiting(lowered: Lowered, tiling: Tiling, rows: int, limits: Limits) -> Iterator[Tiling]:
    """Ways to wait for words: a block for all of a row, or two for half of it each; those of a tile ahead or not."""
    for cluster in _clusters(lowered, tiling, limits):
        found = replace(tiling, cluster=cluster)
        found = replace(found, one_first=_many_words(lowered, found, rows, limits))
        if _fits(lowered, found, rows, limits):
            yield found
            ahead = replace(found, ahead=True)
            if tiling.rows > 8 and all_by_tensor_cores(lowered, tiling) and _fits(lowered, ahead, rows, limits):
                yield ahead


def _clusters(lowered: Lowered, tiling: Tiling, limits: Limits) -> Iterator[int]:
    """How many blocks may divide the terms of products among them: those of a row, by tensor cores."""
    yield 1
    assert tiling.units is not None
    pairs = tiling.units.tiles > 2 and tiling.units.tiles % 2 == 0 and tiling.kept != "memory"
    if limits.clusters and pairs and all_by_tensor_cores(lowered, tiling):
        yield 2


def _many_words(lowered: Lowered, tiling: Tiling, rows: int, limits: Limits) -> bool:
    assert tiling.units is not None
    blocks, height = teams(tiling, rows, limits) * tiling.units.tiles, min(rows, tiling.rows)
    for each in lowered.products:
        read = blocks * height * each.matrix.shape[0] * each.matrix.buffer.dtype.itemsize // tiling.cluster
        if tiling.rows == 8 and loads(each, tiling) >= MANY_LOADS and read >= MANY_BYTES:
            return True
    return False


def _fits(lowered: Lowered, tiling: Tiling, rows: int, limits: Limits) -> bool:
    assert tiling.units is not None
    if tiling.rows > 8 and tiling.rows >= 2 * rows:
        return False
    most = min(MOST_REGISTERS, limits.registers // (32 * tiling.warps))
    held = sum(held_registers(each, tiling) for each in lowered.products) if tiling.kept == "registers" else 0
    used = max(used_registers(each, tiling) for each in lowered.products)
    if held + used + BASE_REGISTERS > most or tiling.units.tiles > limits.processors:
        return False
    return shared_bytes(lowered, tiling) <= limits.shared_bytes


def unit_counts(lowered: Lowered, least: int) -> list[int]:
    """Numbers of units that a row can be divided into, the largest first, if a block has at least so many of them."""
    if any(isinstance(each, Convolve | Largest) for each in lowered.products):
        return []
    widths = [each.matrix.shape[1] for each in lowered.products]
    sizes = {math.gcd(*widths)} if widths else set[int]()
    for stage in lowered.stages:
        sizes |= {loop.domain[-1] for loop in stage.loops if loop.domain} if isinstance(stage, Pass) else set[int]()
    return [size for size in sorted(sizes, reverse=True) if size > least and _divides(lowered, Units(size, least))]


def _divides(lowered: Lowered, units: Units) -> bool:
    if units.count % units.each:
        return False
    try:
        Division(lowered, units)
    except CannotEmitError:
        return False
    return True
