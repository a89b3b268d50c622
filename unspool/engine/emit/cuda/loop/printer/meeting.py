"""Where the threads of a block have to meet: between what one writes and another reads, or overwrites."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Touch:
    """Memory of a block that a part of a step reads or writes.

    Args:
        what: the memory.
        how: by which thread each element; None if that is not known. The same way means the same threads.
        writes: whether it is written.
        turns: whether it is another memory at every other step.
    """

    what: Hashable
    how: Hashable
    writes: bool
    turns: bool = False


def meetings(parts: Sequence[Sequence[Touch]]) -> list[bool]:
    """Whether threads have to meet before each part of a step, which comes again and again.

    >>> write, read, other = Touch("h", "by unit", True), Touch("h", "by unit", False), Touch("h", None, False)
    >>> meetings([[write], [read]]), meetings([[write], [other]])
    ([False, False], [True, True])
    """
    found = [False] * len(parts)
    while (at := _missing(parts, found)) is not None:
        found[at] = True
    return found


def _missing(parts: Sequence[Sequence[Touch]], found: Sequence[bool]) -> int | None:
    since: list[tuple[Touch, int]] = []
    for turn in range(4):
        for at, touches in enumerate(parts):
            if found[at]:
                since.clear()
            if any(_conflict(one, before, other, turn) for one, before in since for other in touches):
                return at
            since += [(each, turn) for each in touches]
    return None


def _conflict(one: Touch, before: int, other: Touch, turn: int) -> bool:
    if one.what != other.what or not (one.writes or other.writes):
        return False
    if one.turns and (turn - before) % 2:
        return False
    return one.how is None or one.how != other.how
