"""Where the threads of a block have to meet: between what one writes and another reads, or overwrites."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import IntEnum


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
