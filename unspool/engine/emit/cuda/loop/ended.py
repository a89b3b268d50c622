"""Space for what a core emits where rows end on the device: not every row of it is written.

Values of an adjoint that are to be zero there and are alike lie in one allocation, which one operation clears.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from unspool.engine.emit.protocol import Chunk, Padding
from unspool.engine.ir.program import Value
from unspool.engine.memory.gathering import gather


class Space:
    """The emitted values of a chunk.

    Args:
        likes: what they are.
        chunk: the chunk.
        aligned: bytes, of the first row of each value.
        device: where they are.
    """

    def __init__(self, likes: Sequence[Value], chunk: Chunk, aligned: int, device: torch.device) -> None:
        rows, self._lent = chunk.counts.total, chunk.lent
        self._padding = chunk.padding or [Padding.ZEROS] * len(likes)
        found: dict[int, Tensor] = {}
        zeros: dict[tuple[tuple[int, ...], torch.dtype, int, int], list[int]] = {}
        for number, (like, padding) in enumerate(zip(likes, self._padding, strict=True)):
            if padding is Padding.ZEROS:
                size = math.prod(like.shape) * like.dtype.itemsize * rows * like.times
                together = chunk.reverse and size % aligned == 0  # forward, some are kept, and others not
                alone = -1 if together else number
                zeros.setdefault((like.shape, like.dtype, like.times, alone), []).append(number)
            else:  # where nobody runs, nobody lends anything: zeros, since an index may be computed of it
                make = torch.zeros if padding is Padding.LENT else torch.empty
                found[number] = make((rows * like.times, *like.shape), dtype=like.dtype, device=device)
        for (shape, dtype, times, _), numbers in zeros.items():
            whole = torch.zeros((len(numbers), rows * times, *shape), dtype=dtype, device=device)
            found.update(zip(numbers, whole.unbind(), strict=True))
        self.values = [found[number] for number in range(len(likes))]
        """For the core to write."""

    def finished(self) -> list[Tensor]:
        """The values, once the core has written them."""
        for number, padding in enumerate(self._padding):
            if padding is Padding.LENT:
                assert self._lent is not None
                self.values[number] = gather(self.values[number], self._lent)
        return self.values
