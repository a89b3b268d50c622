"""How words lie: what one thread computes of a unit lies side by side, and is posted at once."""

from __future__ import annotations

from collections.abc import Iterator

from unspool.engine.emit.cuda.loop.division import Division
from unspool.engine.emit.cuda.loop.lowered import Lowered
from unspool.engine.emit.stages.passes import Loop
from unspool.engine.emit.stages.statements import Compute
from unspool.engine.emit.stages.strided import Buffer, Place, Ref

POSTED = (4, 8, 16)
"""Bytes that one lane posts at once."""


def woven(lowered: Lowered, division: Division) -> dict[Buffer, int]:
    """Buffers whose numbers of a unit lie side by side among their words, and how many these are.

    That is so where only products read them, whose matrices are then read in the same order.
    """
    if division.units is None:
        return {}
    found: dict[Buffer, int] = {}
    for buffer in division.crossing:
        turns = buffer.size // division.units.count
        at_once = turns > 1 and turns * buffer.dtype.itemsize in POSTED and buffer.dtype.itemsize <= 4
        if at_once and buffer.place is Place.SCRATCH and _is_multiplied(buffer, lowered, division):
            writers = [(loop, each) for loop in division.mapped for each in _writers(loop, buffer)]
            whole = {loop for loop, _ in writers}
            places = [_turn(each.target, division, loop) for loop, each in writers]
            if len(whole) == 1 and sorted(-1 if each is None else each for each in places) == [*range(turns)]:
                found[buffer] = turns
    return found


def turn(ref: Ref, count: int) -> int:
    """Which of a unit's numbers an element is."""
    return ref.root().offset // count


def _is_multiplied(buffer: Buffer, lowered: Lowered, division: Division) -> bool:
    lefts = [each.left.root() for each in lowered.products if each.left.root().buffer is buffer]
    read = any(ref.root().buffer is buffer for loop in division.mapped for ref in division.reads(loop))
    return not read and all(each.offset == 0 and each.size == buffer.size for each in lefts)


def _writers(loop: Loop, buffer: Buffer) -> Iterator[Compute]:
    for each in loop.statements:
        if each.target.root().buffer is buffer and isinstance(each, Compute):
            yield each


def _turn(ref: Ref, division: Division, loop: Loop) -> int | None:
    """Which turn of all units a target is; None if it is none."""
    assert division.units is not None
    count, mapped = division.units.count, division.mapped[loop]
    seen = ref.root().reshape(mapped.dims)
    if mapped.unit is None or mapped.dims != (count,) or seen is None or seen.strides != (1,) or seen.offset % count:
        return None
    return seen.offset // count
