"""Runs a core over chunks of steps by one kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.engine.emit.cuda.loop.lowered import lower
from unspool.engine.emit.cuda.loop.machine import Machine
from unspool.engine.emit.cuda.loop.packing import pack
from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.printer.places import Given
from unspool.engine.emit.cuda.loop.tiles import Limits, Tiling, row_class, tilings
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.protocol import Chunk, Results
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Value
from unspool.engine.reasons import Code, Reason

Made = TypeVar("Made")
ALIGNED = 256
"""Bytes, of each value's words."""
TOLD = 2
"""What an index out of range is, and where, has been written; `kTold` of native/steps.h."""


class Prepared(list[Tensor]):
    """The shared values of a call, and their matrices as kernels take them."""

    def __init__(self, shared: Sequence[Tensor]) -> None:
        super().__init__(shared)
        self.packed: dict[Tiling, list[Tensor]] = {}


class Kernel:
    """A kernel for one tiling.

    Raises:
        CannotEmitError: if it cannot be compiled, or its blocks would not be there at the same time.
    """

    def __init__(self, text: KernelText, machine: Machine) -> None:
        self.text, self.tiling = text, text.tiling
        self.function = machine.compile(text)
        self.shared_bytes = text.places.shared.size
        self.resident = machine.resident(self.function, text.threads, self.shared_bytes)
        if self.resident < text.tiles:
            raise CannotEmitError(f"{text.tiles} blocks have a row together, and {self.resident} fit on the device")


