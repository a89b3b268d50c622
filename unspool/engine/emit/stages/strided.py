"""Strided references: buffers of a row, and views of them by shape, strides and offset."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch


class Place(Enum):
    """Whose memory a buffer is."""

    CARRIED = "carried"
    STREAMED = "streamed"
    SHARED = "shared"
    EMITTED = "emitted"
    SUMMED = "summed"
    """A sum over rows."""
    PRODUCT = "product"
    """The result of a matrix product: scratch that several workers may write to."""
    SCRATCH = "scratch"
    CONSTANT = "constant"
    """No memory at all: one number."""
    COUNTED = "counted"
    """No memory at all: 0, 1, 2, ..., of which a reference is an element's place."""

    @property
    def is_memory(self) -> bool:
        """Whether there is something to read from."""
        return self not in (Place.CONSTANT, Place.COUNTED)


@dataclass(eq=False)
class Buffer:
    """The memory of one row.

    Args:
        name: its name in the emitted code.
        dtype: of its elements.
        size: how many there are.
        place: whose memory it is.
        index: which of the carried, streamed, shared or emitted values it is.
        number: the number that a constant is.
        home: the part of another buffer that it is, if it has no memory of its own.
        by_all: whether all workers write to it, since it is emitted by a product.
    """

    name: str
    dtype: torch.dtype
    size: int
    place: Place = Place.SCRATCH
    index: int = 0
    number: bool | int | float = 0
    home: Ref | None = None
    by_all: bool = False


@dataclass(frozen=True)
class Ref:
    """A strided view of a buffer."""

    buffer: Buffer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @classmethod
    def whole(cls, buffer: Buffer, shape: Sequence[int]) -> Ref:
        """All of a buffer, in order."""
        return cls(buffer, tuple(shape), contiguous(shape))

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its buffer, in order."""
        return self.offset == 0 and self.size == self.buffer.size and self.is_contiguous

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements lie one after another."""
        expected = contiguous(self.shape)
        pairs = zip(self.shape, self.strides, expected, strict=True)
        return all(size == 1 or stride == right for size, stride, right in pairs)

    @property
    def squeezed(self) -> Ref:
        """Without the dimensions of size one."""
        if 1 not in self.shape:
            return self
        kept = [k for k, size in enumerate(self.shape) if size != 1]
        return self._seen(tuple([self.shape[k] for k in kept]), tuple([self.strides[k] for k in kept]))

    def _seen(self, shape: tuple[int, ...], strides: tuple[int, ...], further: int = 0) -> Ref:
        """Other elements of the buffer. A step has thousands of views, and `replace` takes four times as long."""
        return Ref(self.buffer, shape, strides, self.offset + further)

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last place in the buffer that it has elements in."""
        ways = [(size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)]
        return self.offset + sum(min(way, 0) for way in ways), self.offset + sum(max(way, 0) for way in ways)

    def root(self) -> Ref:
        """The same elements in the buffer that has the memory."""
        ref = self
        while ref.buffer.home is not None:
            home = ref.buffer.home  # contiguous, so that only the offset changes
            ref = Ref(home.buffer, ref.shape, ref.strides, home.offset + ref.offset)
        return ref

    def overlaps(self, other: Ref) -> bool:
        """Whether the two may have an element in common."""
        mine, theirs = self.root(), other.root()
        if mine.buffer is not theirs.buffer:
            return False
        (first, last), (begin, end) = mine.ends, theirs.ends
        return first <= end and begin <= last

    def same_elements(self, other: Ref) -> bool:
        """Whether a loop over both meets the same elements at the same time."""
        mine, theirs = self.root(), other.root()
        if mine.buffer is not theirs.buffer or mine.offset != theirs.offset:
            return False
        one, two = mine.squeezed, theirs.squeezed
        return one.shape == two.shape and one.strides == two.strides

    def narrow(self, dim: int, start: int, length: int, step: int = 1) -> Ref:
        """`length` entries of a dimension, from `start`; a negative step goes back from there."""
        dim %= len(self.shape)
        shape = (*self.shape[:dim], length, *self.shape[dim + 1 :])
        strides = (*self.strides[:dim], self.strides[dim] * step, *self.strides[dim + 1 :])
        return self._seen(shape, strides, start * self.strides[dim])

    def repeat(self, dim: int, times: int) -> Ref:
        """The first entry of a dimension, that often."""
        one = self.narrow(dim, 0, 1)
        return one.expand([times if k == dim % len(self.shape) else -1 for k in range(len(self.shape))])

    def select(self, dim: int, index: int) -> Ref:
        """One entry of a dimension, which is dropped."""
        dim %= len(self.shape)
        further = index % self.shape[dim] * self.strides[dim]
        return self._seen(_without(self.shape, dim), _without(self.strides, dim), further)

    def permute(self, dims: Sequence[int]) -> Ref:
        """The dimensions in another order."""
        return self._seen(tuple([self.shape[dim] for dim in dims]), tuple([self.strides[dim] for dim in dims]))

    def expand(self, shape: Sequence[int]) -> Ref:
        """Broadcast to `shape`; -1 leaves a size as it is."""
        added = len(shape) - len(self.shape)
        own, strides = (*[1] * added, *self.shape), (*[0] * added, *self.strides)
        sizes = tuple(size if want == -1 else want for size, want in zip(own, shape, strict=True))
        repeated = tuple(0 if size != want else stride for size, want, stride in zip(own, sizes, strides, strict=True))
        return self._seen(sizes, repeated)

    def reshape(self, shape: Sequence[int]) -> Ref | None:
        """The same elements in order under another shape; None if no strides can say that."""
        if not self.size:
            return self._seen(tuple(shape), contiguous(shape))
        own = self.squeezed
        strides: list[int] = []
        k, run, step = len(own.shape) - 1, 1, 1  # elements of the current dimension still to be given out
        for size in reversed(shape):
            if size == 1:
                strides.append(0)
                continue
            if run == 1:
                if k < 0:
                    return None
                run, step, k = own.shape[k], own.strides[k], k - 1
            # More than what is left of it: the next ones have to follow on without a gap.
            while run % size and k >= 0 and own.strides[k] == run * step:
                run, k = run * own.shape[k], k - 1
            if run % size:
                return None
            strides.append(step)
            run, step = run // size, step * size
        return self._seen(tuple(shape), tuple(reversed(strides)))


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of elements that lie one after another."""
    strides, step = list[int](), 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _without(items: tuple[int, ...], k: int) -> tuple[int, ...]:
    return (*items[:k], *items[k + 1 :])
