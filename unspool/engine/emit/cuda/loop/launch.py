"""A kernel, compiled, and the recipe of its launches: what is the same for all chunks is found once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from unspool.engine.emit.cuda.loop.ended import Space
from unspool.engine.emit.cuda.loop.machine import Machine
from unspool.engine.emit.cuda.loop.packing import pack
from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.printer.ring import COPIED
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.protocol import Chunk, Results
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.program import Value

ALIGNED = 256
"""Bytes, of each value's words."""
MATRIX = 1
GROUPS = ("shared", "matrix", "streamed", "carried", "kept", "emitted")
"""What a kernel is given the addresses of, besides words."""
WORDS, TRANSPOSED = len(GROUPS), len(GROUPS) + 1
"""The numbers of two more groups: words, and whether matrices lie by columns."""
COUNTED = 1 << 31
"""What 32 bits do not count."""
Prepared = tuple[Sequence[Tensor], Sequence[Tensor]]
"""The first two of these, which are the same for all chunks of a call."""


@dataclass(frozen=True)
class Words:
    """Where the words of one value are among all words: a row has so many bytes.

    Args:
        row_bytes: of one row and step.
        crossing: whether there is one step more, before the first.
    """

    row_bytes: int
    crossing: bool

    def size(self, total: int, rows: int) -> int:
        """Bytes, for so many rows in all steps and in the first one."""
        return -(-(total + rows * self.crossing) * self.row_bytes // ALIGNED) * ALIGNED


class Kernel:
    """A kernel for one tiling.

    Args:
        text: its text.
        machine: what runs it.

    Raises:
        CannotEmitError: if it cannot be compiled, or its blocks would not be there at the same time.
    """

    def __init__(self, text: KernelText, machine: Machine) -> None:
        core = text.lowered.core
        self.text, self._core, self._machine, self._device = text, core, machine, machine.device
        self.function = machine.compile(text)
        self._threads, self._shared_bytes, self._tiles = text.threads, text.places.shared.size, text.tiles
        self.resident = machine.resident(self.function, text.threads, self._shared_bytes, text.tiling.cluster)
        if self.resident < text.tiles:
            raise CannotEmitError(f"{text.tiles} blocks have a row together, and {self.resident} fit on the device")
        self._most = self.resident // text.tiles
        self._scratch, self._rows = text.tiles * text.places.scratch.size, text.tiling.rows
        self._in_front = not any(each.axis for each in (*core.streamed, *core.emitted))
        self._nowhere: Sequence[Tensor | None] = (None,) * len(core.emitted)
        changed = {each.index for each in text.lowered.changed}
        self._changed = [index in changed for index in range(len(core.carried))]
        self._words = [
            *(Words(each.size * each.dtype.itemsize, crossing=True) for each in text.crossing),
            *(
                Words(count * text.tiles * fold.target.buffer.dtype.itemsize, crossing=False)
                for fold, count in text.places.folds
            ),
        ]
        groups = (*GROUPS, "words", "transposed")
        first = {"words": 0, "folds": len(text.crossing)}
        self._given = [
            (WORDS, first[each.kind] + each.index) if each.kind in first else (groups.index(each.kind), each.index)
            for each in text.places.given
        ]
        """The group of each address or flag that it is handed, and the place there."""

    def overflows(self, counts: Counts) -> bool:
        """Whether a chunk has more elements of some value than its indices count."""
        return not self.text.wide and (counts.total + counts[0]) * self.text.widest >= COUNTED

    def prepare(self, shared: Sequence[Tensor]) -> Prepared:
        """What is the same for all chunks of a call, as it takes it: shared values, and matrices."""
        text, own = self.text, list(shared)
        for each in text.places.given:
            if each.kind == "shared":
                own[each.index] = own[each.index].contiguous()
        return own, [pack(each, shared, text.places) for each in text.products]

    def run(self, prepared: Prepared, chunk: Chunk, trouble: int) -> Results:
        """Runs every step of a chunk.

        Args:
            prepared: what `prepare` returned.
            chunk: the steps.
            trouble: the address of what it reports.
        """
        core, counts, device = self._core, chunk.counts, self._device
        streamed = [each.contiguous() for each in (chunk.streamed if self._in_front else self._moved(chunk.streamed))]
        if self.text.places.ring:
            streamed = [each if each.data_ptr() % COPIED == 0 else each.clone() for each in streamed]
        carried = [each.contiguous() for each in chunk.carried]
        kept = [torch.empty_like(each) if new else each for each, new in zip(carried, self._changed, strict=True)]
        targets, space = chunk.into or self._nowhere, None
        if chunk.running is None:
            emitted = [
                target
                if target is not None and _can_take(target, like)
                else torch.empty((counts.total * like.times, *like.shape), dtype=like.dtype, device=device)
                for target, like in zip(targets, core.emitted, strict=True)
            ]
        else:  # not every row will be written
            targets, space = self._nowhere, Space(core.emitted, chunk, ALIGNED, device)
            emitted = space.values
        words = self._empty_words(counts.total, counts[0])
        self._launch(chunk, (*prepared, streamed, carried, kept, emitted), words, trouble)
        emitted = emitted if space is None else space.finished()
        if targets is self._nowhere and self._in_front:
            return kept, emitted
        return kept, [_as_wanted(*each) for each in zip(emitted, core.emitted, targets, strict=True)]

    def _moved(self, streamed: Sequence[Tensor]) -> list[Tensor]:
        return [each.movedim(like.axis, 0) for each, like in zip(streamed, self._core.streamed, strict=True)]

    def _launch(self, chunk: Chunk, operands: Sequence[Sequence[Tensor]], words: Tensor | None, trouble: int) -> None:
        """One launch; where blocks may have to wait for each other, of as many groups of rows at a time as fit."""
        counts, rows, together = chunk.counts, chunk.counts[0], self.text.together
        groups = -(-rows // self._rows)
        teams = min(groups, self._most) if together else groups
        if not teams:
            return
        scratch = self._bytes(teams * self._scratch)
        running, starts = self._counts(chunk)
        places = [] if words is None else self._places(words.data_ptr(), counts.total, rows)
        told = [len(counts), int(chunk.reverse), rows, teams, counts.total]
        told += [_address(running), _address(starts), trouble, _address(scratch)]
        for group, k in self._given:
            if group < WORDS:
                told.append(operands[group][k].data_ptr())
            else:
                told.append(places[k] if group == WORDS else int(not operands[MATRIX][k].is_contiguous()))
        if not self._given:
            told.append(0)
        blocks = teams * self._tiles
        self._machine.launch(self.function, told, blocks, self._threads, self._shared_bytes, together=together)

    def _empty_words(self, total: int, rows: int) -> Tensor | None:
        """Words for so many rows in all steps and in the first one, all of them empty: all ones, eight bytes each."""
        if not self._words:
            return None
        size = sum([each.size(total, rows) for each in self._words])
        return torch.full((size // 8,), -1, dtype=torch.int64, device=self._device) if size else None

    def _places(self, first: int, total: int, rows: int) -> list[int]:
        """The addresses of the words of each value."""
        return list(accumulate([each.size(total, rows) for each in self._words], initial=first))

    def _bytes(self, size: int) -> Tensor | None:
        return torch.empty(size, dtype=torch.uint8, device=self._device) if size else None

    def _counts(self, chunk: Chunk) -> tuple[Tensor | None, Tensor | None]:
        """How many rows each step has, if that differs, and where they begin, if there is no room for the others."""
        counts = chunk.counts
        if chunk.running is not None:
            return chunk.running, None
        if counts[0] == counts[-1]:
            return None, None
        return self._machine.numbers(counts), self._machine.numbers(counts.starts)


def _can_take(target: Tensor, like: Value) -> bool:
    return like.axis == 0 and target.dtype == like.dtype and target.is_contiguous()


def _as_wanted(own: Tensor, like: Value, target: Tensor | None) -> Tensor:
    if own is target:
        return own
    found = own.movedim(0, like.axis) if like.axis else own
    return found if target is None else target.copy_(found)


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
