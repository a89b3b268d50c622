"""Training an LSTM over sequences of different lengths: `dynamic_rnn` against `torch.nn.LSTM`, padded and packed.

Usage: python benchmarks/loops.py [--rounds N] [--json FILE]

Every round times each contender once, in a random order, forward and backward; what is reported is the median over
rounds of each contender's time divided by `dynamic_rnn`'s in the same round. Above 1, `dynamic_rnn` is faster. Packed
`nn.LSTM` and `dynamic_rnn` compute what the lengths say; padded `nn.LSTM` computes every step.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

import unspool

SHAPES = [(32, 100, 64, 128), (1, 100, 64, 128), (16, 200, 128, 256), (128, 50, 28, 150)]
"""Batch, steps, depth of the inputs, units."""


def contenders(batch: int, steps: int, depth: int, units: int) -> dict[str, Callable[[], Tensor]]:
    """One training step of the same network, several ways; each returns a loss to call backward on."""
    inputs = torch.randn(batch, steps, depth)
    lengths = torch.randint(1, steps + 1, (batch,))
    lengths[0] = steps
    cell = unspool.LSTMCell(units, input_size=depth)
    lstm = nn.LSTM(depth, units, batch_first=True)

    def packed() -> Tensor:
        rows = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        return lstm(rows)[0].data.sum()

    return {
        "dynamic_rnn": lambda: unspool.dynamic_rnn(cell, inputs, lengths, dtype=torch.float32)[0].sum(),
        "nn.LSTM, packed": packed,
        "nn.LSTM, padded": lambda: lstm(inputs)[0].sum(),
    }


def measure(shape: tuple[int, int, int, int], rounds: int) -> dict[str, dict[str, float]]:
    """For each contender, the median of its milliseconds and of its ratio to `dynamic_rnn` in the same round."""
    torch.manual_seed(0)
    runs = contenders(*shape)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name in random.sample(list(runs), len(runs)):
            start = time.perf_counter()
            runs[name]().backward()
            times[name].append(1e3 * (time.perf_counter() - start))
    ours = times["dynamic_rnn"][1:]  # the first round warms up
    return {
        name: {
            "milliseconds": statistics.median(each[1:]),
            "ratio": statistics.median(theirs / own for theirs, own in zip(each[1:], ours, strict=True)),
        }
        for name, each in times.items()
    }


def environment() -> dict[str, str]:
    """What the numbers depend on."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "commit": commit,
        "machine": f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "unspool": unspool.__version__,
    }


def main() -> None:
    """Measures every shape and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()

    results = {str(shape): measure(shape, arguments.rounds) for shape in track(SHAPES, "measuring", transient=True)}
    table = Table("B, T, D, H", *next(iter(results.values())), title="time / dynamic_rnn's, forward and backward")
    for shape, row in results.items():
        cells = [f"{each['ratio']:.2f} ({each['milliseconds']:.0f} ms)" for each in row.values()]
        table.add_row(shape.strip("()"), *cells)
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps({"environment": environment(), "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
