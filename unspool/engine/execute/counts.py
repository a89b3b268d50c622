"""Row counts: how many rows run at each step of a chunk, and where each step starts."""

from __future__ import annotations

from array import array
from functools import cached_property, lru_cache
from itertools import accumulate


class Counts(tuple[int, ...]):
    """The rows of each step, in order of time; they never grow.

    What follows from them is found once: most calls have the steps of the call before.

    >>> counts = Counts([3, 3, 1])
    >>> counts.total, list(counts.starts)
    (7, [0, 3, 6, 7])
    """

    @cached_property
    def total(self) -> int:
        """The rows of all steps."""
        return sum(self)

    @cached_property
    def starts(self) -> array[int]:
        """The rows of all steps before each, and at the end all rows."""
        return array("q", (0, *accumulate(self)))

    @cached_property
    def as_array(self) -> array[int]:
        """The same numbers where compiled code can read them."""
        return array("q", self)

    @cached_property
    def places(self) -> tuple[int, int]:
        """The addresses of both arrays, for compiled code."""
        return self.as_array.buffer_info()[0], self.starts.buffer_info()[0]

    @classmethod
    @lru_cache(maxsize=64)
    def of_step(cls, rows: int) -> Counts:
        """One step."""
        return cls((rows,))

    @classmethod
    @lru_cache(maxsize=64)
    def in_blocks(cls, rows: int, block: int) -> Counts:
        """So many rows, `block` at a time."""
        return cls([block] * (rows // block) + [rows % block] * (rows % block > 0))
