"""Streamed values that wait in shared memory: copied there some steps ahead, while the block computes others.

A block that has all units of its rows waits for nobody, so a step takes it less time than memory does. Its rows of a
step lie side by side, so that they are copied 16 bytes at a time, by threads that need not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import indent

from unspool.engine.emit.cuda.loop.division import Division
from unspool.engine.emit.cuda.loop.tiles import Tiling
from unspool.engine.emit.stages.strided import Buffer, Place, Ref
from unspool.engine.emit.text.spelling import TYPES

COPIED = 16
"""Bytes that are copied at once."""
LEAST, MOST = 4, 8
"""Steps that there is room for: that of now, that which arrives before it begins, and those on their way."""
RING_BYTES = 80 << 10
"""What they may take."""


class Ring:
    """The streamed values that a block with all units of its rows copies ahead.

    Args:
        division: who reads what.
        tiling: how many rows a block has.
        free: bytes of shared memory that are left.
        take: takes room there, for something of that name, of so many bytes; returns where.
    """

    def __init__(self, division: Division, tiling: Tiling, free: int, take: Callable[[str, int], int]) -> None:
        self._rows = tiling.rows
        read = [ref.root().buffer for loop in division.mapped for ref in division.reads(loop)] if tiling.alone else []
        streamed = dict.fromkeys(each for each in read if each.place is Place.STREAMED)
        sizes = {each: _row_bytes(each) * tiling.rows for each in streamed if _row_bytes(each) % COPIED == 0}
        self.steps = min(MOST, min(RING_BYTES, free) // sum(sizes.values())) if sizes else 0
        if self.steps < LEAST:
            sizes.clear()
        self._places = {each: take(_name(each), self.steps * size) for each, size in sizes.items()}

    def __bool__(self) -> bool:
        return bool(self._places)

    def row(self, buffer: Buffer) -> tuple[str, str]:
        """The name of a row's values of this step, and the line that finds them."""
        name = f"{_name(buffer)}_row"
        place = f"slot * {self._rows * buffer.size} + r * {buffer.size}"
        return name, f"const {TYPES[buffer.dtype]}* const {name} = {_name(buffer)} + {place};\n"

    def begins(self, all_of: Callable[[Buffer], str]) -> str:
        """Lines in front of the loop over steps: the first steps are on their way, and one has arrived.

        Args:
            all_of: the name of the values of all rows and steps.
        """
        return "".join(self._begins(all_of))

    def _begins(self, all_of: Callable[[Buffer], str]) -> Iterator[str]:
        body = f"const unspool::Step step(chunk, k, first, {self._rows});\n"
        body += f"const int slot = (k - steps.begin) % {self.steps};\n"
        for each, place in self._places.items():
            kind, name = TYPES[each.dtype], _name(each)
            yield f"{kind}* const {name} = ({kind}*)(memory + {place});\n"
            to, source = f"{name} + slot * {self._rows * each.size}", f"{all_of(each)} + step.start * {each.size}"
            body += f"unspool::copy_ahead<{self._rows}, {_row_bytes(each)}>(copies, {to}, {source}, step.rows);\n"
        yield "unspool::Copies copies;\n"
        yield "const auto send_for = [&](int k) {\n"
        yield indent(f"if (k < steps.end) {{\n{indent(body, '  ')}}}\ncopies.commit();\n", "  ")
        yield "};\n"
        yield f"for (int k = 0; k < {self.steps - 1}; k++) send_for(steps.begin + k);\n"
        yield f"copies.wait<{self.steps - 2}>();\nunspool::sync_block();\n"

    def moves(self) -> str:
        """Lines of every step, where nobody reads the step before any more: the next one will be there."""
        return f"send_for(k + {self.steps - 1});\ncopies.wait<{self.steps - 2}>();\n"

    def has(self, ref: Ref) -> bool:
        """Whether elements wait here."""
        return ref.root().buffer in self._places


def _row_bytes(buffer: Buffer) -> int:
    return buffer.size * buffer.dtype.itemsize


def _name(buffer: Buffer) -> str:
    return f"{buffer.name}_ring"
