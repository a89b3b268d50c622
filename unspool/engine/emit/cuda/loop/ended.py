"""Space for what a core emits where rows end on the device: not every row of it is written.

Values that are lent nothing are zero there. Values that are alike lie in one allocation, so that all of them are
cleared, or lent, by one operation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from unspool.engine.emit.protocol import Lent
from unspool.engine.ir.program import Value

UNITS = (torch.complex128, torch.int64, torch.int32, torch.int16)
"""What rows are moved as, whatever they are: the largest that divides them."""


class _Alike(NamedTuple):
    """Values in one allocation.

    Args:
        numbers: theirs, among all emitted ones.
        whole: `[values, rows, ...]`.
        wanted: whether rows that have ended are lent what others have.
    """

    numbers: list[int]
    whole: Tensor
    wanted: bool


class Space:
    """The emitted values of a chunk.

    Args:
        likes: what they are.
        rows: of all steps.
        lent: what rows that have ended hold, if not zeros.
        aligned: bytes, of the first row of each value.
        device: where they are.
    """

    def __init__(
        self, likes: Sequence[Value], rows: int, lent: Lent | None, aligned: int, device: torch.device
    ) -> None:
        self._lent, self._alike = lent, list[_Alike]()
        groups: dict[tuple[tuple[int, ...], torch.dtype, int, bool, int], list[int]] = {}
        for number, like in enumerate(likes):
            size = math.prod(like.shape) * like.dtype.itemsize * rows * like.times
            alone = -1 if size % aligned == 0 else number
            wanted = lent is not None and lent.wanted[number]
            groups.setdefault((like.shape, like.dtype, like.times, wanted, alone), []).append(number)
        found: dict[int, Tensor] = {}
        for (shape, dtype, times, wanted, _), numbers in groups.items():
            make = torch.empty if wanted else torch.zeros
            whole = make((len(numbers), rows * times, *shape), dtype=dtype, device=device)
            self._alike.append(_Alike(numbers, whole, wanted))
            found.update(zip(numbers, whole.unbind(), strict=True))
        self.values = [found[number] for number in range(len(likes))]
        """For the core to write."""

    def finished(self) -> list[Tensor]:
        """The values, once the core has written them."""
        if self._lent is not None:
            for numbers, whole, wanted in self._alike:
                if wanted:
                    for number, own in zip(numbers, _picked(whole, self._lent.rows).unbind(), strict=True):
                        self.values[number] = own
        return self.values


def _picked(whole: Tensor, rows: Tensor) -> Tensor:
    """Some rows of each value, moved in large units."""
    flat = whole.flatten(2) if whole.dim() > 3 else whole
    unit = next(
        (each for each in UNITS if whole.dim() > 2 and flat.shape[2] * whole.itemsize % each.itemsize == 0), None
    )
    if unit is None or unit.itemsize < whole.itemsize or not whole.numel():
        return whole.index_select(1, rows)
    return flat.view(unit).index_select(1, rows).view(whole.dtype).view(whole.shape)
