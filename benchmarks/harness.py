"""Measures contenders side by side: interleaved, checked against each other, as ratios of the same round.

A machine is never equally fast for long: clocks, caches and neighbours change. So every round gives each contender a
turn, in random order, and what is reported is the median over rounds of a contender's time divided by the reference's
in the same round. In a turn a contender runs once, or, where its run is short, several times in a row, as in training:
a millisecond right after somebody else's would be spent on fetching code and data. Where a contender runs in another
process, turns are longer and begin with a rest: threads that wait for work keep processors busy for some milliseconds
after a run, the other process would pay for that, and it takes a few runs until it is as fast as it is in training. A
turn's time is the median of its runs. The reference is the first contender, `dynamic_rnn`: above 1, `dynamic_rnn` is
faster.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table
from torch import Tensor

from benchmarks.environment import environment

TURN_MS, TURN_APART_MS = 20.0, 250.0
"""Milliseconds that a turn takes at least; where turns are those of different processes."""
REST_S = 0.05
"""Seconds between turns of different processes, after which no thread of the one before is still at work."""
WARM_UP = 1
"""Rounds that are run and not counted, after the check, which is the first call of all."""


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    device: str
    rounds: int
    quick: bool
    tf32: bool


@dataclass(frozen=True)
class Contender:
    """One way to compute a case."""

    name: str
    run: Callable[[], Sequence[Any]]
    """Computes it, waits for it where the framework is not torch, and returns what must agree with the others'."""
    framework: str = "torch"
    """unspool, torch, jax or tensorflow: whose clock and whose memory count."""
    same: bool = True
    """Whether it claims the reference's equations and lengths; if not, only its time is compared."""
    allocates: bool = True
    """Whether it takes its memory while it runs; if it did before, a peak would say nothing."""
    about: Callable[[], Mapping[str, Any]] | None = None
    """Tells more about its first call, right after it; the report keeps that."""
    clock: Callable[[], float] | None = None
    """Tells the milliseconds of the last run, if it ran in another process, to which it is some way."""


@dataclass(frozen=True)
class Case:
    """Contenders for one row of a report; the first is the reference."""

    title: str
    steps: int
    contenders: list[Contender]
    tolerance: float = 1e-4
    """How far results may be from the reference's, as a norm relative to its norm."""
    absent: Mapping[str, str] = field(default_factory=dict[str, str])
    """Who could not take part here, and why."""


