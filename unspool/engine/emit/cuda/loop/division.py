"""Divides the units of a row among blocks: which block computes what, and which values blocks exchange.

A block has some of the units of its rows. A loop over a row's elements runs along these units, so that each element is
computed by the block that owns its unit; or every block runs all of it. What a loop reads is at hand if it belongs to
the unit that it computes. Anything else crosses: its owner posts it, and whoever needs it waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unspool.engine.emit.cuda.loop.lowered import Lowered
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.dims import collapse, kept_dims
from unspool.engine.emit.stages.dtypes import HALVES, MULTIPLIED
from unspool.engine.emit.stages.passes import Loop, Pass
from unspool.engine.emit.stages.statements import Compute, Convolve, InLoop, Largest, Product, Reduce
from unspool.engine.emit.stages.strided import Buffer, Place, Ref

Numbers: TypeAlias = NDArray[np.int64]

WORDS = 16
"""Bytes that are read at once."""


@dataclass(frozen=True)
class Units:
    """The units of a row.

    Args:
        count: how many there are.
        each: how many of them a block has.
    """

    count: int
    each: int

    @property
    def tiles(self) -> int:
        """How many blocks have a row together."""
        return self.count // self.each


@dataclass(frozen=True)
class Mapped:
    """How a loop's dimensions are run through.

    Args:
        dims: their sizes.
        kept: how many of the first ones its folds keep.
        unit: which of them are the units; None if every block runs all.
    """

    dims: tuple[int, ...]
    kept: int = 0
    unit: int | None = None


class Division:
    """Which block computes what.

    Args:
        lowered: what a step does.
        units: how a row is divided; None if a block has whole rows.

    Raises:
        CannotEmitError: if it cannot be divided so.
    """

    def __init__(self, lowered: Lowered, units: Units | None) -> None:
        self.units = units
        self._lowered = lowered
        self.mapped: dict[Loop, Mapped] = {}
        self.apart: dict[Buffer, int] = {}
        """Of buffers that are divided: how far apart the elements of neighbouring units are."""
        self.crossing: dict[Buffer, None] = {}
        """What has words, in the order in which these are needed."""
        self.added = {each.target.buffer: each for each in lowered.products}
        self._whole: set[Buffer] = set()
        self._reads: dict[Loop, Sequence[Ref]] = {}
        if units is not None:
            for product in lowered.products:
                self._divide_product(product, units)
        for stage in lowered.stages:
            for loop in stage.loops if isinstance(stage, Pass) else ():
                self.mapped[loop] = self._map(loop)
                self._own(loop, self.mapped[loop])
        for stage in lowered.stages:
            for loop in stage.loops if isinstance(stage, Pass) else ():
                self._cross(loop)
        for buffer in self.crossing:
            self._check_words(buffer)
        self._check_addends()

    # -- where things are ----------------------------------------------------------------------------------------------

    def share(self, buffer: Buffer) -> int:
        """How many elements of a buffer a block has."""
        return buffer.size // self.units.tiles if self.units and buffer in self.apart else buffer.size

    def is_given(self, buffer: Buffer) -> bool:
        """Whether a buffer is memory that any block may read at any time."""
        unchanged = buffer.place is Place.CARRIED and buffer not in self._lowered.changed
        return unchanged or buffer.place in (Place.SHARED, Place.STREAMED)

    def at_hand(self, ref: Ref, mapped: Mapped, dims: int | None = None) -> Ref | None:
        """The elements that a loop reads or writes, in what its block has; None if they are not there.

        Args:
            ref: the elements.
            mapped: the loop.
            dims: how many of its dimensions they have, if not all.
        """
        root = ref.root()
        seen = root.reshape(mapped.dims[:dims])
        assert seen is not None
        if self.units is None or root.buffer not in self.apart:
            return seen
        return _local(seen, mapped.unit, self.apart[root.buffer], self.units)

    def sums_at(self, ref: Ref, mapped: Mapped) -> Ref:
        """Elements of a product among its block's columns: a unit's are neighbours, so that they are read at once."""
        own = self.at_hand(ref, mapped)
        assert own is not None
        assert self.units is not None
        turns, each = own.buffer.size // self.units.count, self.units.each
        strides = tuple(turns if k == mapped.unit else stride // each for k, stride in enumerate(own.strides))
        return replace(own, strides=strides, offset=own.offset // each)

    def posts(self, loop: Loop, statement: InLoop) -> bool:
        """Whether a fold over units posts what each block has folded."""
        mapped = self.mapped[loop]
        return isinstance(statement, Reduce) and mapped.unit is not None and mapped.unit >= mapped.kept

    def reads(self, loop: Loop) -> Sequence[Ref]:
        """What a loop reads of memory: not what it has just computed."""
        if loop not in self._reads:
            self._reads[loop] = list(self._find_reads(loop))
        return self._reads[loop]

    def _find_reads(self, loop: Loop) -> Iterator[Ref]:
        made: list[Ref] = []
        for each in loop.statements:
            for ref in each.reads():
                root = ref.root().buffer
                if root.place.is_memory and not any(ref.same_elements(other) for other in made):
                    yield from self._with_addends(ref)
            if isinstance(each, Compute):
                made.append(each.target)

    def _with_addends(self, ref: Ref) -> Iterator[Ref]:
        yield ref
        for each in self.addends(ref):
            yield from self._with_addends(each)

    def addends(self, ref: Ref) -> Iterator[Ref]:
        """What is added to elements of a product as they are read, where blocks have sums of its terms."""
        product = self.added.get(ref.root().buffer) if self.units is not None else None
        if product is not None and product.added is not None:
            yield moved(product.added, ref)

    # -- dividing ------------------------------------------------------------------------------------------------------

    def _divide_product(self, product: Product, units: Units) -> None:
        if isinstance(product, Convolve | Largest):
            raise CannotEmitError("a convolution, or a search, cannot be divided among blocks")
        depth, width = product.matrix.shape
        left, target = product.left.root(), product.target
        own = left.buffer
        if target.size != width or not target.is_whole or width % units.count:
            raise CannotEmitError(f"a product of {width} columns cannot be divided among {units.count} units")
        if target.buffer.place is not Place.PRODUCT or own.place not in (Place.CARRIED, Place.SCRATCH):
            raise CannotEmitError("a product of what no block has computed")
        size = own.dtype.itemsize
        if own.dtype not in MULTIPLIED or own.dtype != product.matrix.buffer.dtype:
            raise CannotEmitError("a product of numbers of different types")
        if any(each * size % WORDS for each in (left.offset, depth, own.size)):
            raise CannotEmitError(f"a product of {depth} terms that do not lie {WORDS} bytes at a time")
        self.apart[target.buffer] = 1
        self.crossing[own] = None

    def _map(self, loop: Loop) -> Mapped:
        alone = loop.is_alone and not isinstance(loop.statements[0], Reduce)
        dims = loop.domain if alone else collapse(loop)
        whole = Mapped(dims, 0 if loop.kept is None or alone else kept_dims(dims, loop))
        if self.units is None:
            return whole
        options = [] if alone else list(_options(dims, loop, self.units))
        found = [(cost, k) for k, each in enumerate(options) if (cost := self._cost(loop, each)) is not None]
        if found:
            return options[min(found)[1]]
        if self._cost(loop, whole) is None:
            raise CannotEmitError("a loop in which units of different blocks are computed together")
        return whole

    def _cost(self, loop: Loop, mapped: Mapped) -> int | None:
        """How much a loop reads of other blocks; None if it cannot be run so."""
        for each in loop.statements:
            root = each.target.root().buffer
            if root.place is Place.EMITTED:
                continue
            over_units = isinstance(each, Reduce) and mapped.unit is not None and mapped.unit >= mapped.kept
            if over_units and isinstance(each, Reduce) and not _can_post(each):
                return None
            if mapped.unit is None or over_units:
                if root in self.apart:
                    return None
            elif root in self._whole or self._distance(each, mapped) is None:
                return None
        crossings = 0
        for ref in self.reads(loop):
            root = ref.root().buffer
            if root in self.apart and not self.is_given(root) and self.at_hand(ref, mapped) is None:
                if root.place is Place.PRODUCT or loop.is_alone:
                    return None
                crossings += ref.size
        return crossings

    def _distance(self, each: InLoop, mapped: Mapped) -> int | None:
        """How far apart a target's units are if a loop is run so; None if it cannot be."""
        assert self.units is not None
        assert mapped.unit is not None
        dims = mapped.dims[: mapped.kept] if isinstance(each, Reduce) else mapped.dims
        seen = each.target.root().reshape(dims)
        if seen is None:
            return None
        apart = self.apart.get(seen.buffer, seen.strides[mapped.unit])
        if apart < 1 or seen.buffer.size % (apart * self.units.count):
            return None
        return None if _local(seen, mapped.unit, apart, self.units) is None else apart

    def _own(self, loop: Loop, mapped: Mapped) -> None:
        for each in loop.statements:
            root = each.target.root().buffer
            if root.place is Place.EMITTED:
                continue
            if mapped.unit is None or self.posts(loop, each):
                self._whole.add(root)
            else:
                distance = self._distance(each, mapped)
                assert distance is not None
                self.apart[root] = distance

    def _cross(self, loop: Loop) -> None:
        for ref in self.reads(loop):
            root = ref.root().buffer
            if root in self.apart and not self.is_given(root) and self.at_hand(ref, self.mapped[loop]) is None:
                if root.place is Place.PRODUCT or loop.is_alone:
                    raise CannotEmitError(f"{root.name} is needed by other blocks than those that compute it")
                self.crossing[root] = None

    def _check_addends(self) -> None:
        """What is added to a product is read with it, and must not have been overwritten by then."""
        stored: set[Buffer] = set()
        for loop in self.mapped:
            for ref in self.reads(loop):
                for each in self.addends(ref):
                    if each.root().buffer in stored:
                        raise CannotEmitError(f"{each.buffer.name} is overwritten before a product starts from it")
            stored |= {each.target.root().buffer for each in loop.statements} & self._lowered.changed

    def _check_words(self, buffer: Buffer) -> None:
        if buffer.dtype not in MULTIPLIED:
            raise CannotEmitError(f"{buffer.name} would cross from block to block, and has no number that is none")
        if buffer not in self.apart:
            raise CannotEmitError(f"{buffer.name} would cross from block to block, and all have computed it")
        for loop, mapped in self.mapped.items():
            for each in loop.statements:
                if each.target.root().buffer is buffer:
                    self._check_post(buffer, each, mapped)

    def _check_post(self, buffer: Buffer, statement: InLoop, mapped: Mapped) -> None:
        if not isinstance(statement, Compute):
            raise CannotEmitError(f"{buffer.name} would cross from block to block, and is folded")
        assert self.units is not None
        if buffer.dtype in HALVES:  # these are posted two at a time, by neighbours
            seen = statement.target.root().reshape(mapped.dims)
            last = mapped.unit == len(mapped.dims) - 1 and self.apart[buffer] == 1 and self.units.each % 2 == 0
            if seen is None or not last or seen.offset % 2 or any(stride % 2 for stride in seen.strides[:-1]):
                raise CannotEmitError(
                    f"{buffer.name} would cross from block to block, and its units are not neighbours"
                )


