"""The kernels of an LSTM's loops alone, forward and adjoint: microseconds a step beside the model's estimate.

With more than the one tiling that a plan takes (`--best 4`), the lines are what the constants of
emit/cuda/loop/cost/estimate.py are fitted to.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from benchmarks.cuda.timing import Settings
from unspool import BasicLSTMCell, explain
from unspool.engine.emit import registry
from unspool.engine.emit.cuda.loop.cost.estimate import estimate
from unspool.engine.emit.cuda.loop.cost.options import tilings
from unspool.engine.emit.cuda.loop.driver import Cuda
from unspool.engine.emit.cuda.loop.lowered import lower
from unspool.engine.emit.cuda.loop.machine import Machine
from unspool.engine.emit.cuda.loop.running import CudaLoop
from unspool.engine.emit.cuda.loop.tiles import registers
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.protocol import Chunk, CoreEmitter, CoreLoop
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Value
from unspool.engine.reasons import Reason

AHEAD = 3_000_000
"""Cycles for which the device sleeps before a launch, so that the host is ahead of it: about 1.7 ms."""
Timer = Callable[[Callable[[], Any]], float]
"""Microseconds that something takes."""


def measure(case: str, options: Mapping[str, Any], settings: Settings) -> Iterator[dict[str, Any]]:
    """A line for each direction and tiling."""
    machine = Cuda(torch.device("cuda", 0))
    yield from lines(settings.shape(case), getattr(torch, options["dtype"]), machine, by_events, settings.best)


def lines(
    shape: tuple[int, int, int], dtype: torch.dtype, machine: Machine, timed: Timer, best: int
) -> Iterator[dict[str, Any]]:
    """The best tilings by the model of those that can be made, as a plan chooses the first of them."""
    (rows, steps, units), limits = shape, machine.limits()
    for which, core in zip(("forward", "adjoint"), lstm_cores(units, dtype), strict=True):
        lowered, found, refused = lower(core), 0, "there is no tiling"
        for tiling in tilings(lowered, rows, limits):
            line: dict[str, Any] = {"what": which, "tiling": asdict(tiling)}
            line["estimated"] = round(estimate(lowered, tiling, rows, limits), 2)
            line["registers"] = registers(lowered, tiling) if tiling.units else None
            try:
                line |= measured(CudaLoop(core, machine, tiling), machine, (rows, steps), timed, which == "adjoint")
            except CannotEmitError as error:
                refused = str(error)
                continue
            except RuntimeError as error:
                line["failed"] = str(error).partition("\n")[0]
            yield line
            found += 1
            if found == best:
                break
        if not found:
            yield {"what": which, "failed": refused}


def measured(loop: CudaLoop, machine: Machine, extent: tuple[int, int], timed: Timer, back: bool) -> dict[str, Any]:
    """Microseconds a step, for so many rows and steps."""
    rows, steps = extent
    core, counts = loop.core, Counts([rows] * steps)
    shared = loop.prepare([numbers(each, 1, machine.device) for each in core.shared])
    streamed = [numbers(each, counts.total, machine.device) for each in core.streamed]
    carried = [numbers(each, rows, machine.device) for each in core.carried]
    chunk = Chunk(counts, streamed, carried, back)
    _, emitted = loop(shared, chunk)
    finite = all(bool(each.isfinite().all()) for each in emitted)
    return {"us_a_step": round(timed(lambda: loop(shared, chunk)) / steps, 3), "finite": finite}


def by_events(run: Callable[[], Any]) -> float:
    """The median of ten runs, in microseconds, on the device's clock, which begins when all has been launched."""
    times: list[float] = []
    for _ in range(12):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(AHEAD)
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times[2:])


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
        with _nothing_asked():  # or nobody would ask the collector
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


@contextmanager
def _nothing_asked() -> Iterator[None]:
    asked = os.environ.pop("UNSPOOL_EMIT", None)
    try:
        yield
    finally:
        if asked is not None:
            os.environ["UNSPOOL_EMIT"] = asked
