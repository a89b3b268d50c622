"""The CUDA loop emitter: a core as one kernel that runs all steps of a chunk."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, cast

import torch
from torch import fx

from unspool.engine.emit.cuda.loop.rewrites.at_hand import with_reads_at_hand
from unspool.engine.emit.cuda.loop.rewrites.narrow import with_narrow_reads
from unspool.engine.emit.cuda.loop.rewrites.row_sums import with_row_sums
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.graphs.graphed import Graphs
from unspool.engine.emit.graphs.recorder import GraphRecorder
from unspool.engine.emit.protocol import CoreLoop, Emitted, Emitter, Load, Recorder, launches
from unspool.engine.emit.stages.lowering import decides
from unspool.engine.ir.core import Core, lower_core
from unspool.engine.ir.program import lower_part
from unspool.engine.memory.policies import device_bytes
from unspool.engine.partition.split import Split
from unspool.engine.reasons import Code, Reason
from unspool.engine.rows.labels import Label

if TYPE_CHECKING:
    from unspool.engine.emit.cuda.loop.machine import Machine
    from unspool.engine.emit.cuda.loop.running import CudaLoop
    from unspool.engine.emit.cuda.loop.tiles import Tiling


LEAST_CHUNK, MOST_CHUNK, PART = 128 << 20, 448 << 20, 32
"""Bytes that a chunk may take for what its core reads and writes: a part of the device's memory, within these bounds.

A launch loads all weights, and products of few rows are slow; past some hundred steps neither tells any more. Training
takes somewhat more than this: of 17 H numbers that an LSTM's backward has a row and step, its core reads and writes 13.
In benchmarks/results/peaks-cuda.json (64 rows, 1024 units, 1024 steps, float32) that makes chunks of 128
steps, of 544 MiB; the peaks there, which must not grow, leave 640 MiB beside what a call has for all of its steps.
"""


def chunk_room(total: int) -> int:
    """Bytes for what the core of a chunk reads and writes, on a device with so many in all.

    >>> [chunk_room(gib << 30) >> 20 for gib in (2, 8, 141)]
    [128, 256, 448]
    """
    return max(LEAST_CHUNK, min(MOST_CHUNK, total // PART))


class CudaLoops(Emitter):
    """Runs cores on a GPU, a chunk in one launch, and what is beside them in as few as there can be."""

    name = "cuda-loop"
    instead = Graphs.name
    counts_on_device = True
    runs_at_once = True
    single_steps = False  # a launch takes as long as several of a graph's
    tiling: Tiling | None = None
    """How cores are divided; by cost if None."""

    def refusal(self, device: torch.device) -> Reason | None:
        """It needs a GPU."""
        if device.type != "cuda":
            return Reason(Code.OTHER_DEVICE, f"it needs a GPU, and the tensors are on {device.type}")
        return None

    def cost(self, core: Core) -> float:
        """Less than a graph of launches."""
        return 0.1 * launches(core)

    def machine(self, device: torch.device) -> Machine:
        """What runs kernels on a device."""
        from unspool.engine.emit.cuda.loop.driver import Cuda  # loaded where it is asked for

        return Cuda(device)

    def chunk_bytes(self, device: torch.device) -> int:
        """A part of the device's memory."""
        return chunk_room(device_bytes(device) if device.type == "cuda" else 0)

    def recorder(self, device: torch.device, loops: Sequence[CoreLoop]) -> Recorder | None:
        """CUDA graphs; whatever a replayed loop has found wrong is said as after any launch."""
        own = [cast("CudaLoop", each) for each in loops]

        def report() -> None:
            for each in own:
                each.report()

        return GraphRecorder(device, report)

    def variant(self, load: Load) -> Hashable:
        """About how many rows a step has."""
        from unspool.engine.emit.cuda.loop.cost.options import row_class

        return row_class(math.ceil(load.rows))

    def emit(self, split: Split, labels: dict[fx.Node, Label], device: torch.device, variant: Hashable) -> Emitted:
        """The core and the groups beside it as kernels.

        Raises:
            CannotEmitError: if it has no form for the core.
        """
        regrouped = with_narrow_reads(with_row_sums(with_reads_at_hand(split, labels), labels), labels)
        if regrouped is not split:
            try:
                return self._emit(regrouped, labels, device, variant)
            except CannotEmitError:  # what has moved may be where no block has it at hand
                pass
        return self._emit(split, labels, device, variant)

    def _emit(self, split: Split, labels: dict[fx.Node, Label], device: torch.device, variant: Hashable) -> Emitted:
        from unspool.engine.emit.cuda.loop.part import fuse_part
        from unspool.engine.emit.cuda.loop.running import CudaLoop

        core, *parts = lower_core(split, labels), *(lower_part(each, labels) for each in (split.before, split.after))
        rounds, machine = decides(chain(*(each.instructions for each in (core, *parts)))), self.machine(device)
        loop = CudaLoop(core, machine, self.tiling, rows=cast(int, variant), rounds=rounds)
        before, after = (fuse_part(part, machine, loop.beside, rounds=rounds) for part in parts)
        return Emitted(split, loop, before, after)
