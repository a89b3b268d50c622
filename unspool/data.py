"""Batches of sequences: which rows each of many processes takes, so that none waits for another."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler

from unspool.flags import check_flag

POOL = 64
"""Steps whose rows are sorted together: enough that neighbours have nearly the same length, and other ones in every
epoch."""


class LengthBalancedBatchSampler(Sampler[list[int]]):
    """Batches of equally many rows and nearly the same total length in all processes, at every step.

    `dynamic_rnn` takes as long as the sum of a batch's lengths, and processes that train together wait for the slowest
    at every step. Each epoch is one random order of all rows. Of every 64 steps' rows, those of neighbouring lengths
    are put in groups of as many as there are processes, and a step is `batch_size` groups drawn at random: each process
    takes one row of each, the longest goes to whoever has the least so far. So a batch has rows of all lengths, as with
    any shuffled sampler, and the batches of the other processes at that step have rows like these.

    Every process makes the same division by itself, and takes its own part. All processes have equally many batches.
    The last ones may be smaller; where the rows that are left cannot be divided equally, some are taken twice, as by
    torch's `DistributedSampler`, or, with `drop_last`, left out.

    Args:
        lengths: the length of every row of the dataset, ints of at least 0: a list, an array or a tensor.
        batch_size: how many rows a process takes at a step.
        num_replicas: how many processes there are; by default those of `torch.distributed`, or one.
        rank: which of them this is; by default that of `torch.distributed`, or 0.
        shuffle: whether every epoch has an order of its own; else all have that of the dataset.
        drop_last: whether rows that do not fill a batch in every process are left out.
        seed: what the order is drawn from, together with the number of the epoch; the same in all processes.

    Raises:
        TypeError: if a length, a number or a flag is not one.
        ValueError: if one is out of range, there are no lengths, `drop_last` leaves nothing, or processes were started
            together that do not know of each other yet.

    >>> from torch.utils.data import DataLoader
    >>> lengths = [9, 1, 5, 5, 2, 8, 6, 4]
    >>> for rank in range(2):
    ...     sampler = LengthBalancedBatchSampler(lengths, 2, num_replicas=2, rank=rank, shuffle=False)
    ...     print([(batch, sum(lengths[row] for row in batch)) for batch in sampler])
    [([0, 1], 10), ([6, 7], 10)]
    [([2, 3], 10), ([5, 4], 10)]
    >>> loader = DataLoader(lengths, batch_sampler=LengthBalancedBatchSampler(lengths, 4, seed=1))
    >>> for epoch in range(2):
    ...     loader.batch_sampler.set_epoch(epoch)
    ...     assert sorted(length for batch in loader for length in batch.tolist()) == sorted(lengths)
    """

    def __init__(
        self,
        lengths: Sequence[int] | Tensor | np.ndarray[Any, Any],
        batch_size: int,
        *,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        drop_last: bool = False,
        seed: int = 0,
    ) -> None:
        check_flag("shuffle", shuffle)
        check_flag("drop_last", drop_last)
        self.lengths = _as_lengths(lengths)
        self.batch_size = _as_int("batch_size", batch_size, least=1)
        known = _processes(num_replicas, rank)
        self.num_replicas = _as_int("num_replicas", known[0] if num_replicas is None else num_replicas, least=1)
        self.rank = _as_int("rank", known[1] if rank is None else rank, least=0)
        if self.rank >= self.num_replicas:
            raise ValueError(f"rank must be less than num_replicas, {self.num_replicas}, but is {self.rank}")
        self.shuffle, self.drop_last = bool(shuffle), bool(drop_last)
        self.seed = _as_int("seed", seed, least=0)
        self.epoch = self.start = 0
        if not self._count():
            raise ValueError(
                f"drop_last leaves no batch: {len(self.lengths)} rows do not fill one of {self.batch_size} in each of "
                f"{self.num_replicas} processes; leave it away, or give a smaller batch_size"
            )

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Says which epoch comes next, the same in all processes.

        Args:
            epoch: the number of the epoch; each has an order of its own.
            start: how many of its batches are left out, since they were taken before training was interrupted.

        Raises:
            TypeError: if one of them is no int.
            ValueError: if one of them is negative, or there are not so many batches.

        >>> sampler = LengthBalancedBatchSampler([3, 1, 2, 4], 1)
        >>> whole = list(sampler)
        >>> sampler.set_epoch(0, start=3)
        >>> list(sampler) == whole[3:], len(sampler)
        (True, 1)
        """
        epoch, start = _as_int("epoch", epoch, least=0), _as_int("start", start, least=0)
        if start > self._count():
            raise ValueError(f"start is {start}, but an epoch has {self._count()} batches")
        self.epoch, self.start = epoch, start

    def __len__(self) -> int:
        return self._count() - self.start

    def __iter__(self) -> Iterator[list[int]]:
        random = np.random.Generator(np.random.PCG64([self.seed, self.epoch]))
        rows = np.arange(len(self.lengths))
        if self.shuffle:
            random.shuffle(rows)
        together = self.batch_size * self.num_replicas
        rows = rows[: self._count() * together]
        rows = np.concatenate([rows, np.resize(rows, -len(rows) % self.num_replicas)])
        groups: list[Any] = []
        for begin in range(0, len(rows), together * (POOL if self.shuffle else 1)):
            pool = rows[begin : begin + together * (POOL if self.shuffle else 1)]
            pool = pool[np.argsort(-self.lengths[pool], kind="stable")].reshape(-1, self.num_replicas)
            groups.append(random.permutation(pool) if self.shuffle else pool)
        every = np.concatenate(groups)
        for number in range(self.start, self._count()):
            dealt = _dealt(every[number * self.batch_size : (number + 1) * self.batch_size], self.lengths)
            yield dealt[(self.rank + number) % self.num_replicas]  # the longest of all batches goes to all in turn

    def _count(self) -> int:
        """How many batches of an epoch each process has."""
        whole, rest = divmod(len(self.lengths), self.batch_size * self.num_replicas)
        return whole if self.drop_last or not rest else whole + 1


