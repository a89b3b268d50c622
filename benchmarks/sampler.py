"""Waiting for the slowest of many processes: the balanced sampler against a random one, on log-normal lengths.

    python -m benchmarks.sampler

What is counted are the steps of all rows that a process computes, which is what `dynamic_rnn` takes time for, and not
seconds: they are the same on every machine. 1 is without waiting.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.utils.data import BatchSampler, DistributedSampler

from unspool.data import LengthBalancedBatchSampler

SIGMAS, PROCESSES, BATCH_SIZES = (0.5, 1.0, 1.5), (2, 4, 8), (8, 32)


def slowest(batches: Any, lengths: Any) -> tuple[float, float]:
    """What the slowest process computes against the mean: step by step, as in training, and in an epoch as a whole."""
    totals = np.array([[lengths[batch].sum() for batch in each] for each in batches])
    return totals.max(0).sum() / totals.mean(0).sum(), totals.sum(1).max() / totals.sum(1).mean()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="of the dataset")
    options = parser.parse_args()
    table = Table(*("sigma", "processes", "batch size", "balanced", "random", "epoch: balanced", "epoch: random"))
    for sigma in SIGMAS:
        drawn = np.random.default_rng(0).lognormal(np.log(100), sigma, options.rows)
        lengths = np.maximum(1, drawn).astype(int)
        for processes in PROCESSES:
            for size in BATCH_SIZES:
                known: Any = [dict(num_replicas=processes, rank=rank, drop_last=True) for rank in range(processes)]
                ours = [LengthBalancedBatchSampler(lengths, size, **each) for each in known]
                rows: Any = torch.arange(options.rows)
                random = [BatchSampler(DistributedSampler(rows, **each), size, drop_last=True) for each in known]
                (step, epoch), (random_step, random_epoch) = slowest(ours, lengths), slowest(random, lengths)
                numbers = [f"{each:.3f}" for each in (step, random_step, epoch, random_epoch)]
                table.add_row(str(sigma), str(processes), str(size), *numbers)
    Console().print(table)


if __name__ == "__main__":
    main()
