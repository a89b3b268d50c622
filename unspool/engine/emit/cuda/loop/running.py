"""Runs a core over chunks of steps by one kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from torch import Tensor

from unspool.engine.emit.cuda.loop import launch
from unspool.engine.emit.cuda.loop.cost.options import row_class, tilings
from unspool.engine.emit.cuda.loop.launch import Kernel
from unspool.engine.emit.cuda.loop.lowered import lower
from unspool.engine.emit.cuda.loop.machine import Machine
from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.tiles import Limits, Tiling
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.protocol import Chunk, Results
from unspool.engine.ir.core import Core
from unspool.engine.reasons import Code, Reason

Made = TypeVar("Made")
Wanted = tuple[Limits, bool, bool]
"""What the machine has, whether rows have lengths of their own, and whether more elements than 32 bits count."""
TOLD = 2
"""What an index out of range is, and where, has been written; `kTold` of native/steps.h."""


class Prepared(list[Tensor]):
    """The shared values of a call."""

    def __init__(self, shared: Sequence[Tensor]) -> None:
        super().__init__(shared)
        self.by: dict[Kernel, launch.Prepared] = {}
        """The same as each kernel takes them."""


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
        self._sums = self._lowered.sums
        self._texts: dict[tuple[Tiling, bool], KernelText] = {}
        self._kernels: dict[Wanted, Kernel] = {}
        self._made: dict[tuple[Limits, Tiling, bool], Kernel] = {}
        """The same by what they are: calls that want different things may have one kernel."""
        self._tilings: dict[tuple[Limits, bool], Sequence[Tiling]] = {}
        self._lock = threading.Lock()
        self._latest: list[tuple[Limits, Kernel] | None] = [None, None]
        """What full and ragged rows ran by last, and what the machine had: it seldom changes."""
        self._trouble: Tensor | None = None
        self._trouble_at = 0
        self._reported = memoryview(bytes(5))
        self.source = self._first_that_can(self._text).body
        self.beside: list[CudaLoop] = []
        """What has to be compiled too before it can run."""

    def wait(self) -> None:
        """Compiles it, for rows of one length, and what is beside it.

        Raises:
            CannotEmitError: if it cannot be.
        """
        for each in (self, *self.beside):
            each._kernel(ragged=False)

    def prepare(self, shared: Sequence[Tensor]) -> list[Tensor]:
        """The core's `shared` values; matrices are packed once it is known how many rows there are."""
        return Prepared(shared)

    def interpreted(self, *, ragged: bool) -> Reason | None:
        """It runs any rows."""
        return None

    def __call__(self, shared: Sequence[Tensor], chunk: Chunk) -> Results:
        """Runs every step of a chunk."""
        assert isinstance(shared, Prepared)
        counts = chunk.counts
        ragged = chunk.running is not None or counts[0] != counts[-1]
        kernel, reported = self._kernel(ragged=ragged), self._reported
        if kernel.overflows(counts):
            kernel = self._kernel(ragged=ragged, wide=True)
        if reported[0] or reported[4]:
            self.complain()
        prepared = shared.by.get(kernel)
        if prepared is None:
            prepared = shared.by[kernel] = kernel.prepare(shared)
        if self._sums:
            chunk = self._sums.begin(chunk, self._machine.device)
        results = kernel.run(prepared, chunk, self._trouble_at)
        if reported[0] or reported[4]:
            self.complain()
        return self._sums.finish(results) if self._sums else results

    def _kernel(self, *, ragged: bool, wide: bool = False) -> Kernel:
        """What runs it on the machine as it is now: torch may be asked for TF32 at any time."""
        limits, latest = self._machine.limits(), self._latest[ragged]
        if latest is not None and latest[0] is limits and not wide:
            return latest[1]
        with self._lock:
            if self._trouble is None:
                self._trouble = self._machine.trouble()
                self._trouble_at = self._trouble.data_ptr()
                self._reported = memoryview(cast(Any, self._trouble.numpy()))
            found = self._kernels.get((limits, ragged, wide))
            if found is None:
                found = self._kernels[limits, ragged, wide] = self._first_that_can(
                    lambda each: self._compiled(limits, each, wide=wide), ragged=ragged
                )
            if not wide:
                self._latest[ragged] = limits, found
            return found

    def _compiled(self, limits: Limits, tiling: Tiling, *, wide: bool) -> Kernel:
        key = limits, tiling, wide
        if key not in self._made:
            self._made[key] = Kernel(self._text(tiling, wide=wide), self._machine)
        return self._made[key]

    def _text(self, tiling: Tiling, *, wide: bool = False) -> KernelText:
        if (tiling, wide) not in self._texts:
            self._texts[tiling, wide] = self.printed(tiling, wide=wide)
        return self._texts[tiling, wide]

    def printed(self, tiling: Tiling, *, wide: bool) -> KernelText:
        """The kernel of a tiling.

        Raises:
            CannotEmitError: if it cannot be divided so.
        """
        return KernelText(self._lowered, tiling, wide=wide)

    def _first_that_can(self, make: Callable[[Tiling], Made], *, ragged: bool = False) -> Made:
        """What is made of the cheapest tiling of which it can be.

        Raises:
            CannotEmitError: if it can of none, or there is no compiler.
        """
        refusals: list[CannotEmitError] = []
        for tiling in self._options(self._machine.limits(), ragged=ragged):
            try:
                return make(tiling)
            except CannotEmitError as error:
                if error.reason.code is not Code.NO_FORM:
                    raise
                refusals.append(error)
        raise refusals[-1]

    def _options(self, limits: Limits, *, ragged: bool) -> Sequence[Tiling]:
        """Tilings, the cheapest first."""
        if self._tiling is not None:
            return [self._tiling]
        key = limits, ragged
        if key not in self._tilings:
            self._tilings[key] = tilings(self._lowered, self._rows, limits, ragged=ragged)
        return self._tilings[key]

    def report(self) -> None:
        """Raises what launches of it, and of what is beside it, have reported by now."""
        for each in (self, *self.beside):
            if each._reported[0] or each._reported[4]:
                each.complain()

    def complain(self) -> None:
        """Raises what a launch has reported by now.

        Raises:
            IndexError: if an index was out of range.
            RuntimeError: if a block has waited for another one too long.
        """
        reported = self._reported  # in the host's memory, so that nothing waits
        if reported[0] != TOLD and not reported[4]:
            return
        found = list(reported)
        for place in range(len(found)):
            reported[place] = 0
        if found[4]:
            raise RuntimeError(f"a loop of {self._what} waited for another block for ten seconds, and was given up")
        raise IndexError(f"index {found[1]} is out of bounds for dimension {found[2]} with size {found[3]}")

    @property
    def _what(self) -> str:
        """The first line of the cell that it runs, or what it carries."""
        sources = [each.source for each in self.core.instructions if each.source]
        return sources[0] if sources else ", ".join(map(str, self.core.carried))
