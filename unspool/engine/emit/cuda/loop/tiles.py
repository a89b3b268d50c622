"""How a core is divided among blocks: a small cost model, from registers, shared memory, bytes that cross, and sums.

The constants are fitted to the LSTM's loop in bfloat16 on an H200, forward and adjoint: tests/test_cuda_tiles.py has
what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from unspool.engine.emit.cuda.loop.division import Division, Units
from unspool.engine.emit.cuda.loop.lowered import Lowered
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.dtypes import HALVES
from unspool.engine.emit.stages.passes import Pass
from unspool.engine.emit.stages.statements import Convolve, Largest, Product
from unspool.engine.emit.stages.strided import Place

ROW_CLASSES = (8, 16, 64, 256)
"""Numbers of rows that kernels are made for: a call takes the first that has as many, or the last."""
LEAST_UNITS = 8
"""Of a block: words are read 16 bytes at a time, and a tile of tensor cores has 16 columns."""
BASE_REGISTERS = 24
"""Of a thread, besides its part of the matrices and what it multiplies with."""
MOST_REGISTERS = 255
REGISTERS = 65536
"""Of a multiprocessor."""
STAGED_REGISTERS = 40
"""For terms of an exact product that are on their way from shared memory."""
STREAM_REGISTERS = 1
"""For each streamed value: the one for the next step."""
CROSSING = 0.65
"""Microseconds from posting a word to having it."""
MEGABYTE = 0.22
"""Microseconds for a megabyte that blocks read of each other."""
TENSOR_TILE = 0.005
"""Microseconds for a tile of tensor cores, times the warps that share a multiprocessor."""
SUM = 0.015
"""Microseconds for one of the sums that a thread adds up."""
MANY_LOADS, MANY_BYTES = 4, 4 << 20
"""Loads of a lane, and bytes that all blocks read of each other in a step, from which reading all of them again and
again delays those who post them; but not where several tiles of rows wait in turn."""
MOST_LOADS, LOAD = 4, 0.01
"""Loads of a lane that are on their way together, and microseconds for each one more."""
READ = 80.0
"""Kilobytes of weights that a block of whole rows reads in a microsecond."""

NEAR_PRODUCT, NEAR_TILE, NEAR_COLUMN = 0.33, 0.0029, 0.0006
"""Microseconds for a product of a block that has all units of its rows, for each of its tiles of tensor cores, and for
each column of eight rows: what its threads do besides."""


@dataclass(frozen=True)
class Limits:
    """What a device has.

    Args:
        processors: how many multiprocessors.
        shared_bytes: shared memory that one block may have.
        registers: of one multiprocessor.
        tf32: whether tensor cores may multiply float32.
    """

    processors: int
    shared_bytes: int
    registers: int = REGISTERS
    tf32: bool = False


@dataclass(frozen=True)
class Tiling:
    """How a kernel is divided.

    Args:
        units: how a row is divided among blocks; None if a block has whole rows.
        rows: how many rows a block has.
        warps: how many warps a block has.
        kept: where weights stay between steps: `registers`, `shared` or `memory`.
        tf32: whether tensor cores multiply float32.
        shared_bytes: how much shared memory a block may have.
        one_first: whether lanes wait for one word before they read all of theirs.
    """

    units: Units | None = None
    rows: int = 1
    warps: int = 4
    kept: str = "registers"
    tf32: bool = False
    shared_bytes: int = 96 * 1024
    one_first: bool = False

    @property
    def near(self) -> bool:
        """Whether a block has all units of its rows, and products of their own: nothing crosses."""
        return self.units is not None and self.units.tiles == 1


def row_class(rows: int) -> int:
    """The number of rows that a kernel for so many is made for."""
    return next((each for each in ROW_CLASSES if rows <= each), ROW_CLASSES[-1])


def tilings(lowered: Lowered, rows: int, limits: Limits) -> list[Tiling]:
    """Ways to divide a core, the cheapest first."""
    found = [(estimate(lowered, each, rows, limits), k, each) for k, each in enumerate(_options(lowered, rows, limits))]
    return [each for _, _, each in sorted(found)]


def _options(lowered: Lowered, rows: int, limits: Limits) -> Iterator[Tiling]:
    share = -(-rows // limits.processors)
    whole = next((each for each in (1, 2, 4) if share <= each), 8)
    yield Tiling(None, whole, 8, "memory", limits.tf32, limits.shared_bytes)
    if not lowered.products:
        return
    for count in unit_counts(lowered, LEAST_UNITS):
        for warps in (16, 8):
            tiling = Tiling(Units(count, count), 8, warps, "registers", limits.tf32, limits.shared_bytes)
            if all(by_tensor_cores(each, tiling) for each in lowered.products) and _fits(lowered, tiling, rows, limits):
                yield tiling
        eaches = [each for each in range(LEAST_UNITS, count, LEAST_UNITS) if count % each == 0]
        for each in eaches:
            for height in (8, 16, 32):
                for warps in (8, 4, 16):  # of those that cost the same, the first
                    for kept in ("registers", "shared", "memory"):
                        tiling = Tiling(Units(count, each), height, warps, kept, limits.tf32, limits.shared_bytes)
                        tiling = replace(tiling, one_first=_many_words(lowered, tiling, rows))
                        if _fits(lowered, tiling, rows, limits):
                            yield tiling


def _many_words(lowered: Lowered, tiling: Tiling, rows: int) -> bool:
    assert tiling.units is not None
    groups, height = -(-rows // tiling.rows), min(rows, tiling.rows)
    for each in lowered.products:
        read = groups * tiling.units.tiles * height * each.matrix.shape[0] * each.matrix.buffer.dtype.itemsize
        if tiling.rows == 8 and _blocks(each, tiling) >= MANY_LOADS and read >= MANY_BYTES:
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


# -- what a tiling needs ----------------------------------------------------------------------------------------------


def columns(product: Product, tiling: Tiling) -> int:
    """Columns of a product that a block has: whole tiles of tensor cores, as many for each warp."""
    assert tiling.units is not None
    tiles, across = -(-product.matrix.shape[1] // tiling.units.tiles // 16), warps_across(product, tiling)
    return -(-tiles // across) * across * 16


def warps_across(product: Product, tiling: Tiling) -> int:
    """How many warps have columns of their own; the others have other terms of the same ones."""
    if not tiling.near:
        return 1
    tiles = -(-product.matrix.shape[1] // 16)
    return 1 << min(tiling.warps, tiles).bit_length() - 1


def parts(product: Product, tiling: Tiling) -> int:
    """How many sums there are of each column, of different terms."""
    return tiling.warps // warps_across(product, tiling)


def by_tensor_cores(product: Product, tiling: Tiling) -> bool:
    """Whether a product's terms are multiplied many at a time."""
    dtype = product.matrix.buffer.dtype
    return dtype in HALVES or (dtype.itemsize == 4 and tiling.tf32)


