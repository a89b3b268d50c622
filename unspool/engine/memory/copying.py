"""Copies of many tensors at once, and to other devices, at little cost to the host of a GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

LARGE = 1 << 20
"""Bytes from which a tensor is copied by an operation of its own.

Torch's kernel for many tensors gives each 65,536 elements to one block: on an H200 it moves 1.8 TB/s, where a copy of
dense tensors that lie alike moves 4. Of a smaller tensor that saves less than another launch costs.
"""
FEW = 3
"""Small tensors of a dtype up to which an operation for each takes a GPU's host less than one for all of them."""


def copy_all(own: Sequence[Tensor], given: Sequence[Tensor]) -> None:
    """Copies one list of tensors to another: large or few ones one by one, others by one operation for each dtype.

    >>> own = [torch.zeros(2), torch.zeros(3)]
    >>> copy_all(own, [torch.ones(2), torch.ones(3)])
    >>> own[1]
    tensor([1., 1., 1.])
    """
    together = _together(own)
    for number, (to, source) in enumerate(zip(own, given, strict=True)):
        if number not in together:
            to.copy_(source)
    _copy_together(own, given, together)


def copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    """A copy of each tensor.

    >>> copies([torch.ones(2)])
    [tensor([1., 1.])]
    """
    together = _together(tensors)
    found = [torch.empty_like(each) if number in together else each.clone() for number, each in enumerate(tensors)]
    _copy_together(found, tensors, together)
    return found


def _together(tensors: Sequence[Tensor]) -> Collection[int]:
    """The numbers of the small tensors of which there are many, of one dtype."""
    small = [(number, each.dtype) for number, each in enumerate(tensors) if each.nbytes < LARGE]
    if len(small) <= FEW:
        return ()
    many = Counter(dtype for _, dtype in small)
    return {number for number, dtype in small if many[dtype] > FEW}


def _copy_together(own: Sequence[Tensor], given: Sequence[Tensor], numbers: Collection[int]) -> None:
    """Copies tensors of these numbers, those of a dtype at once: torch copies those of several one after another."""
    by_dtype: dict[torch.dtype, list[int]] = {}
    for number in sorted(numbers):
        by_dtype.setdefault(own[number].dtype, []).append(number)
    for alike in by_dtype.values():
        targets, sources = [own[number] for number in alike], [given[number] for number in alike]
        torch._foreach_copy_(targets, sources)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]  # no public name


def brought(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy on another device; of a single number of the host's, one that the host does not wait for.

    >>> brought(torch.tensor(0.5), torch.device("meta"))
    tensor(..., device='meta', size=())
    """
    if tensor.dim() or tensor.device.type != "cpu":
        return tensor.to(device)
    return torch.full((), tensor.item(), dtype=tensor.dtype, device=device)
