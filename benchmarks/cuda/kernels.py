"""Where a call's time on the device goes: its kernels by name, each with its share, beside the time of the call.

`python -m benchmarks.cuda.kernels LSTM:64x256x512:bfloat16 "LayerNorm LSTM:64x256x512:bfloat16:ragged"`
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.cuda.problems import problem_of
from benchmarks.cuda.timing import streamed
from benchmarks.peers import dynamic_rnn

CALLS, WARM, MOST, NAME = 10, 4, 14, 90


def main() -> None:
    """Prints the kernels of forward passes and of training, for each case of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", metavar="CELL:BxTxH:DTYPE[:ragged]")
    for case in parser.parse_args().cases:
        print(case, *kernels(case), sep="\n", flush=True)


def kernels(case: str) -> Iterator[str]:
    """Lines: how long a training call takes, and its kernels, those that take longest first."""
    kind, shape, dtype, *rest = case.split(":")
    rows, steps, units = map(int, shape.split("x"))
    problem = problem_of(kind, (rows, steps, units), dtype, "cuda", ragged="ragged" in rest)
    lengths = None if problem.lengths is None else problem.lengths.cuda()
    run = dynamic_rnn(problem, "ours", lengths).run
    for _ in range(WARM):
        run()
    ms = streamed(run, "cuda", CALLS)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        streamed(run, "cuda", CALLS)
    times, counts = Counter[str](), Counter[str]()
    events: Any = seen.events()
    for each in events:
        times[each.name] += each.device_time
        counts[each.name] += 1
    total = sum(times.values()) / CALLS
    yield f"  {1e3 * ms:8.1f} us a call, {total:8.1f} us of kernels, {sum(counts.values()) / CALLS:.0f} of them"
    for name, us in times.most_common(MOST):
        yield f"  {us / CALLS:8.1f} us  {counts[name] / CALLS:4.1f} x  {name[:NAME]}"


if __name__ == "__main__":
    torch.zeros(1, device="cuda")
    main()
