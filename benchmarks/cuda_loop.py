"""The CUDA loop emitter's kernels on a GPU: microseconds a step of an LSTM's loops, for the best tilings by its model.

    python -m benchmarks.cuda_loop --best 4

Each line has the model's estimate beside what was measured, and what the prototype took on an H200, so that the
constants of emit/cuda/loop/tiles.py can be fitted again. `--json` keeps it all in a file.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.apart import measured_apart
from unspool import BasicLSTMCell, explain
from unspool.engine.emit import registry
from unspool.engine.emit.cuda.loop.driver import Cuda
from unspool.engine.emit.cuda.loop.lowered import lower
from unspool.engine.emit.cuda.loop.machine import Machine
from unspool.engine.emit.cuda.loop.running import CudaLoop
from unspool.engine.emit.cuda.loop.tiles import Tiling, estimate, registers, tilings
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.protocol import Chunk, CoreEmitter, CoreLoop
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Value
from unspool.engine.reasons import Reason

PROTOTYPE = {
    (16, 128): (0.80, 0.67),
    (64, 256): (1.16, 1.58),
    (64, 512): (1.74, 2.26),
    (16, 768): (1.67, 2.08),
    (16, 1024): (1.93, 2.45),
    (64, 1024): (3.6, 6.6),
    (1, 512): (1.04, 0.87),
    (256, 256): (2.2, 2.2),
}
"""Rows and units: the prototype's microseconds a step on an H200 in bfloat16, forward and adjoint."""
STEPS = 256
SECONDS = 180.0
"""That all tilings of one shape may take."""
Timer = Callable[[Callable[[], Any]], float]
"""Microseconds that something takes."""


class Collector(CoreEmitter):
    """Collects cores, and runs none."""

    name = "collector"

    def __init__(self) -> None:
        self.cores: list[Core] = []

    def refusal(self, device: torch.device) -> Reason | None:
        """It takes any."""
        return None

    def cost(self, core: Core) -> float:
        """The first to be asked."""
        return 0.0

    def core(self, core: Core, device: torch.device) -> CoreLoop:
        """Notes the core down."""
        self.cores.append(core)
        raise CannotEmitError("cores are only collected")


def lstm_cores(units: int, dtype: torch.dtype) -> tuple[Core, Core]:
    """The forward core of an LSTM, and its adjoint."""
    collector = Collector()
    registry.register(collector)
    try:
        explain(BasicLSTMCell(units, input_size=8).to(dtype), torch.zeros(1, 1, 8, dtype=dtype), dtype=dtype)
    finally:
        registry.unregister(collector.name)
    return collector.cores[0], collector.cores[-1]


def numbers(value: Value, rows: int, device: torch.device) -> Tensor:
    """Small random numbers for a value."""
    shape = list(value.shape)
    if not value.shared:
        shape.insert(value.axis, rows * value.times)
    scale = value.shape[0] ** -0.5 if value.shared and len(value.shape) == 2 else 0.3
    return (torch.randn(shape, device=device) * scale).to(value.dtype)


def measured(loop: CudaLoop, machine: Machine, rows: int, timed: Timer, back: bool) -> float:
    """Microseconds a step."""
    core, counts = loop.core, Counts([rows] * STEPS)
    shared = loop.prepare([numbers(each, 1, machine.device) for each in core.shared])
    streamed = [numbers(each, counts.total, machine.device) for each in core.streamed]
    carried = [numbers(each, rows, machine.device) for each in core.carried]
    chunk = Chunk(counts, streamed, carried, back)
    _, emitted = loop(shared, chunk)
    assert all(each.isfinite().all() for each in emitted), "what it emits is not finite"
    return timed(lambda: loop(shared, chunk)) / STEPS


def by_events(run: Callable[[], Any]) -> float:
    """The median of ten runs, in microseconds, on the device's clock."""
    times: list[float] = []
    for _ in range(12):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times[2:])


def lines(
    machine: Machine,
    best: int,
    dtype: torch.dtype,
    timed: Timer,
    shapes: Any = PROTOTYPE,
) -> Iterator[dict[str, Any]]:
    """One line for each shape, direction and tiling."""
    limits = machine.limits()
    for rows, units in shapes:
        for which, core in enumerate(lstm_cores(units, dtype)):
            lowered = lower(core)
            for tiling in tilings(lowered, rows, limits)[:best]:
                yield {
                    "rows": rows,
                    "units": units,
                    "loop": ("forward", "adjoint")[which],
                    "tiling": asdict(tiling),
                    "estimated": round(estimate(lowered, tiling, rows, limits), 2),
                    "registers": registers(lowered, tiling) if tiling.units else None,
                    "prototype": PROTOTYPE[rows, units][which] if (rows, units) in PROTOTYPE else None,
                    **_outcome(core, machine, tiling, rows, timed, back=which == 1),
                }


def _outcome(core: Core, machine: Machine, tiling: Tiling, rows: int, timed: Timer, *, back: bool) -> dict[str, Any]:
    try:
        return {"measured": round(measured(CudaLoop(core, machine, tiling), machine, rows, timed, back), 2)}
    except (CannotEmitError, RuntimeError, AssertionError) as error:
        return {"failed": str(error)}


def main() -> None:
    """Measures on the first GPU, each shape in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--best", type=int, default=3, help="how many tilings of each loop")
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    parser.add_argument("--shape", type=int, nargs=2, metavar=("ROWS", "UNITS"), help="this one, in this process")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.shape:
        machine, dtype = Cuda(torch.device("cuda", 0)), getattr(torch, options.dtype)
        for line in lines(machine, options.best, dtype, by_events, [tuple(options.shape)]):
            print(json.dumps(line), flush=True)
        return
    found: list[dict[str, Any]] = []
    for rows, units in PROTOTYPE:
        told = ["--best", str(options.best), "--dtype", options.dtype, "--shape", str(rows), str(units)]
        for line in measured_apart("benchmarks.cuda_loop", told, SECONDS):
            found.append(line)
            print(json.dumps(line), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
