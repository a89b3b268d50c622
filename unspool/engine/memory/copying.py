"""Copies of many tensors at once, and to other devices, at little cost to the host of a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def copy_all(own: Sequence[Tensor], given: Sequence[Tensor]) -> None:
    """Copies one list of tensors to another, by one operation for each dtype.

    >>> own = [torch.zeros(2), torch.zeros(3)]
    >>> copy_all(own, [torch.ones(2), torch.ones(3)])
    >>> own[1]
    tensor([1., 1., 1.])
    """
    if len({each.dtype for each in own}) > 1:  # of different ones, torch copies one after another
        for dtype in dict.fromkeys(each.dtype for each in own):
            pairs = [pair for pair in zip(own, given, strict=True) if pair[0].dtype == dtype]
            copy_all([each for each, _ in pairs], [each for _, each in pairs])
    elif own:
        torch._foreach_copy_(  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]  # no public name
            list(own), list(given)
        )


def copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    """A copy of each tensor.

    >>> copies([torch.ones(2)])
    [tensor([1., 1.])]
    """
    found = [torch.empty_like(each) for each in tensors]
    copy_all(found, tensors)
    return found


def brought(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy on another device; of a single number of the host's, one that the host does not wait for.

    >>> brought(torch.tensor(0.5), torch.device("meta"))
    tensor(..., device='meta', size=())
    """
    if tensor.dim() or tensor.device.type != "cpu":
        return tensor.to(device)
    return torch.full((), tensor.item(), dtype=tensor.dtype, device=device)
