"""Rows gathered and cleared, in larger units than their elements: kernels that do that cost by the element."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

UNITS = (torch.complex128, torch.int64, torch.int32, torch.int16)
"""What rows are cleared as, whatever they are: the largest that divides them."""
GATHERED = UNITS[1:]
"""What they are gathered as, where sixteen bytes do not divide them: of those that sixteen do, torch moves sixteen."""
VECTOR = 16
"""Bytes of these."""


def gather(leaf: Tensor, places: Tensor, out: Tensor | None = None) -> Tensor:
    """The rows of a contiguous leaf at these places; in `out`, contiguous too, if that is given.

    Along any other axis than the first of a contiguous tensor, torch has a kernel that takes eight times as long.

    >>> gather(torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, 1, 0]))
    tensor([[3, 4],
            [3, 4],
            [1, 2]])
    """
    if math.prod(leaf.shape[1:]) * leaf.itemsize % VECTOR == 0:
        return leaf.index_select(0, places) if out is None else torch.index_select(leaf, 0, places, out=out)
    if out is not None:
        source, target = _in_units([leaf, out], GATHERED)
        torch.index_select(source, 0, places, out=target)
        return out
    (source,) = _in_units([leaf], GATHERED)
    rows = source.index_select(0, places)
    return rows if source is leaf else rows.view(leaf.dtype).view(len(places), *leaf.shape[1:])


def clear(rows: Tensor, where: Tensor) -> Tensor:
    """Contiguous rows, in place, with zeros where `where`, a truth for each of them, says so.

    >>> clear(torch.ones(2, 2), torch.tensor([False, True]))
    tensor([[1., 1.],
            [0., 0.]])
    """
    (own,) = _in_units([rows], UNITS)
    own.masked_fill_(where.view(len(where), *[1] * (own.dim() - 1)), 0)
    return rows


def _in_units(leaves: Sequence[Tensor], units: Sequence[torch.dtype]) -> Sequence[Tensor]:
    """Contiguous leaves whose rows are alike, in the first of these units that divides rows, and where leaves begin."""
    width, size = math.prod(leaves[0].shape[1:]), leaves[0].itemsize
    for unit in units:
        if unit.itemsize <= size or not width:
            break
        begins = [begin for each in leaves for begin in (each.data_ptr(), each.storage_offset() * size)]
        if not any(each % unit.itemsize for each in (width * size, *begins)):
            return [each.view(len(each), width).view(unit) for each in leaves]
    return leaves
