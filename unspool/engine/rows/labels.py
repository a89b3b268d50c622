"""Labels of values: rows on an axis, the same for all rows, or summed over rows."""

from __future__ import annotations

from dataclasses import dataclass

from unspool.engine.reasons import Code


@dataclass(frozen=True)
class Axis:
    """The rows lie along one axis, of size `outer * rows * inner`."""

    index: int
    outer: int = 1
    inner: int = 1


@dataclass(frozen=True)
class Shared:
    """The same for all rows."""


@dataclass(frozen=True)
class Summed:
    """A sum over all rows, and what is linear in such sums: gradients of weights."""


Label = Axis | Shared | Summed
SHARED, SUMMED = Shared(), Summed()


class MixedError(Exception):
    """An operation mixes rows, or has no rule; the message is to be appended to its name."""

    def __init__(self, message: str, code: Code = Code.MIXED_ROWS) -> None:
        super().__init__(message)
        self.code = code
