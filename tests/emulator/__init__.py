"""Runs kernels of the CUDA loop emitter on a CPU: their text as it is, with all threads as fibers of one process."""

from __future__ import annotations

import ctypes
import threading
from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, fx

from tests.emulator.recorder import EmulatedRecorder
from unspool.engine.emit import registry
from unspool.engine.emit.cpp.libraries.build import Build
from unspool.engine.emit.cuda.loop.emitter import CudaLoops
from unspool.engine.emit.cuda.loop.printer import kernel
from unspool.engine.emit.cuda.loop.running import CudaLoop
from unspool.engine.emit.cuda.loop.tiles import Limits, Tiling
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.protocol import CoreLoop, Emitted, Recorder
from unspool.engine.ir.core import Core
from unspool.engine.partition.split import Split
from unspool.engine.reasons import Reason
from unspool.engine.rows.labels import Label

ROOM = Path(__file__).parent
ENTRY = """
extern "C" __attribute__((visibility("default")))
void entry(const unspool::Runtime* runtime, const void* chunk) {
  unspool::runtime = runtime;
  NAME(*static_cast<const unspool::Chunk*>(chunk));
}
"""

_one_at_a_time = threading.Lock()


class EmulatedError(RuntimeError):
    """A launch that went wrong."""


@cache
def _runtime() -> Any:
    return Build.of((ROOM / "runtime.h").read_text() + (ROOM / "runtime.cpp").read_text()).library().unspool_emulate


@cache
def _primitives() -> str:
    return (ROOM / "runtime.h").read_text() + (ROOM / "device.h").read_text()


class Emulated:
    """A machine without a GPU.

    Args:
        seed: draws the order in which threads run.
        tick: nanoseconds that pass whenever a thread looks at the clock.
        withheld: how many blocks, the last ones, never run.
        blocks: how many blocks there can be at the same time.
        shared_bytes: shared memory of a block.
        slow: a warp that goes on only where nobody else can, if any.
    """

    device = torch.device("cpu")

    def __init__(
        self,
        seed: int = 1,
        tick: int = 0,
        withheld: int = 0,
        blocks: int = 64,
        shared_bytes: int = 227 * 1024,
        slow: int = -1,
    ) -> None:
        self.seed, self.tick, self.withheld, self.launches = seed, tick, withheld, 0
        self._blocks, self._limits, self._slow = blocks, Limits(blocks, shared_bytes, clusters=True), slow
        self._clusters: dict[Build, int] = {}
        """Of kernels: how many blocks write to each other's memory."""
        self.tape: list[Callable[[], object]] | None = None
        """What gets launches too, while a pass is recorded."""
        self.records, self.recorded, self.repeated = False, 0, 0
        self.silent = False
        """Whether recordings do nothing when they are repeated."""
        self.place: Hashable | None = "a stream"
        self.refuses = ""
        """Why nothing can be recorded."""

    def limits(self) -> Limits:
        return self._limits

    def compile(self, text: kernel.KernelText) -> Build:
        build = Build.of(text.text(_primitives()) + ENTRY.replace("NAME", text.name))
        self._clusters[build] = text.tiling.cluster
        try:
            build.library()
        except CannotEmitError as error:  # or another emitter would run the core, and nobody would notice
            raise EmulatedError(str(error)) from error
        return build

    def resident(self, kernel: Build, threads: int, shared_bytes: int, cluster: int) -> int:
        return self._blocks // cluster * cluster

    def launch(
        self, kernel: Build, chunk: Sequence[int], blocks: int, threads: int, shared_bytes: int, *, together: bool
    ) -> None:
        told, message = array("q", chunk), ctypes.create_string_buffer(4096)
        cluster = self._clusters[kernel]
        numbers = [
            ctypes.c_int64(each)
            for each in (blocks, threads, shared_bytes, self.withheld, self.seed, self.tick, self._slow, cluster)
        ]
        self.launches += chunk[0] > 1  # of loops, not of what is beside them
        if self.tape is not None:
            again = array("q", chunk)
            self.tape.append(lambda: self.launch(kernel, again, blocks, threads, shared_bytes, together=together))
        with _one_at_a_time:  # as on a stream
            _runtime()(
                kernel.library().entry, ctypes.c_void_p(told.buffer_info()[0]), *numbers, message, ctypes.c_int64(4096)
            )
        if message.value:
            raise EmulatedError(message.value.decode())

    def numbers(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(list(numbers))

    def trouble(self) -> Tensor:
        return torch.zeros(5, dtype=torch.int64)


class EmulatedEmitter(CudaLoops):
    """The CUDA loop emitter, on a CPU."""

    name = "emulated"

    def __init__(self, machine: Emulated, tiling: Tiling | None = None) -> None:
        self.emulated, self.tiling = machine, tiling
        self.cores: list[Core] = []
        self.beside: list[Core] = []

    def refusal(self, device: torch.device) -> Reason | None:
        return None

    def cost(self, core: Core) -> float:
        return 0.0

    def machine(self, device: torch.device) -> Emulated:
        return self.emulated

    def recorder(self, device: torch.device, loops: Sequence[CoreLoop]) -> Recorder | None:
        def report() -> None:
            for each in loops:
                cast(CudaLoop, each).report()

        return EmulatedRecorder(self.emulated, report) if self.emulated.records else None

    def emit(self, split: Split, labels: dict[fx.Node, Label], device: torch.device, variant: Hashable) -> Emitted:
        emitted = super().emit(split, labels, device, variant)
        self.cores.append(emitted.core.core)
        self.beside += [each.core for each in cast(CudaLoop, emitted.core).beside]
        return emitted


@contextmanager
def emulated(machine: Emulated | None = None, tiling: Tiling | None = None) -> Iterator[EmulatedEmitter]:
    """Cores run in the emulator in here, and nothing else but the interpreter."""
    emitter = EmulatedEmitter(machine or Emulated(), tiling)
    registry.register(emitter)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("UNSPOOL_EMIT", emitter.name)
            yield emitter
    finally:
        registry.unregister(emitter.name)
