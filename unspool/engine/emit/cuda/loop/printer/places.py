"""Where a kernel finds things: what launches hand it, what its blocks have, and the words that cross."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from unspool.engine.emit.cuda.loop.division import Division
from unspool.engine.emit.cuda.loop.lowered import Lowered
from unspool.engine.emit.cuda.loop.printer.ring import Ring
from unspool.engine.emit.cuda.loop.printer.words import woven
from unspool.engine.emit.cuda.loop.tiles import Tiling, group_rows, part_bytes, product_bytes
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.dtypes import HALVES, computed
from unspool.engine.emit.stages.statements import Product, Reduce
from unspool.engine.emit.stages.strided import Buffer, Place
from unspool.engine.emit.text.spelling import TYPES

ALIGNED = 16
"""Bytes, of everything in a block's memory."""
ARRIVALS = 16
"""Bytes of what tells a block that what others send it is there: two of `Mail` of native/device.h."""
BANKS = 128
"""Bytes that shared memory hands out at a time."""
VECTOR_BYTES, VECTORS_BYTES = 16 << 10, 48 << 10
"""What a vector that all rows share may take in a block's memory, and all of them together."""


@dataclass(frozen=True)
class Given:
    """One of the addresses that a launch hands to a kernel.

    Args:
        kind: `shared`, `streamed`, `carried`, `kept` (what is carried on), `emitted`, `words`, `folds`, `matrix`; or
            `transposed`, whether a matrix lies by columns.
        index: which one of these.
        name: its name in the kernel.
        type: the type of its elements.
    """

    kind: str
    index: int
    name: str
    type: str


