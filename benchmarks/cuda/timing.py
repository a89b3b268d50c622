"""Times of calls in turns: each alone, and in a stream of calls as a training loop makes them.

`each` is on the device's clock, with the device waited for between calls, so it has what the host takes until the first
kernel. `stream` is the time of some calls back to back, until the device is done, divided by how many they are. `host`
is how long a call takes to return while the device has nothing else to do.
"""

from __future__ import annotations

import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

Run = Callable[[], Any]
STREAM_MS, FEWEST, MOST = 15.0, 3, 20
"""Milliseconds that a stream of calls takes at least, and how many they are."""
LONG_MS, LONG_ROUNDS = 50.0, 3
"""A call that takes longer is measured in three rounds, as a stream of one: there is nothing of the host's in it."""


@dataclass(frozen=True)
class Settings:
    """How to measure.

    Args:
        device: where.
        rounds: turns of each contender.
        tiny: whether sizes are cut down, to see that everything runs.
        best: how many tilings of a loop alone.
    """

    device: str = "cuda"
    rounds: int = 7
    tiny: bool = False
    best: int = 1

    def shape(self, case: str) -> tuple[int, int, int]:
        """Rows, steps and units of a case."""
        rows, steps, units = map(int, case.split("x"))
        return (min(rows, 3), min(steps, 4), min(units, 16)) if self.tiny else (rows, steps, units)


@dataclass
class Times:
    """Of a contender, round by round."""

    each: list[float] = field(default_factory=list[float])
    """Milliseconds."""
    stream: list[float] = field(default_factory=list[float])
    """Milliseconds."""
    host: list[float] = field(default_factory=list[float])
    """Microseconds."""

    def medians(self, steps: int) -> dict[str, float]:
        """What a line says of it."""
        ms = {name: statistics.median(times) for name, times in asdict(self).items() if times}
        return {
            "each_ms": round(ms["each"], 4),
            "stream_ms": round(ms["stream"], 4),
            "host_us": round(ms["host"], 1),
            "us_a_step": round(ms["stream"] * 1e3 / steps, 3),
        }

    def over(self, reference: Times) -> dict[str, float]:
        """How many times as long as the reference's it takes: the median over rounds, of each way to measure."""
        return {
            "each": round(_ratio(self.each, reference.each), 3),
            "stream": round(_ratio(self.stream, reference.stream), 3),
        }


def in_turns(runs: Mapping[str, Run], settings: Settings, *, walls: bool = False) -> dict[str, Times]:
    """Measures every contender once a round, in random order.

    Args:
        runs: the contenders.
        settings: how to.
        walls: by the clock on the wall, until all is done, where not all of them are torch's.
    """
    found = {name: Times() for name in runs}
    calls, rounds = dict[str, int](), dict[str, int]()
    for name, run in runs.items():
        once(run, settings.device, walls)  # plans and compiles
        ms = statistics.median(once(run, settings.device, walls)[0] for _ in range(2))
        long = ms > LONG_MS
        calls[name] = 1 if long else min(MOST, max(FEWEST, math.ceil(STREAM_MS / ms)))
        rounds[name] = min(settings.rounds, LONG_ROUNDS) if long else settings.rounds
    gc.collect()
    gc.freeze()  # so that it takes no time to look for a round's garbage
    gc.disable()  # nobody's garbage is collected on another's time
    try:
        for turn in range(settings.rounds):
            for name in random.sample(list(runs), len(runs)):
                if turn < rounds[name]:
                    times = found[name]
                    ms, host = once(runs[name], settings.device, walls)
                    times.each.append(ms)
                    times.host.append(host)
                    times.stream.append(streamed(runs[name], settings.device, calls[name]))
            gc.collect()
    finally:
        gc.enable()
        gc.unfreeze()
    return found


def once(run: Run, device: str, walls: bool = False) -> tuple[float, float]:
    """Milliseconds of one call, and the microseconds until it returned."""
    if device != "cuda" or walls:
        synchronize(device)
        began = time.perf_counter()
        run()
        returned = time.perf_counter()
        synchronize(device)
        return (time.perf_counter() - began) * 1e3, (returned - began) * 1e6
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    began = time.perf_counter()
    run()
    host = time.perf_counter() - began
    end.record()
    end.synchronize()
    return begin.elapsed_time(end), host * 1e6


def streamed(run: Run, device: str, calls: int) -> float:
    """Milliseconds of one of some calls back to back."""
    synchronize(device)
    began = time.perf_counter()
    for _ in range(calls):
        run()
    synchronize(device)
    return (time.perf_counter() - began) * 1e3 / calls


def synchronize(device: str) -> None:
    """Waits for the device."""
    if device == "cuda":
        torch.cuda.synchronize()


@contextmanager
def tensor_floats(allowed: bool) -> Any:
    """Whether float32 may be multiplied as TF32 in here, by torch, by us and by cuDNN."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def _ratio(times: Sequence[float], reference: Sequence[float]) -> float:
    return statistics.median(own / other for own, other in zip(times, reference, strict=False))  # some in few rounds