def held_registers(product: Product, tiling: Tiling) -> int:
    """Registers of a thread for its part of a matrix."""
    if by_tensor_cores(product, tiling):
        return columns(product, tiling) // 16 // warps_across(product, tiling) * _blocks(product, tiling) * 8
    across, words = columns(product, tiling) // lanes_across(columns(product, tiling)), _words(product)
    return across * own_terms(product, tiling) * words


def used_registers(product: Product, tiling: Tiling, at_once: int = 1) -> int:
    """Registers of a thread for what it multiplies with, of so many tiles of rows at once, and for its sums."""
    if by_tensor_cores(product, tiling):
        tiles = columns(product, tiling) // 16 // warps_across(product, tiling)
        chains = max(1, 32 // (tiles * tiling.warps)) if tiling.near else 1
        return at_once * (_blocks(product, tiling) * 4 + chains * tiles * 4)
    lanes = lanes_across(columns(product, tiling))
    words = own_terms(product, tiling) * 32 // lanes * _words(product)  # of a row, for a warp
    return 8 * columns(product, tiling) // lanes * _words(product) + -(-8 * words // 128) * 4 + STAGED_REGISTERS


def lanes_across(columns: int) -> int:
    """How many lanes of a warp have columns of their own where products are exact; others have other terms."""
    return 16 if columns % 32 else 32


def own_terms(product: Product, tiling: Tiling) -> int:
    """Terms that a lane multiplies where products are exact."""
    each, split = 16 // product.matrix.buffer.dtype.itemsize, 32 // lanes_across(columns(product, tiling))
    return -(-product.matrix.shape[0] // (each * tiling.warps * split)) * each


def _words(product: Product) -> int:
    """Registers of a number."""
    return max(1, product.matrix.buffer.dtype.itemsize // 4)


def row_tiles(lowered: Lowered, tiling: Tiling) -> int:
    """How many tiles of eight rows are multiplied at once: each turn waits for memory anew, so as many as fit."""
    most = min(MOST_REGISTERS, REGISTERS // (32 * tiling.warps))
    options = (each for each in (4, 2) if tiling.rows // 8 % each == 0)
    return next((each for each in options if registers(lowered, tiling, each) <= most), 1)


def registers(lowered: Lowered, tiling: Tiling, at_once: int = 1) -> int:
    """About how many registers a thread of a divided kernel has."""
    held = sum(held_registers(each, tiling) for each in lowered.products) if tiling.kept == "registers" else 0
    used = max(used_registers(each, tiling, at_once) for each in lowered.products)
    streamed = {
        ref.root().buffer
        for stage in lowered.stages
        if isinstance(stage, Pass)
        for loop in stage.loops
        for each in loop.statements
        for ref in each.reads()
        if ref.root().buffer.place is Place.STREAMED
    }
    return held + used + BASE_REGISTERS + 8 + STREAM_REGISTERS * len(streamed)


def part_bytes(product: Product, tiling: Tiling) -> int:
    """Shared memory for the sums of all warps, of one step."""
    dtype = product.matrix.buffer.dtype
    return parts(product, tiling) * tiling.rows * (columns(product, tiling) + 4) * max(4, dtype.itemsize)


def product_bytes(product: Product, tiling: Tiling) -> int:
    """Shared memory that a product has besides: its matrix, and rows that lanes look at together."""
    matrix = tiling.warps * 32 * 4 * held_registers(product, tiling) if tiling.kept == "shared" else 0
    if by_tensor_cores(product, tiling):
        return matrix
    terms = own_terms(product, tiling) * 32 // lanes_across(columns(product, tiling))
    return tiling.warps * 8 * terms * product.matrix.buffer.dtype.itemsize + matrix


def shared_bytes(lowered: Lowered, tiling: Tiling) -> int:
    """Shared memory of a block for its products: two steps have sums at a time."""
    return sum(2 * part_bytes(each, tiling) + product_bytes(each, tiling) for each in lowered.products)


def _blocks(product: Product, tiling: Tiling) -> int:
    """Loads of 16 bytes that a lane makes of a row."""
    terms = 4 * 16 // product.matrix.buffer.dtype.itemsize * parts(product, tiling)
    return -(-product.matrix.shape[0] // terms)


# -- what it costs ----------------------------------------------------------------------------------------------------


def estimate(lowered: Lowered, tiling: Tiling, rows: int, limits: Limits) -> float:
    """About how many microseconds a step takes."""
    weights = sum(each.matrix.size * each.matrix.buffer.dtype.itemsize for each in lowered.products)
    if tiling.units is None:
        return CROSSING + weights / 1024 / READ * -(-tiling.rows // 4)
    groups, tiles = -(-rows // tiling.rows), tiling.units.tiles
    if tiling.near:
        return sum(_near(each, tiling) for each in lowered.products) * -(-groups // limits.processors)
    at_once = max(1, limits.processors // tiles)
    crossing = sum(not isinstance(stage, Pass) for stage in lowered.stages)
    total = CROSSING * crossing
    for each in lowered.products:
        depth, size = each.matrix.shape[0], each.matrix.buffer.dtype.itemsize
        total += MEGABYTE * min(groups, at_once) * tiles * min(rows, tiling.rows) * depth * size / (1 << 20)
        tensor = columns(each, tiling) // 16 * _blocks(each, tiling) * 2 * tiling.rows // 8
        slow = 1 if by_tensor_cores(each, tiling) else 8
        total += TENSOR_TILE * slow * tensor * tiling.warps / 4 * (1 if tiling.kept == "registers" else 2)
        if tiling.kept == "memory":  # all blocks read their matrices again
            matrix = 32 * 4 * tiling.warps * held_registers(each, tiling)
            total += MEGABYTE * min(groups, at_once) * tiles * matrix / (1 << 20)
        total += SUM * tiling.rows * columns(each, tiling) / 32
        total += LOAD * max(0, _blocks(each, tiling) - MOST_LOADS)
    return total * -(-groups // at_once)


def _near(product: Product, tiling: Tiling) -> float:
    width = columns(product, tiling)
    tensor = width // 16 * _blocks(product, tiling) * parts(product, tiling) * 2
    return NEAR_PRODUCT + NEAR_TILE * tensor + NEAR_COLUMN * width
