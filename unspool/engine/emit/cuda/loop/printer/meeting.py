"""Where the threads of a block have to meet: between what one writes and another reads, or overwrites."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from unspool.engine.emit.cuda.loop.printer.loops import LANES
from unspool.engine.emit.cuda.loop.printer.places import Places
from unspool.engine.emit.stages.passes import Loop
from unspool.engine.emit.stages.statements import Compute, Product, Reduce
from unspool.engine.emit.stages.strided import Place, Ref

ROW = "the warp with the number of the row"


class Meeting(IntEnum):
    """Which threads meet: a warp that has a row to itself need not wait for those that have others."""

    NONE = 0
    WARP = 1
    BLOCK = 2


@dataclass(frozen=True)
class Touch:
    """Memory of a block that a part of a step reads or writes.

    Args:
        what: the memory.
        how: by which thread each element; None if that is not known. The same way means the same threads.
        writes: whether it is written.
        turns: whether it is another memory at every other step.
        warp: by which warp each element; None if that is not known.
    """

    what: Hashable
    how: Hashable
    writes: bool
    turns: bool = False
    warp: Hashable = None


@dataclass(frozen=True)
class _Past:
    """What has been touched since the block has met, in which step, and whether each warp has met since."""

    touch: Touch
    step: int
    met: bool = False


def meetings(parts: Sequence[Sequence[Touch]]) -> list[Meeting]:
    """Who has to meet before each part of a step, which comes again and again.

    >>> write, read, other = Touch("h", "by unit", True), Touch("h", "by unit", False), Touch("h", None, False)
    >>> meetings([[write], [read]]) == [Meeting.NONE, Meeting.NONE]
    True
    >>> meetings([[write], [other]]) == [Meeting.BLOCK, Meeting.BLOCK]
    True
    >>> folded, used = Touch("sum", "first lane", True, warp="row"), Touch("sum", "all lanes", False, warp="row")
    >>> meetings([[folded], [used]]) == [Meeting.WARP, Meeting.WARP]
    True
    """
    found = [Meeting.NONE] * len(parts)
    while (missing := _missing(parts, found)) is not None:
        at, found[at] = missing[0], missing[1]
    return found


def _missing(parts: Sequence[Sequence[Touch]], found: Sequence[Meeting]) -> tuple[int, Meeting] | None:
    """The first part before which more threads have to meet, and which."""
    past: list[_Past] = []
    for step in range(4):
        for at, touches in enumerate(parts):
            if found[at] is Meeting.BLOCK:
                past.clear()
            elif found[at] is Meeting.WARP:
                past = [_Past(each.touch, each.step, met=True) for each in past]
            needed = max((_conflict(each, other, step) for each in past for other in touches), default=Meeting.NONE)
            if needed > Meeting.NONE:
                return at, needed
            past += [_Past(each, step) for each in touches]
    return None


def _conflict(past: _Past, now: Touch, step: int) -> Meeting:
    before = past.touch
    if before.what != now.what or not (before.writes or now.writes):
        return Meeting.NONE
    if before.turns and (step - past.step) % 2:
        return Meeting.NONE
    if before.how is not None and before.how == now.how:
        return Meeting.NONE
    if before.warp is not None and before.warp == now.warp:
        return Meeting.NONE if past.met else Meeting.WARP
    return Meeting.BLOCK


class Touches:
    """Finds what loops and products of a kernel touch.

    Args:
        places: where values are.
        widths: how many elements each loop takes at a time.
    """

    def __init__(self, places: Places, widths: Mapping[Loop, int]) -> None:
        self._places, self._widths = places, widths
        self._division, self._tiling = places.division, places.tiling

    def of_loop(self, loop: Loop, after: Loop | None) -> Iterator[Touch]:
        """What a loop touches, and the one that goes on in the same lanes with what it has folded."""
        has_warps = self._has_warps(loop)
        by_element = has_warps or all(isinstance(each, Compute) for each in loop.statements)
        dims, warp = self._division.mapped[loop].dims if by_element else None, ROW if has_warps else None
        for ref in self._division.reads(loop):
            yield from self._of_ref(ref, dims, warp, loop, writes=False)
            if self._places.ring.has(ref):
                yield Touch("ring", None, writes=False)
        for each in loop.statements:
            yield from self._of_ref(each.target, None if isinstance(each, Reduce) else dims, warp, loop, writes=True)
            if self._tiling.near and each.target.root().buffer in self._division.crossing:
                yield Touch(f"{each.target.root().buffer.name}_near", None, writes=True)
        if after is not None:  # a lane goes on with what its warp has folded
            for ref in self._division.reads(after):
                yield from self._of_ref(ref, None, warp, after, writes=False)
            for each in after.statements:
                yield from self._of_ref(each.target, None, warp, after, writes=True)

    def of_product(self, product: Product) -> Iterator[Touch]:
        """What a product touches."""
        divided = self._tiling.units is not None
        yield Touch(product.target.buffer.name, None, writes=True, turns=divided)
        for ref in product.reads() if not divided else ():
            yield Touch(ref.root().buffer.name, None, writes=False)
        if self._tiling.near:
            yield Touch(f"{product.left.root().buffer.name}_near", None, writes=False)

    def _of_ref(self, ref: Ref, dims: Hashable, warp: Hashable, loop: Loop, *, writes: bool) -> Iterator[Touch]:
        root, mapped = ref.root(), self._division.mapped[loop]
        if root.buffer.place is Place.PRODUCT and self._tiling.units is not None:
            yield Touch(root.buffer.name, None, writes, turns=True)
        elif root.buffer in self._places.own:
            if dims is None:
                yield Touch(root.buffer.name, None, writes, warp=warp)
                return
            own = self._division.at_hand(ref, mapped)
            if own is not None:
                yield Touch(root.buffer.name, (mapped, self._widths[loop], own.strides, own.offset), writes, warp=warp)

    def _has_warps(self, loop: Loop) -> bool:
        """Whether each row has a warp, and each of the row's units in the block a lane."""
        units, mapped, tiling = self._tiling.units, self._division.mapped[loop], self._tiling
        if units is None or units.each != LANES or tiling.rows > tiling.warps or self._widths[loop] > 1:
            return False
        alone = any(not isinstance(each, Compute | Reduce) for each in loop.statements)
        return mapped.dims == (units.count,) and mapped.unit == 0 and not mapped.kept and not alone
