"""How a batch is laid out in time, from either end: sequences of one length, and packed ones of many."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor


class Full:
    """Sequences of one length, as time-major rows `[T, B, ...]`.

    >>> Full(2).reversed(torch.tensor([[1, 10], [2, 20], [3, 30]]))
    tensor([[ 3, 30],
            [ 2, 20],
            [ 1, 10]])
    """

    counts: tuple[int, ...] | None = None
    """The rows of each step, if they are packed."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size

    def reversed(self, rows: Tensor) -> Tensor:
        """The rows in the order of a loop that begins at the end of each sequence; and back."""
        return rows.flip(0)


class Packed(Full):
    """Sequences of many lengths, as the rows `[sum(lengths), ...]` of a `PackedSequence`, the longest first.

    >>> Packed(torch.tensor([2, 2, 1])).reversed(torch.tensor([1, 10, 2, 20, 3]))
    tensor([ 3, 20,  2, 10,  1])
    """

    def __init__(self, batch_sizes: Tensor) -> None:
        self.counts = tuple(cast("list[int]", batch_sizes.tolist()))
        super().__init__(self.counts[0])
        self._batch_sizes = batch_sizes

    def reversed(self, rows: Tensor) -> Tensor:
        """Each sequence from its end to its start."""
        return cast(Tensor, _Reversed.apply(rows, self._order))

    @cached_property
    def _order(self) -> Tensor:
        """Where the row is that takes the place of each: an order that undoes itself."""
        runs = self._batch_sizes[:, None] > torch.arange(self.batch_size)
        time, row = runs.nonzero(as_tuple=True)
        starts = self._batch_sizes.cumsum(0) - self._batch_sizes
        return starts[runs.sum(0)[row] - 1 - time] + row


class _Reversed(torch.autograd.Function):
    """Rows in an order that undoes itself: its adjoint is the same, where that of an index would add rows up."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor) -> Tensor:
        ctx.order = order
        return rows.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _Reversed.apply(gradients[0], ctx.order), None