@dataclass
class Result:
    """What was measured of one contender."""

    framework: str
    same: bool
    first_ms: float | None = None
    """The first call: planning, compiling, tuning."""
    times_ms: list[float] = field(default_factory=list[float])
    """A run's, round by round."""
    ms: float | None = None
    us_per_step: float | None = None
    ratio: float | None = None
    ratio_quartiles: tuple[float, float] | None = None
    peak_mib: float | None = None
    """The most memory taken on the GPU beyond what was taken before the call."""
    difference: float | None = None
    """From the reference, as a relative norm."""
    wrong: bool = False
    """Whether it claims to compute the same and does not."""
    failure: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the contender told about its first call."""


def main(what: str | None, cases: Callable[[Options], Iterable[Case]], rounds: int = 7) -> None:
    """Runs a benchmark from the command line.

    Args:
        what: the script's docstring.
        cases: the cases for the options; made one after another, so that one at a time is in memory.
        rounds: how many count unless the command line says otherwise.
    """
    what = what or ""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--rounds", type=int, default=rounds, help=f"rounds that count (default: {rounds})")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true", help="one tiny case of each kind, to see that everything runs")
    parser.add_argument("--tf32", action="store_true", help="float32 products in TF32 on a GPU, for every contender")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases with this in their titles")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds must be at least 1, but is {arguments.rounds}")
    options = Options(arguments.device, arguments.rounds, arguments.quick, arguments.tf32)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.tf32  # JAX's: peers/xla.py

    torch.ones(8, 8, device=options.device).mm(
        torch.ones(8, 8, device=options.device)
    )  # no first call pays for the start

    results: dict[str, dict[str, Result]] = {}
    absent: dict[str, str] = {}
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        for case in (each for each in cases(options) if arguments.only in each.title):
            results[case.title] = measure(case, options, progress)
            absent |= case.absent
            del case  # or its tensors would stay while the next ones are made
    show(what, results, absent)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        report = {
            "benchmark": Path(sys.argv[0]).stem,
            "what": what.strip(),
            "environment": environment(options.device),
            "options": asdict(options),
            "absent": absent,
            "cases": {title: {name: asdict(each) for name, each in case.items()} for title, case in results.items()},
        }
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    # A peer may fail to run, and the table says so. That we fail, or that somebody computes something else, may not be.
    everything = [result for case in results.values() for result in case.values()]
    if any(each.wrong or (each.failure and each.framework == "unspool") for each in everything):
        sys.exit(1)


def measure(case: Case, options: Options, progress: Progress) -> dict[str, Result]:
    """Checks the contenders against the reference, then times those that passed, round by round."""
    results = {each.name: Result(each.framework, each.same) for each in case.contenders}
    task = progress.add_task(case.title, total=len(case.contenders) * (1 + WARM_UP + options.rounds))
    reference, running = case.contenders[0], list(case.contenders)
    tolerance = case.tolerance * 100 if options.tf32 else case.tolerance
    expected: Sequence[Tensor] | None = None
    for contender in case.contenders:
        result = results[contender.name]
        progress.update(task, advance=1, description=f"{case.title}: {contender.name}, first call")
        try:
            returned, result.first_ms, _ = timed(contender, options.device)
        except Exception as error:
            if contender is reference:  # nothing to compare with
                raise
            result.failure = reason(error)
            running.remove(contender)
            continue
        result.about = contender.about() if contender.about else {}
        if contender.same:
            found = [as_float(value) for value in returned]
            expected = found if expected is None else expected
            result.difference = difference(found, expected)
            result.wrong = not result.difference <= tolerance  # so that NaN does not pass
            if result.wrong:
                result.failure = f"differs from {reference.name} by {result.difference:.1e}, relative norm"
                running.remove(contender)
        del returned
    expected = None

    gc.collect()
    gc.disable()  # nobody's garbage is collected on another's time
    try:
        calls = {each.name: 1 for each in running}
        apart = any(each.clock is not None for each in running)
        for turn in range(WARM_UP + options.rounds):
            for contender in random.sample(running, len(running)):
                result = results[contender.name]
                progress.update(task, advance=1, description=f"{case.title}: {contender.name}")
                try:
                    if apart:
                        time.sleep(REST_S)
                    runs = [timed(contender, options.device)[1:] for _ in range(calls[contender.name])]
                except Exception as error:  # out of memory, say, now that others hold some
                    if contender is reference:
                        raise
                    result.failure = reason(error)
                    result.times_ms.clear()
                    running.remove(contender)
                    continue
                ms = statistics.median(each for each, _ in runs)
                if turn >= WARM_UP:
                    peaks = [result.peak_mib, *(peak for _, peak in runs)]
                    result.times_ms.append(ms)
                    result.peak_mib = max((peak for peak in peaks if peak is not None), default=None)
                else:
                    calls[contender.name] = math.ceil((TURN_APART_MS if apart else TURN_MS) / ms)
            gc.collect()
    finally:
        gc.enable()
        progress.remove_task(task)

    for result in results.values():
        if result.times_ms:
            summarise(result, results[reference.name].times_ms, case.steps)
    return results


def timed(contender: Contender, device: str) -> tuple[Sequence[Any], float, float | None]:
    """One run: what it returned, its milliseconds, and the MiB it took on the GPU at most."""
    if contender.clock is not None:
        return contender.run(), contender.clock(), None
    if device != "cuda":
        began = time.perf_counter()
        returned = contender.run()
        return returned, 1e3 * (time.perf_counter() - began), None
    torch.cuda.synchronize()
    if contender.framework not in ("torch", "unspool"):  # they have streams and memory of their own
        began = time.perf_counter()
        returned = contender.run()
        return returned, 1e3 * (time.perf_counter() - began), None
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    returned = contender.run()
    end.record()
    end.synchronize()
    peak = (torch.cuda.max_memory_allocated() - before) / 2**20
    return returned, start.elapsed_time(end), peak if contender.allocates else None


def summarise(result: Result, reference: Sequence[float], steps: int) -> None:
    """Fills in the medians of `result.times_ms`."""
    ratios = [own / other for own, other in zip(result.times_ms, reference, strict=True)]
    result.ms = statistics.median(result.times_ms)
    result.us_per_step = 1e3 * result.ms / steps
    result.ratio = statistics.median(ratios)
    if len(ratios) > 1:
        low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
        result.ratio_quartiles = low, high


def difference(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The largest relative norm of a difference between two contenders' results."""
    pairs = zip(found, expected, strict=True)
    return float(torch.stack([(one - other).norm() / other.norm().clamp_min(1e-30) for one, other in pairs]).max())


def as_float(value: Any) -> Tensor:
    """Anybody's array, as a float32 tensor on the CPU."""
    if isinstance(value, Tensor):
        return value.detach().float().cpu()
    return torch.from_numpy(np.array(value, dtype=np.float32))


def reason(error: Exception) -> str:
    """The first line of an error."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:160]}"


def show(what: str, results: Mapping[str, Mapping[str, Result]], absent: Mapping[str, str]) -> None:
    """Prints a table of ratios."""
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    everything = [result for case in results.values() for result in case.values()]
    with_memory = any(result.peak_mib is not None for result in everything)
    headers = [
        "",
        "time / ours",
        "quartiles",
        "ms",
        "µs a step",
        "first call, ms",
        *["peak, MiB"] * with_memory,
        "note",
    ]
    table = Table(box=None, pad_edge=False)
    for header in headers:
        table.add_column(header, justify="left" if header in ("", "note") else "right", overflow="fold")
    for title, case in results.items():
        table.add_row(f"[bold]{escape(title)}")
        for name, result in case.items():
            low, high = result.ratio_quartiles or (None, None)
            spread = "" if low is None else f"{low:.2f} to {high:.2f}"
            numbers = [number(result.ms), number(result.us_per_step), number(result.first_ms)]
            peak = [number(result.peak_mib)] * with_memory
            note = "[red]failed: see below" if result.failure else "" if result.same else "other results"
            ratio = "" if result.ratio is None else f"[bold]{result.ratio:.2f}"
            table.add_row(f"  {escape(name)}", ratio, f"[dim]{spread}", *numbers, *peak, note)
        table.add_row()
    console.print(f"\n{escape(' '.join(what.split()))}", end="\n\n")
    console.print(table)
    for title, case in results.items():
        for name, result in case.items():
            if result.failure:
                console.print(f"[red]{escape(name)}[/red] at {escape(title)}: {escape(result.failure)}")
    for name, why in absent.items():
        console.print(f"[dim]not here: {escape(name)} ({escape(why)})")


def number(value: float | None) -> str:
    """Three digits or so."""
    return "" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"