def _dealt(groups: Any, lengths: Any) -> list[list[int]]:
    """Batches with a row of each group, of about equal total length. The rows of a group are sorted, longest first."""
    spread = lengths[groups[:, 0]] - lengths[groups[:, -1]]
    dealt: list[list[int]] = [[] for _ in range(groups.shape[1])]
    totals: Any = cast(Any, np.zeros)(groups.shape[1], np.int64)
    for group in groups[np.argsort(-spread, kind="stable")]:  # what is unequal first, so that the others make up for it
        hands = np.argsort(totals, kind="stable")
        for hand, row in zip(hands, group, strict=True):
            dealt[hand].append(int(row))
        totals[hands] += lengths[group]
    return dealt


def _processes(num_replicas: int | None, rank: int | None) -> tuple[int, int]:
    """How many processes torch knows of, and which this is; asked for only where one of the two is not given."""
    if num_replicas is not None and rank is not None:
        return num_replicas, rank
    distributed: Any = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size(), distributed.get_rank()
    started = os.environ.get("WORLD_SIZE", "1")
    if started != "1" or num_replicas is not None or rank is not None:
        missing = "num_replicas" if num_replicas is None else "rank"
        raise ValueError(
            f"{missing} is not given, and torch.distributed, which would know it, is not initialised (WORLD_SIZE is "
            f"{started}): call torch.distributed.init_process_group before, or give both num_replicas and rank"
        )
    return 1, 0


def _as_lengths(lengths: Any) -> Any:
    given: Any = lengths.detach().cpu() if isinstance(lengths, Tensor) else lengths
    found: Any = np.asarray(given)
    if found.ndim != 1 or not found.size:
        raise ValueError(
            f"lengths must have one int for every row of the dataset, at least one, but has shape {list(found.shape)}"
        )
    if not np.issubdtype(found.dtype, np.integer):
        raise TypeError(f"lengths must be ints, but are {found.dtype}")
    if (found < 0).any():
        row = int(np.argmax(found < 0))
        raise ValueError(f"lengths must be at least 0, but that of row {row} is {int(found[row])}")
    return found.astype(np.int64)


def _as_int(name: str, value: Any, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an int, but is {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, but is {value}")
    return int(cast(int, value))
