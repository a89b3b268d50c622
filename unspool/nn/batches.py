"""How a batch is laid out in time, from either end: sequences of one length, and packed ones of many."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor


class Full:
    """Sequences of one length, as time-major rows `[T, B, ...]`.

    >>> Full().enter(torch.tensor([[1], [2], [3]]), backwards=True).T
    tensor([[3, 2, 1]])
    """

    lengths: Tensor | None = None

    def enter(self, rows: Tensor, backwards: bool) -> Tensor:
        """Time-major inputs of a loop that begins at one end of each sequence."""
        return rows.flip(0) if backwards else rows

    def leave(self, outputs: Tensor, backwards: bool) -> Tensor:
        """The rows again, from what such a loop puts out."""
        return outputs.flip(0) if backwards else outputs


class Packed(Full):
    """Sequences of many lengths, the longest first, as the rows `[sum(lengths), ...]` of a `PackedSequence`.

    >>> batch = Packed(torch.tensor([2, 2, 1]))
    >>> batch.lengths
    tensor([3, 2])
    >>> inputs = batch.enter(torch.tensor([1, 10, 2, 20, 3]), backwards=True)
    >>> inputs.T
    tensor([[ 3,  2,  1],
            [20, 10,  0]])
    >>> batch.leave(inputs, backwards=True)
    tensor([ 1, 10,  2, 20,  3])
    """

    def __init__(self, batch_sizes: Tensor) -> None:
        self._steps, self._rows = len(batch_sizes), int(batch_sizes[0])
        runs = batch_sizes[:, None] > torch.arange(self._rows)
        self.lengths = self._lengths = runs.sum(0)
        self._time, self._row = runs.nonzero(as_tuple=True)

    def enter(self, rows: Tensor, backwards: bool) -> Tensor:
        """Time-major inputs, zero past the end of each sequence."""
        flat = cast(Tensor, _Spread.apply(rows, self._places(backwards), self._steps * self._rows))
        return flat.reshape(self._steps, self._rows, *rows.shape[1:])

    def leave(self, outputs: Tensor, backwards: bool) -> Tensor:
        """The rows within their lengths."""
        return cast(Tensor, _Collect.apply(outputs.flatten(0, 1), self._places(backwards)))

    def _places(self, backwards: bool) -> Tensor:
        return self._backwards if backwards else self._forwards

    @cached_property
    def _forwards(self) -> Tensor:
        return self._time * self._rows + self._row

    @cached_property
    def _backwards(self) -> Tensor:
        return (self._lengths[self._row] - 1 - self._time) * self._rows + self._row


class _Spread(torch.autograd.Function):
    """Rows in their places among zeros. It and `_Collect` are each other's adjoint: neither adds anything up."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor, size: int) -> Tensor:
        ctx.places = places
        return rows.new_zeros(size, *rows.shape[1:]).index_copy_(0, places, rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _Collect.apply(gradients[0], ctx.places), None, None


class _Collect(torch.autograd.Function):
    """The rows of these places, each of which is there once."""

    @staticmethod
    def forward(ctx: Any, flat: Tensor, places: Tensor) -> Tensor:
        ctx.places, ctx.size = places, len(flat)
        return flat.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _Spread.apply(gradients[0], ctx.places, ctx.size), None