def _can_post(fold: Reduce) -> bool:
    """Whether what blocks have folded can meet: it needs a number that is none."""
    dtype = fold.target.root().buffer.dtype
    return not fold.fold.startswith("arg") and dtype in MULTIPLIED and dtype not in HALVES


def moved(added: Ref, ref: Ref) -> Ref:
    """What is added to elements of a product: `added` lies like its whole target."""
    root = ref.root()
    first = added.root()
    return replace(first, shape=root.shape, strides=root.strides, offset=first.offset + root.offset)


def _options(dims: tuple[int, ...], loop: Loop, units: Units) -> Iterator[Mapped]:
    """Ways to run a loop along units: those next to each other first."""
    for k, size in enumerate(dims):
        if size % units.count:
            continue
        times = size // units.count
        for pair, unit in (((times, units.count), 1), ((units.count, times), 0)):
            split = [each for each in pair if each > 1]
            made = (*dims[:k], *split, *dims[k + 1 :])
            yield Mapped(made, 0 if loop.kept is None else kept_dims(made, loop), k + (unit if times > 1 else 0))


def _local(seen: Ref, unit: int | None, apart: int, units: Units) -> Ref | None:
    """Elements of a divided buffer as its owner has them, if a loop meets those of each unit with that unit."""
    if unit is None:
        return None
    found = _own_places(seen.shape, seen.strides, seen.offset, unit, apart, units)
    return None if found is None else Ref(seen.buffer, *found)


@lru_cache(4096)  # each way to divide a core asks the same of the same loops
def _own_places(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int, unit: int, apart: int, units: Units
) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:
    """The shape, the strides and the offset of what an owner has of such elements."""
    block, own = units.count * apart, units.each * apart
    turns, rest = divmod(offset, block)
    own_shape = tuple(units.each if k == unit else size for k, size in enumerate(shape))
    own_strides = tuple(stride // block * own if stride % block == 0 else stride for stride in strides)
    own_offset = turns * own + rest
    indices: Numbers = np.indices(shape).reshape(len(shape), -1)
    places = offset + _dot(strides, indices)
    if np.any(places // apart % units.count != indices[unit]):
        return None
    first = indices[:, indices[unit] < units.each]  # those of the first block
    expected = places[indices[unit] < units.each]
    expected = expected // block * own + expected % block
    same = np.array_equal(expected, own_offset + _dot(own_strides, first))
    return (own_shape, own_strides, own_offset) if same else None


def _dot(strides: Sequence[int], indices: Numbers) -> Numbers:
    return (np.asarray(strides, dtype=np.int64)[:, None] * indices).sum(0)