@dataclass
class Room:
    """Memory of a block, in bytes: what has been given out."""

    size: int = 0
    places: dict[str, int] = field(default_factory=dict[str, int])

    def take(self, name: str, size: int) -> int:
        """Room for something of that name."""
        self.places[name] = self.size
        self.size += -(-size // ALIGNED) * ALIGNED
        return self.places[name]


class Places:
    """All memory of a kernel.

    Args:
        lowered: what a step does.
        division: who owns what.
        tiling: how many rows and warps a block has, and how much memory.
    """

    def __init__(self, lowered: Lowered, division: Division, tiling: Tiling) -> None:
        self.lowered, self.division, self.tiling = lowered, division, tiling
        self.woven = woven(lowered, division)
        self.given: list[Given] = []
        self.shared, self.scratch = Room(), Room()
        self.own: dict[Buffer, None] = {}
        """What blocks keep elements of."""
        self.folds: list[tuple[Reduce, int]] = []
        """Folds that blocks post their parts of, and how many there are for a row."""
        self._find_own()
        for buffer in division.crossing if tiling.near else ():
            size = tiling.rows * near_apart(buffer) * buffer.dtype.itemsize
            self.shared.take(f"{buffer.name}_near", 2 * size if tiling.sends else size)
            if tiling.sends:
                self.shared.take(f"{buffer.name}_arrivals", ARRIVALS)
        for product in lowered.products if division.units is not None else ():
            self.shared.take(f"{product.target.buffer.name}_part", 2 * part_bytes(product, tiling))
            self.shared.take(f"{product.target.buffer.name}_by", product_bytes(product, tiling))
            if tiling.shares > 1:
                self.shared.take(f"{product.target.buffer.name}_arrivals", ARRIVALS)
        if self.shared.size > tiling.shared_bytes:
            raise CannotEmitError(f"a block would need {self.shared.size} bytes of shared memory for sums")
        for buffer in sorted(self.own, key=lambda each: self.own_bytes(each)):  # the largest ones stay outside
            size = self.own_bytes(buffer)
            room = self.shared if self.shared.size + size <= tiling.shared_bytes else self.scratch
            room.take(f"{buffer.name}_own", size)
        self.vectors = self._find_vectors() if lowered.core.carried else []
        """What all rows share that loops read at every step: a block has copies, since memory is far away."""
        self.ring = Ring(division, tiling, tiling.shared_bytes - self.shared.size, self.shared.take)
        if division.units is None:
            self._keep_matrices()
        self._find_folds()

    def _find_own(self) -> None:
        division = self.division
        for buffer in self.lowered.carried:
            if buffer in self.lowered.changed:
                self.own[buffer] = None
        whole = division.units is None
        for product in self.lowered.products:
            if whole:
                for ref in (product.target, *product.reads()):
                    self._keep(ref.root().buffer)
        for loop, mapped in division.mapped.items():
            for ref in division.reads(loop):
                if whole or division.at_hand(ref, mapped) is not None:
                    self._keep(ref.root().buffer)
            for each in loop.statements:
                if not whole and each.target.root().buffer in division.crossing:
                    continue
                if self.lowered.home.has_memory(each.target.root().buffer):
                    self._keep(each.target.root().buffer)

    def _keep(self, buffer: Buffer) -> None:
        kept = buffer.place is Place.SCRATCH or (buffer.place is Place.PRODUCT and self.division.units is None)
        if kept and self.lowered.home.has_memory(buffer):
            self.own[buffer] = None

    def _find_vectors(self) -> list[Buffer]:
        reads = [ref.root().buffer for loop in self.division.mapped for ref in self.division.reads(loop)]
        found: list[Buffer] = []
        left = VECTORS_BYTES
        for buffer in dict.fromkeys(each for each in reads if each.place is Place.SHARED):
            size = buffer.size * buffer.dtype.itemsize
            if size <= min(left, VECTOR_BYTES, self.tiling.shared_bytes - self.shared.size - ALIGNED):
                left -= size
                self.shared.take(f"{buffer.name}_copy", size)
                found.append(buffer)
        return found

    def _keep_matrices(self) -> None:
        """Lets matrices stay in what is left of the shared memory."""
        for index, product in enumerate(self.lowered.products):
            size = product.matrix.size * product.matrix.buffer.dtype.itemsize
            if self.shared.size + size <= self.tiling.shared_bytes:
                self.shared.take(self.matrix_name(product, index), size)

    def _find_folds(self) -> None:
        for loop, mapped in self.division.mapped.items():
            for each in loop.statements:
                if isinstance(each, Reduce) and self.division.posts(loop, each):
                    count = 1
                    for size in mapped.dims[: mapped.kept]:
                        count *= size
                    self.folds.append((each, count))

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def own_bytes(self, buffer: Buffer) -> int:
        """Of a buffer's elements in a block."""
        return self.tiling.rows * self.division.share(buffer) * self.own_dtype(buffer).itemsize

    def own_dtype(self, buffer: Buffer) -> torch.dtype:
        """That of a buffer's elements in a block: halves that are carried are rounded where they leave it."""
        wide = buffer.place is Place.CARRIED and not self.lowered.rounds
        return computed(buffer.dtype) if wide else buffer.dtype

    def outside(self, row: str) -> str:
        """How far a row of a block is from its first one in memory of all rows: others' lie between tiles of eight."""
        return row if self.tiling.rows == group_rows(self.tiling) else f"unspool::outside({row}, skip)"

    # -- names ---------------------------------------------------------------------------------------------------------

    def pointer(self, kind: str, index: int, name: str, kind_of: str) -> str:
        """The name of an address that is handed to the kernel."""
        found = Given(kind, index, name, kind_of)
        if found not in self.given:
            self.given.append(found)
        return name

    def all_of(self, buffer: Buffer) -> str:
        """A buffer of all rows: what is shared, streamed, emitted, or carried and never changed."""
        kind = buffer.place.value
        return self.pointer(kind, buffer.index, f"{buffer.name}_all", TYPES[buffer.dtype])

    def words(self, buffer: Buffer) -> str:
        """A buffer's words."""
        index = list(self.division.crossing).index(buffer)
        return self.pointer("words", index, f"{buffer.name}_words", TYPES[buffer.dtype])

    def by_pairs(self, buffer: Buffer) -> bool:
        """Whether two lanes together post what they compute of a buffer: two halves are a word."""
        crosses = buffer in self.division.crossing and not self.tiling.alone
        return crosses and buffer.dtype in HALVES and buffer not in self.woven

    def arrivals(self, name: str) -> str:
        """A line that declares what tells a block that others have sent it something of that name."""
        return f"unspool::Arrivals {name}_arrivals(memory + {self.shared.places[f'{name}_arrivals']});"

    def written_near(self, buffer: Buffer) -> str:
        """Where blocks write what products of the block, or of its cluster, read: a state for the next step."""
        return f"{buffer.name}_near" + ("_next" if self.tiling.sends and buffer.place is Place.CARRIED else "")

    def mail_for(self, buffer: Buffer) -> str:
        """What tells the blocks of a cluster that it is there."""
        return f"{buffer.name}_arrivals.at({'k + 1' if buffer.place is Place.CARRIED else 'k'})"

    def fold_words(self, fold: Reduce) -> tuple[str, int]:
        """The words of a fold's parts, and how many folds there are for a row."""
        index = [each for each, _ in self.folds].index(fold)
        name = f"{fold.target.buffer.name}_folds"
        return self.pointer("folds", index, name, TYPES[fold.target.buffer.dtype]), self.folds[index][1]

    def matrix(self, product: Product, index: int) -> str:
        """A product's matrix."""
        return self.pointer("matrix", index, self.matrix_name(product, index), TYPES[product.matrix.buffer.dtype])

    def transposed(self, product: Product, index: int) -> str:
        """Whether a product's matrix lies by columns."""
        return self.pointer("transposed", index, f"{self.matrix_name(product, index)}_transposed", "")

    def matrix_name(self, product: Product, index: int) -> str:
        """What a product's matrix is called."""
        return f"{product.target.buffer.name}_matrix{index or ''}"

    def declarations(self) -> list[str]:
        """Lines that name all memory."""
        lines = [
            f"{each.type}* const {each.name} = ({each.type}*)chunk.memory[{k}];"
            if each.type
            else f"const bool {each.name} = chunk.memory[{k}];"
            for k, each in enumerate(self.given)
        ]
        lines.append("char* const memory = unspool::shared_memory();")
        for buffer in self.division.crossing if self.tiling.near else ():
            kind, place = TYPES[buffer.dtype], self.shared.places[f"{buffer.name}_near"]
            both = "_both" if self.tiling.sends else ""
            lines.append(f"{kind}* const {buffer.name}_near{both} = ({kind}*)(memory + {place});")
            if self.tiling.sends:
                lines.append(self.arrivals(buffer.name))
        for buffer in self.vectors:
            kind, place = TYPES[buffer.dtype], self.shared.places[f"{buffer.name}_copy"]
            lines.append(f"{kind}* const {buffer.name}_copy = ({kind}*)(memory + {place});")
        if self.scratch.size:
            lines.append(f"char* const scratch = chunk.scratch + (int64_t)unspool::block() * {self.scratch.size};")
        for buffer in self.own:
            name, kind = f"{buffer.name}_own", TYPES[self.own_dtype(buffer)]
            room, base = (self.shared, "memory") if name in self.shared.places else (self.scratch, "scratch")
            lines.append(f"{kind}* const {name} = ({kind}*)({base} + {room.places[name]});")
        return lines


def near_apart(buffer: Buffer) -> int:
    """How far apart rows are that are multiplied near: so that a quarter of a warp reads all banks of shared memory."""
    size = buffer.dtype.itemsize
    return (-(-buffer.size * size // BANKS) * BANKS + BANKS // 2) // size


def sum_type(product: Product) -> torch.dtype:
    """The type that a product's terms are summed in."""
    dtype = product.matrix.buffer.dtype
    return torch.float32 if dtype in HALVES else dtype
