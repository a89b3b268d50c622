"""Pads ragged chunks to few shapes, so that few graphs serve them: every step has all rows, a mask says which run.

A CUDA graph has one shape. So the numbers of steps and rows are rounded up, and each step is told which rows run: what
the others compute is thrown away, and their state stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.ops import INDEXING


def rounded_up(count: int) -> int:
    """The next larger of few numbers: powers of two; from 8 on one more between each two, from 256 on seven.

    >>> [rounded_up(count) for count in (1, 3, 5, 8, 9, 13, 17, 33, 64, 300)]
    [1, 4, 8, 8, 12, 16, 24, 48, 64, 320]
    """
    power = 1 << (count - 1).bit_length()
    apart = power if power <= 8 else power // 4 if power <= 256 else power // 16
    return -(-count // apart) * apart


def can_pad(core: Core) -> bool:
    """Whether a core takes rows that do not run: they are in front, and hold no indices, which may be out of range."""
    in_front = all(each.axis == 0 and not each.shared for each in (*core.streamed, *core.emitted))
    return in_front and not any(each.operation in INDEXING for each in core.instructions)


@dataclass(frozen=True)
class Padded:
    """Where the rows of a chunk are in a larger one.

    Args:
        steps, rows: of the larger one.
        runs: for each of its steps, which rows run; `[steps, rows]`.
        places: which of its rows, those of all steps one after another, those of the chunk are.
    """

    steps: int
    rows: int
    runs: Tensor
    places: Tensor

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, counts: Counts, device: torch.device) -> Padded:
        """Around a chunk with so many rows at each step.

        >>> Padded.of(Counts([3, 1]), torch.device("cpu")).places
        tensor([0, 1, 2, 4])
        """
        steps, rows = rounded_up(len(counts)), rounded_up(counts[0])
        ends = torch.tensor([*counts, *[0] * (steps - len(counts))], device="cpu")
        runs = torch.arange(rows, device="cpu") < ends[:, None]
        return cls(steps, rows, runs.to(device), runs.flatten().nonzero()[:, 0].to(device))

    def around(self, given: Tensor) -> Tensor:
        """Something like a value of the chunk with the rows of the larger one."""
        times = given.shape[0] // len(self.places)
        return given.new_empty(self.steps * self.rows * times, *given.shape[1:])

    def around_state(self, given: Tensor) -> Tensor:
        """The same for what is carried."""
        return given.new_empty(self.rows, *given.shape[1:])

    def put(self, own: Tensor, given: Tensor) -> None:
        """Writes the rows of the chunk to `own`, which has those of the larger one; what is beside them stays."""
        every = self.steps * self.rows
        own.view(every, own.numel() // every).index_copy_(0, self.places, _by_row(given, len(self.places)))

    def take(self, own: Tensor) -> Tensor:
        """What `put` would write."""
        times = own.shape[0] // (self.steps * self.rows)
        found = _by_row(own, self.steps * self.rows).index_select(0, self.places)
        return found.reshape(len(self.places) * times, *own.shape[1:])


def _by_row(tensor: Tensor, rows: int) -> Tensor:
    return tensor.reshape(rows, tensor.numel() // rows)
