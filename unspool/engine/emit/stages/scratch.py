"""Assigns storage to a row's temporaries: registers, scratch of the row, or of a block of rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from unspool.engine.emit.stages.passes import Access, Stage, accesses
from unspool.engine.emit.stages.statements import ALONE, Reduce
from unspool.engine.emit.stages.strided import Buffer, Place

ALIGNED = 64
"""Bytes of a cache line."""


class Home:
    """Where scratch is: in a register, in the scratch of a row, or in that of a block of rows."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.row: dict[Buffer, None] = {}
        self.block: dict[Buffer, None] = {}
        every: dict[Buffer, list[Access]] = defaultdict(list)
        for access in accesses(stages):
            root = access.ref.root().buffer
            if root.place is Place.SCRATCH:
                every[root].append(access)
        for buffer, own in every.items():
            written = [access for access in own if access.writes]
            read = [access for access in own if not access.writes]
            alone = any(access.loop is not None and isinstance(access.loop.statements[0], ALONE) for access in written)
            if alone or any(not any(_in_register(one, other) for other in written) for one in read):
                crosses = len({access.stage for access in own}) > 1
                (self.block if crosses else self.row)[buffer] = None

    def is_scalar(self, buffer: Buffer) -> bool:
        """Whether a buffer is a variable of a row, and no memory."""
        return buffer.size == 1 and buffer in self.row

    def has_memory(self, buffer: Buffer) -> bool:
        """Whether what is computed for `buffer` has to be written."""
        return buffer.place is not Place.SCRATCH or buffer in self.row or buffer in self.block


def _in_register(read: Access, write: Access) -> bool:
    if read.loop is None or read.loop is not write.loop or not read.ref.same_elements(write.ref):
        return False
    return not any(isinstance(each, Reduce) and each.target is write.ref for each in read.loop.statements)


@dataclass(frozen=True)
class Scratch:
    """A record of memory for each row: where its buffers are, in bytes."""

    places: dict[Buffer, int]
    size: int

    @classmethod
    def of(cls, buffers: Sequence[Buffer], apart: int = 0) -> Scratch:
        """Room for `buffers`, each at the beginning of a cache line, so many bytes from the one before."""
        places, size = dict[Buffer, int](), 0
        for buffer in buffers:
            places[buffer] = size
            size += -(-buffer.size * buffer.dtype.itemsize // ALIGNED) * ALIGNED + apart
        return cls(places, size)
