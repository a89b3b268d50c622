"""Prints loops whose threads move neighbouring elements at once: vectors, 16 bytes of most values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import indent
from typing import Any

import torch

from unspool.engine.emit.cuda.loop.division import Mapped
from unspool.engine.emit.cuda.loop.printer.folding import FoldText
from unspool.engine.emit.cuda.loop.printer.loops import LANES, LoopText
from unspool.engine.emit.cuda.loop.printer.places import Places
from unspool.engine.emit.stages.passes import Loop
from unspool.engine.emit.stages.statements import Compute, InLoop, Reduce
from unspool.engine.emit.stages.strided import Buffer, Place, Ref
from unspool.engine.emit.text.elements import index_lines, index_text
from unspool.engine.emit.text.folds import is_place, variables_of_fold
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
    if not all(map(_goes_by_elements, loop.statements)) or len(mapped.dims) == mapped.kept:
        return 1
    made = [each.target for each in loop.statements if isinstance(each, Compute)]
    folds = len(made) < len(loop.statements)
    own = {ref.root().buffer for ref in places.division.reads(loop)}.intersection(places.own)
    if folds and any(ref.root().buffer in own for ref in made):  # lanes of a fold without a vector read another's
        return 1
    read = [_seen(ref, mapped) for ref in places.division.reads(loop)]
    written = [_seen(ref, mapped) for ref in made if _has_memory(ref.root().buffer, places)]
    moved = [ref for ref in read if ref.strides[-1]] + written
    sizes = {ref.buffer.dtype.itemsize for ref in moved} - {1}  # bytes come along
    width = min(WIDEST, BYTES // min(sizes, default=BYTES // WIDEST))
    while width > 1 and not (mapped.dims[-1] % width == 0 and all(_fits(ref, width) for ref in moved)):
        width //= 2
    return width


def _goes_by_elements(each: InLoop) -> bool:
    """Whether a statement computes elements, or folds them in any order."""
    return not each.adds if isinstance(each, Compute) else isinstance(each, Reduce) and not is_place(each)


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


class _InVectors(LoopText):
    """A loop whose elements are those of vectors, all of which begin at multiples of 16 bytes."""

    def __init__(self, places: Places, loop: Loop, number: int = 0, width: int = 1, *others: Any) -> None:
        super().__init__(places, loop, number, width, *others)  # what a fold has besides
        self._read: list[tuple[Ref, str]] = []
        self._ahead: list[str] = []
        """Lines that declare what is read of rows, before anything is computed, for so many turns."""
        self._from: dict[str, str] = {}
        """Lines that say where what it reads of its row is."""
        self._to: dict[str, str] = {}
        """And what it writes."""
        self._loads: list[str] = []
        self._elements: list[str] = []
        """Lines that take elements out of their vectors: halves are converted once."""
        self._made: list[str] = []
        """Lines that declare what it writes, and read what all rows share, which is near."""

    def _by_element(self) -> str:
        """What is done with each element of vectors that have been read."""
        lines = "".join(self._lines())
        lines = "".join(self._elements) + lines
        return f"#pragma unroll\nfor (int v = 0; v < {self._width}; v++) {{\n{indent(lines, '  ')}}}\n"

    def _at_once(self, vectors: int) -> int:
        """Of so many vectors of a thread, how many are on their way from memory at the same time: as many each time."""
        most = max(1, AHEAD // max(1, len(self._ahead)))
        return -(-vectors // -(-vectors // most))

    def _arrays(self, turns: int) -> str:
        """Lines that declare what is read of rows."""
        return "".join(f"{each}[{turns}];\n" for each in self._ahead)

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
        many, near = self._is_vector(ref), buffer.place is Place.SHARED
        place = self._address(ref, self._to if near else self._from)
        how = "read" if self.places.division.is_given(buffer) else "recall"
        kind, own = self._vector(ref) if many else TYPES[buffer.dtype], name if near else f"{name}[turn]"
        load = f"unspool::{how}({own}, {place});\n" if many else f"{own} = *({place});\n"
        if near:
            self._made.append(f"{kind} {name};\n{load}")
        else:
            self._ahead.append(f"{kind} {name}")
            self._loads.append(load)
        element = loaded(f"{own}.at[v]" if many else own, buffer.dtype)
        self._elements.append(f"const {COMPUTED[buffer.dtype]} {name}_at = {element};\n")
        return f"{name}_at"

    def _write(self, ref: Ref, value: str, guard: str, dims: int | None = None) -> str:
        """The line that puts an element into its vector, which is stored when it is full."""
        buffer = ref.root().buffer
        if dims is not None:  # what is folded
            return super()._write(ref, value, guard, dims)
        if not _has_memory(buffer, self.places):
            return ""
        name = f"{buffer.name}_made{len(self._stores)}"
        self._made.append(f"{self._vector(ref)} {name};\n")
        self._stores.append(f"unspool::write({self._address(ref, self._to)}, {name});\n")
        return f"{name}.at[v] = {value};\n"

    def _address(self, ref: Ref, pointers: dict[str, str]) -> str:
        """Where a vector of elements begins; what that needs is among these lines."""
        text = self.element(ref.root().buffer, self._at(ref))
        pointers.update(self.pointers)
        self.pointers.clear()
        return f"&{text}"

    def _vector(self, ref: Ref) -> str:
        """The type of a vector."""
        return f"unspool::Vector<{TYPES[ref.root().buffer.dtype]}, {self._width}>"

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


class VectorText(_InVectors):
    """Prints a pointwise loop, a vector at a time; all that is read is on its way before anything is computed.

    Args:
        places: where its values are.
        loop: the loop.
        number: which one of a step's.
        width: elements of a vector.
    """

    def text(self) -> str:
        """The loop and what is in it."""
        each, dims = self._by_element(), (*self.mapped.dims[:-1], self.mapped.dims[-1] // self._width)
        count = math.prod(dims)
        turns = self._at_once(-(-self.places.tiling.rows * count // (LANES * self.places.tiling.warps)))
        head = f"#pragma unroll\nfor (int turn = 0; turn < {turns}; turn++) {{\n"
        item = "const int item = begin + turn * THREADS + unspool::thread();\n"
        text = self._arrays(turns)
        if self._loads:
            own = f"const int own = item < step.rows * {count} ? item : 0;\n{self._index(dims, 'own')}"
            text += head + indent("".join([item, own, *self._from.values(), *self._loads]), "  ") + "}\n"
        own = f"if (item >= step.rows * {count}) break;\n{self._index(dims, 'item')}"
        body = [item, own, *self._to.values(), *self._made, each, self._stored()]
        text += head + indent("".join(body), "  ") + "}\n"
        head = f"for (int begin = 0; begin < step.rows * {count}; begin += {turns} * THREADS) {{\n"
        return head + indent(text, "  ") + "}\n"

    def _index(self, dims: Sequence[int], item: str) -> str:
        """Lines that say where a vector begins: in which row, and at which indices."""
        count = math.prod(dims)
        indices = index_lines(dims, f"{item} % {count}").removesuffix(";\n")
        return f"const int r = {item} / {count}, row = r;\n{indices} * {self._width};\n"


class VectorFoldText(_InVectors, FoldText):
    """Prints a loop in which elements are folded; a lane reads vectors of neighbouring ones.

    Args:
        places: where its values are.
        loop: the loop.
        number: which one of a step's.
        width: elements of a vector.
        after: a loop that goes on with what it has folded.
    """

    @property
    def _vectors(self) -> int:
        """Of a row."""
        return self._terms // self._width

    @property
    def _turns(self) -> int:
        """Nothing is read before the loop: all of a row is on its way at once."""
        return 0

    def text(self) -> str:
        """The loop and what is in it."""
        each, stores = self._by_element(), self._stored()
        starts = "".join(map(variables_of_fold, self._folds))
        ends, _ = self._ends()  # nobody else folds this row
        turns = self._at_once(self._each)
        head = f"#pragma unroll\nfor (int turn = 0; turn < {turns}; turn++) {{\n"
        term = self._term("(at + turn)")
        read = head + indent("".join([term, *self._from.values(), *self._loads]), "  ") + "}\n" if self._loads else ""
        there = f"const bool there = here && {self._place('(at + turn)')} < {self._vectors};\n"
        made = [there, term, *self._to.values(), *self._made, each]
        made += [f"if (there) {{\n{indent(stores, '  ')}}}\n"] if stores else []
        inner = self._arrays(turns) + read + head + indent("".join(made), "  ") + "}\n"
        inner = f"for (int at = 0; at < {self._each}; at += {turns}) {{\n{indent(inner, '  ')}}}\n"
        row = "".join(self.pointers.values())
        return self._for_rows(row + starts + inner + ends)

    def _term(self, at: str) -> str:
        """Lines that say where a lane's vector begins; one without reads the last, which nobody writes meanwhile."""
        place, last = self._place(at), self._vectors - 1
        line = f"const int term = ({place} < {last} ? {place} : {last}) * {self._width};\n"
        return line + index_lines(self._folded, "term", len(self._kept))
