"""Prints a pointwise loop whose threads move neighbouring elements at once: vectors, 16 bytes of most values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from textwrap import indent

import torch

from unspool.engine.emit.cuda.loop.division import Mapped
from unspool.engine.emit.cuda.loop.printer.indices import index_lines
from unspool.engine.emit.cuda.loop.printer.loops import LANES, LoopText
from unspool.engine.emit.cuda.loop.printer.places import Places
from unspool.engine.emit.stages.passes import Loop
from unspool.engine.emit.stages.statements import Compute
from unspool.engine.emit.stages.strided import Buffer, Place, Ref
from unspool.engine.emit.text.elements import index_text
from unspool.engine.emit.text.spelling import COMPUTED, TYPES, literal, loaded

BYTES = 16
"""That one instruction moves."""
WIDEST = 8
"""Elements of a vector."""
AHEAD = 8
"""Vectors of a thread that are on their way from memory at the same time, unless a loop reads more."""


def vector_width(places: Places, loop: Loop) -> int:
    """How many elements of its innermost dimension a loop takes at a time; 1 if some of them do not lie so."""
    mapped = places.division.mapped[loop]
    pointwise = all(isinstance(each, Compute) and not each.adds for each in loop.statements)
    if not pointwise or not mapped.dims:
        return 1
    read = [_seen(ref, mapped) for ref in places.division.reads(loop)]
    written = [_seen(each.target, mapped) for each in loop.statements if _has_memory(each.target.root().buffer, places)]
    moved = [ref for ref in read if ref.strides[-1]] + written
    sizes = {ref.buffer.dtype.itemsize for ref in moved} - {1}  # bytes come along
    width = min(WIDEST, BYTES // min(sizes, default=BYTES // WIDEST))
    while width > 1 and not (mapped.dims[-1] % width == 0 and all(_fits(ref, width) for ref in moved)):
        width //= 2
    return width


def _has_memory(buffer: Buffer, places: Places) -> bool:
    """Whether what a loop computes is stored anywhere."""
    return buffer.place is Place.EMITTED or buffer in places.own


def _seen(ref: Ref, mapped: Mapped) -> Ref:
    """Elements over all dimensions of a loop."""
    seen = ref.root().reshape(mapped.dims)
    assert seen is not None
    return seen


def _fits(ref: Ref, width: int) -> bool:
    """Whether all vectors of so many elements begin at multiples of their size."""
    apart = [stride for size, stride in zip(ref.shape[:-1], ref.strides[:-1], strict=True) if size > 1]
    return ref.strides[-1] == 1 and not any(each % width for each in (*apart, ref.offset, ref.buffer.size))


class VectorText(LoopText):
    """Prints one loop of a pass, a vector at a time; all that is read is on its way before anything is computed.

    Args:
        places: where its values are, all of which begin at multiples of 16 bytes.
        loop: the loop.
        number: which one of a step's.
    """

    def __init__(self, places: Places, loop: Loop, number: int = 0) -> None:
        super().__init__(places, loop, number)
        self._width = vector_width(places, loop)
        self._dims = (*self.mapped.dims[:-1], self.mapped.dims[-1] // self._width)
        self._read: list[tuple[Ref, str]] = []
        self._from: dict[str, str] = {}
        """Lines that say where what it reads of its row is."""
        self._to: dict[str, str] = {}
        """And what it writes."""
        self._loads: list[str] = []
        self._elements: list[str] = []
        """Lines that take elements out of their vectors: halves are converted once."""
        self._made: list[str] = []
        """Lines that declare what it writes."""

    def text(self) -> str:
        """The loop and what is in it."""
        lines = "".join(self._lines())
        lines = "".join(self._elements) + lines
        count = math.prod(self._dims)
        most = -(-self.places.tiling.rows * count // (LANES * self.places.tiling.warps))
        turns = max(1, min(most, AHEAD // max(1, len(self._read))))
        head = f"#pragma unroll\nfor (int turn = 0; turn < {turns}; turn++) {{\n"
        item = "const int item = begin + turn * THREADS + unspool::thread();\n"
        text = "".join(f"{kind} {name}[{turns}];\n" for kind, name in self._kinds())
        if self._read:
            own = f"const int own = item < step.rows * {count} ? item : 0;\n{self._index('own')}"
            text += head + indent("".join([item, own, *self._from.values(), *self._loads]), "  ") + "}\n"
        own = f"if (item >= step.rows * {count}) break;\n{self._index('item')}"
        each = f"#pragma unroll\nfor (int v = 0; v < {self._width}; v++) {{\n{indent(lines, '  ')}}}\n"
        body = [item, own, *self._to.values(), *self._made, each, self._stored()]
        text += head + indent("".join(body), "  ") + "}\n"
        head = f"for (int begin = 0; begin < step.rows * {count}; begin += {turns} * THREADS) {{\n"
        return head + indent(text, "  ") + "}\n"

    def _index(self, item: str) -> str:
        """Lines that say where a vector begins: in which row, and at which indices."""
        count = math.prod(self._dims)
        indices = index_lines(self._dims, f"{item} % {count}").removesuffix(";\n")
        return f"const int r = {item} / {count}, row = r;\n{indices} * {self._width};\n"

    # -- elements ------------------------------------------------------------------------------------------------------

    def read(self, ref: Ref, dtype: torch.dtype | None = None) -> str:
        """An element that the loop reads, of those that it has fetched."""
        if ref.buffer.place is Place.CONSTANT:
            return literal(ref.buffer.number, dtype or ref.buffer.dtype)
        if ref.buffer.place is Place.COUNTED:
            return f"int64_t({self._at(ref, ' + v')})"
        if (name := self._registers.find(ref)) is not None:
            return name
        return next((f"{name}_at" for known, name in self._read if known.same_elements(ref)), "") or self._fetch(ref)

    def _fetch(self, ref: Ref) -> str:
        """Notes down that elements are read; the variable that has one of them."""
        buffer = ref.root().buffer
        name = f"{buffer.name}_now{len(self._read)}"
        self._read.append((ref, name))
        place = self._address(ref, self._from)
        how = "read" if self.places.division.is_given(buffer) else "recall"
        many = self._is_vector(ref)
        self._loads.append(f"unspool::{how}({name}[turn], {place});\n" if many else f"{name}[turn] = *({place});\n")
        element = loaded(f"{name}[turn].at[v]" if many else f"{name}[turn]", buffer.dtype)
        self._elements.append(f"const {COMPUTED[buffer.dtype]} {name}_at = {element};\n")
        return f"{name}_at"

    def _write(self, ref: Ref, value: str, guard: str, dims: int | None = None) -> str:
        """The line that puts an element into its vector, which is stored when it is full."""
        buffer = ref.root().buffer
        if not _has_memory(buffer, self.places):
            return ""
        name = f"{buffer.name}_made{len(self._made)}"
        self._made.append(f"{self._vector(buffer)} {name};\n")
        self._stores.append(f"unspool::write({self._address(ref, self._to)}, {name});\n")
        return f"{name}.at[v] = {value};\n"

    def _address(self, ref: Ref, pointers: dict[str, str]) -> str:
        """Where a vector of elements begins; what that needs is among these lines."""
        text = self.element(ref.root().buffer, self._at(ref))
        pointers.update(self.pointers)
        self.pointers.clear()
        return f"&{text}"

    def _kinds(self) -> Iterator[tuple[str, str]]:
        """The types of what is read, and its names."""
        for ref, name in self._read:
            buffer = ref.root().buffer
            yield self._vector(buffer) if self._is_vector(ref) else TYPES[buffer.dtype], name

    def _vector(self, buffer: Buffer) -> str:
        return f"unspool::Vector<{TYPES[buffer.dtype]}, {self._width}>"

    def _is_vector(self, ref: Ref) -> bool:
        """Whether it has an element for each of a vector, not one for all of them."""
        return bool(_seen(ref, self.mapped).strides[-1])

    def _at(self, ref: Ref, further: str = "") -> str:
        """Where a vector of elements begins in its row, or one of them is."""
        seen = _seen(ref, self.mapped)
        names = [f"i{k}" for k in range(len(seen.shape))]
        if further:
            names[-1] = f"({names[-1]}{further})"
        return index_text(seen, names)