class CudaLoop:
    """Runs a core in one launch a chunk.

    Args:
        core: what to run.
        machine: what runs kernels.
        tiling: how to divide it; by cost if None.
        rows: about how many rows a step has.
        rounds: whether halves are rounded after every operation.

    Raises:
        CannotEmitError: if the core has no such form.
    """

    def __init__(
        self, core: Core, machine: Machine, tiling: Tiling | None = None, *, rows: int = 1, rounds: bool = False
    ) -> None:
        self.core, self._machine, self._tiling, self._rows = core, machine, tiling, row_class(rows)
        self._lowered = lower(core, rounds=rounds)
        self._texts: dict[Tiling, KernelText] = {}
        self._kernels: dict[Limits, Kernel] = {}
        self._lock = threading.Lock()
        self._trouble: Tensor | None = None
        self.source = self._first_that_can(self._text).body
        self.beside: list[CudaLoop] = []
        """What has to be compiled too before it can run."""

    def wait(self) -> None:
        """Compiles it, and what is beside it.

        Raises:
            CannotEmitError: if it cannot be.
        """
        for each in (self, *self.beside):
            each._kernel()

    def prepare(self, shared: Sequence[Tensor]) -> list[Tensor]:
        """The core's `shared` values; matrices are packed once it is known how many rows there are."""
        return Prepared(shared)

    def interpreted(self, *, ragged: bool) -> Reason | None:
        """It runs any rows."""
        return None

    def __call__(self, shared: Sequence[Tensor], chunk: Chunk) -> Results:
        """Runs every step of a chunk."""
        assert isinstance(shared, Prepared)
        self.complain()
        kernel = self._kernel()
        text = kernel.text
        if kernel.tiling not in shared.packed:
            shared.packed[kernel.tiling] = [pack(each, shared, text.places) for each in text.products]
        memory = _Memory(self.core, chunk, text, self._machine.device)
        groups, most = -(-chunk.counts[0] // kernel.tiling.rows), max(1, kernel.resident // text.tiles)
        together = text.tiles > 1
        scratch = memory.bytes(min(groups, most if together else groups) * text.tiles * text.places.scratch.size)
        counts, starts = self._counts(chunk)
        pointers = [memory.address(each, shared) for each in text.places.given]
        for begin in range(0, groups, most if together else max(1, groups)):
            told = [
                *(len(chunk.counts), int(chunk.reverse), chunk.counts[0], begin * kernel.tiling.rows),
                *(chunk.counts.total, _address(counts), _address(starts), _address(self._trouble), _address(scratch)),
                *(pointers or [0]),
            ]
            blocks = (min(most, groups - begin) if together else groups) * text.tiles
            self._machine.launch(kernel.function, told, blocks, text.threads, kernel.shared_bytes, together=together)
        self.complain()
        return memory.results()

    def _counts(self, chunk: Chunk) -> tuple[Tensor | None, Tensor | None]:
        """How many rows each step has, if that differs, and where they begin, if there is no room for the others."""
        if chunk.running is not None:
            return chunk.running, None
        if chunk.counts[0] == chunk.counts[-1]:
            return None, None
        return self._machine.numbers(chunk.counts), self._machine.numbers(chunk.counts.starts)

    def _kernel(self) -> Kernel:
        """What runs it on the machine as it is now: torch may be asked for TF32 at any time."""
        limits = self._machine.limits()
        with self._lock:
            if self._trouble is None:
                self._trouble = self._machine.trouble()
            if limits not in self._kernels:
                self._kernels[limits] = self._first_that_can(lambda each: Kernel(self._text(each), self._machine))
            return self._kernels[limits]

    def _text(self, tiling: Tiling) -> KernelText:
        if tiling not in self._texts:
            self._texts[tiling] = KernelText(self._lowered, tiling)
        return self._texts[tiling]

    def _first_that_can(self, make: Callable[[Tiling], Made]) -> Made:
        """What is made of the cheapest tiling of which it can be.

        Raises:
            CannotEmitError: if it can of none, or there is no compiler.
        """
        refusals: list[CannotEmitError] = []
        options = [self._tiling] if self._tiling else tilings(self._lowered, self._rows, self._machine.limits())
        for tiling in options:
            try:
                return make(tiling)
            except CannotEmitError as error:
                if error.reason.code is not Code.NO_FORM:
                    raise
                refusals.append(error)
        raise refusals[-1]

    def complain(self) -> None:
        """Raises what a launch has reported by now.

        Raises:
            IndexError: if an index was out of range.
            RuntimeError: if a block has waited for another one too long.
        """
        if self._trouble is None:
            return
        reported = cast("NDArray[np.int64]", self._trouble.numpy())  # in the host's memory, so that nothing waits
        if reported[0] != TOLD and not reported[4]:
            return
        found = [int(each) for each in reported]
        reported[:] = 0
        if found[4]:
            raise RuntimeError(f"a loop of {self._what} waited for another block for ten seconds, and was given up")
        raise IndexError(f"index {found[1]} is out of bounds for dimension {found[2]} with size {found[3]}")

    @property
    def _what(self) -> str:
        """The first line of the cell that it runs, or what it carries."""
        sources = [each.source for each in self.core.instructions if each.source]
        return sources[0] if sources else ", ".join(map(str, self.core.carried))


class _Memory:
    """The tensors of one chunk, by what a kernel calls them."""

    def __init__(self, core: Core, chunk: Chunk, text: KernelText, device: torch.device) -> None:
        self._core, self._chunk, self._text, self._device = core, chunk, text, device
        counts = chunk.counts
        self._streamed = [_rows_first(each, like) for each, like in zip(chunk.streamed, core.streamed, strict=True)]
        self._carried = [each.contiguous() for each in chunk.carried]
        changed = {each.index for each in text.lowered.changed}
        self._kept = [torch.empty_like(each) if k in changed else each for k, each in enumerate(self._carried)]
        self._targets = chunk.into or [None] * len(core.emitted)
        self._emitted = [
            target if target is not None and _can_take(target, like) else self._space(like, counts)
            for target, like in zip(self._targets, core.emitted, strict=True)
        ]
        self._matrices: list[Tensor] = []
        self._places = self._words(counts)

    def _space(self, like: Value, counts: Counts) -> Tensor:
        make = torch.empty if self._chunk.running is None else torch.zeros  # not every row will be written
        return make((counts.total * like.times, *like.shape), dtype=like.dtype, device=self._device)

    def _words(self, counts: Counts) -> dict[tuple[str, int], int]:
        """Where words are, all of them empty."""
        places, size = dict[tuple[str, int], int](), 0
        division, folds = self._text.division, self._text.places.folds
        for k, buffer in enumerate(division.crossing):
            places["words", k] = size
            size += _aligned((counts.total + counts[0]) * buffer.size * buffer.dtype.itemsize)
        for k, (fold, count) in enumerate(folds):
            places["folds", k] = size
            size += _aligned(counts.total * count * self._text.tiles * fold.target.buffer.dtype.itemsize)
        self._all_words = self.bytes(size)
        if self._all_words is None:
            return {}
        self._all_words.fill_(255)
        return {which: self._all_words.data_ptr() + place for which, place in places.items()}

    def bytes(self, size: int) -> Tensor | None:
        """Memory; None if it is nothing."""
        return torch.empty(size, dtype=torch.uint8, device=self._device) if size else None

    def address(self, given: Given, shared: Prepared) -> int:
        """Where a kernel finds something."""
        if given.kind in ("words", "folds"):
            return self._places[given.kind, given.index]
        if given.kind == "transposed":
            return int(not shared.packed[self._text.tiling][given.index].is_contiguous())
        if given.kind == "shared":
            shared[given.index] = shared[given.index].contiguous()
        groups: dict[str, Sequence[Tensor]] = {
            "shared": shared,
            "streamed": self._streamed,
            "carried": self._carried,
            "kept": self._kept,
            "emitted": self._emitted,
            "matrix": shared.packed[self._text.tiling],
        }
        return groups[given.kind][given.index].data_ptr()

    def results(self) -> Results:
        """What is carried on, and what is emitted."""
        made: list[Tensor] = []
        for own, like, target in zip(self._emitted, self._core.emitted, self._targets, strict=True):
            found = own.movedim(0, like.axis) if like.axis else own
            made.append(found if target is None or target is own else target.copy_(found))
        return self._kept, made


def _rows_first(tensor: Tensor, like: Value) -> Tensor:
    return tensor.movedim(like.axis, 0).contiguous() if like.axis else tensor.contiguous()


def _can_take(target: Tensor, like: Value) -> bool:
    return like.axis == 0 and target.dtype == like.dtype and target.is_contiguous()


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
