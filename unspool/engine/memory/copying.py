"""Copies of many tensors at once: each operation costs the host of a GPU more than the GPU needs for a small one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def copy_all(own: Sequence[Tensor], given: Sequence[Tensor]) -> None:
    """Copies one list of tensors to another, by one operation.

    >>> own = [torch.zeros(2), torch.zeros(3)]
    >>> copy_all(own, [torch.ones(2), torch.ones(3)])
    >>> own[1]
    tensor([1., 1., 1.])
    """
    if own:
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
