"""How a core is divided among blocks, and what that takes of registers and shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from unspool.engine.emit.cuda.loop.division import Units
from unspool.engine.emit.cuda.loop.lowered import Lowered
from unspool.engine.emit.stages.dtypes import HALVES
from unspool.engine.emit.stages.passes import Pass
from unspool.engine.emit.stages.statements import Product
from unspool.engine.emit.stages.strided import Place

BASE_REGISTERS = 24
"""Of a thread, besides its part of the matrices and what it multiplies with."""
MOST_REGISTERS = 255
REGISTERS = 65536
"""Of a multiprocessor."""
STAGED_REGISTERS = 40
"""For terms of an exact product that are on their way from shared memory."""
SENDING_REGISTERS = 16
"""Where blocks of a cluster send each other what is multiplied: places of it, and of what tells that it has come."""
STREAM_REGISTERS = 1
"""For each streamed value: the one for the next step."""


@dataclass(frozen=True)
class Limits:
    """What a device has.

    Args:
        processors: how many multiprocessors.
        shared_bytes: shared memory that one block may have.
        registers: of one multiprocessor.
        tf32: whether tensor cores may multiply float32.
        clusters: whether blocks may write to each other's shared memory.
    """

    processors: int
    shared_bytes: int
    registers: int = REGISTERS
    tf32: bool = False
    clusters: bool = False


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
        ahead: whether words of eight rows are on their way while those of the eight before them are multiplied.
        cluster: how many blocks, each other's neighbours, write to each other's shared memory. If they have all units
            of a row, that is what crosses. Else they divide the terms of products among them: each multiplies its part
            for the columns of all, and hands the others their sums.
    """

    units: Units | None = None
    rows: int = 1
    warps: int = 4
    kept: str = "registers"
    tf32: bool = False
    shared_bytes: int = 96 * 1024
    one_first: bool = False
    ahead: bool = False
    cluster: int = 1

    @property
    def near(self) -> bool:
        """Whether one cluster has all units of a row: what crosses lies in the shared memory of each of its blocks."""
        return self.units is not None and self.units.tiles == self.cluster

    @property
    def alone(self) -> bool:
        """Whether a block has all units of its rows: nothing crosses."""
        return self.near and self.cluster == 1

    @property
    def sends(self) -> bool:
        """Whether blocks of a cluster have all units of a row between them, and send each other what crosses."""
        return self.near and self.cluster > 1

    @property
    def shares(self) -> int:
        """How many blocks divide the terms of products among them."""
        return 1 if self.near else self.cluster


def group_rows(tiling: Tiling) -> int:
    """How many rows there are from the first one of a group to the first one of the next.

    A block of several tiles of eight rows has every n-th of these, if there are n groups: rows are sorted by length, so
    that all groups have long and short ones.
    """
    return tiling.rows if tiling.units is None or tiling.near else min(tiling.rows, 8)


def columns(product: Product, tiling: Tiling) -> int:
    """Columns of a product whose sums a block has: whole tiles of tensor cores, as many for each warp."""
    assert tiling.units is not None
    tiles, across = -(-product.matrix.shape[1] // tiling.units.tiles // 16), warps_across(product, tiling)
    return -(-tiles // across) * across * 16


def warps_across(product: Product, tiling: Tiling) -> int:
    """How many warps have columns of their own; the others have other terms of the same ones."""
    if not tiling.near:
        return 1
    assert tiling.units is not None
    tiles = -(-product.matrix.shape[1] // tiling.units.tiles // 16)
    return 1 << min(tiling.warps, tiles).bit_length() - 1


def parts(product: Product, tiling: Tiling) -> int:
    """How many sums there are of each column, of different terms."""
    return tiling.warps // warps_across(product, tiling)


def warp_tiles(product: Product, tiling: Tiling) -> int:
    """How many tiles of columns a warp multiplies: those of all blocks that divide the terms."""
    return columns(product, tiling) // 16 // warps_across(product, tiling) * tiling.shares


def by_tensor_cores(product: Product, tiling: Tiling) -> bool:
    """Whether a product's terms are multiplied many at a time."""
    dtype = product.matrix.buffer.dtype
    return dtype in HALVES or (dtype.itemsize == 4 and tiling.tf32)


def all_by_tensor_cores(lowered: Lowered, tiling: Tiling) -> bool:
    """Whether the terms of all products are."""
    return all(by_tensor_cores(each, tiling) for each in lowered.products)


def held_registers(product: Product, tiling: Tiling) -> int:
    """Registers of a thread for its part of a matrix."""
    if by_tensor_cores(product, tiling):
        return warp_tiles(product, tiling) * loads(product, tiling) * 8
    across, words = columns(product, tiling) // lanes_across(columns(product, tiling)), _words(product)
    return across * own_terms(product, tiling) * words


def used_registers(product: Product, tiling: Tiling, at_once: int = 1) -> int:
    """Registers of a thread for what it multiplies with, of so many tiles of rows at once, and for its sums."""
    if by_tensor_cores(product, tiling):
        tiles = warp_tiles(product, tiling)
        chains = max(1, 32 // (tiles * tiling.warps)) if tiling.near else 1
        sending = SENDING_REGISTERS if tiling.sends else 0
        return at_once * (loads(product, tiling) * 4 * (1 + tiling.ahead) + chains * tiles * 4) + sending
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
    if tiling.ahead:
        return 1
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
    """Shared memory for sums of one step: of all warps for each block of a cluster, and those that others hand it."""
    dtype, sums = product.matrix.buffer.dtype, parts(product, tiling) * tiling.shares + tiling.shares - 1
    return sums * tiling.rows * (columns(product, tiling) + 4) * max(4, dtype.itemsize)


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


def loads(product: Product, tiling: Tiling) -> int:
    """Loads of 16 bytes that a lane makes of a row."""
    terms = 4 * 16 // product.matrix.buffer.dtype.itemsize * parts(product, tiling) * tiling.shares
    return -(-product.matrix.shape[0] // terms)
