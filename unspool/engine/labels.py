"""Where the rows of a batch are in the result of an operation."""

from __future__ import annotations

from dataclasses import dataclass


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
    """Rows meet each other, or nobody knows whether they do; the text goes on after the operation's name."""
