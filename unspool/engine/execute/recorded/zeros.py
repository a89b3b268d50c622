"""A first state of zeros that nobody has made yet: a recorded call has had them since it was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Zeros(NamedTuple):
    """Stands for a tensor of zeros among operands.

    Args:
        shape: its shape.
        strides: how its elements will lie, one behind the other.
        dtype: its dtype.
        device: where it will be.
    """

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def like(cls, leaf: Tensor) -> Zeros:
        """As many zeros as a tensor has elements.

        >>> Zeros.like(torch.ones(3, 2).t())[:2]
        (torch.Size([2, 3]), (3, 1))
        """
        return cls(leaf.shape, torch.empty(leaf.shape, device="meta").stride(), leaf.dtype, leaf.device)

    def make(self) -> Tensor:
        """The tensor, which is the caller's."""
        return torch.zeros(self.shape, dtype=self.dtype, device=self.device)


Operand = Tensor | Zeros


def made(operands: Sequence[Operand]) -> list[Tensor]:
    """The operands, with tensors where zeros were only meant.

    >>> made([torch.ones(1), Zeros.like(torch.ones(2))])
    [tensor([1.]), tensor([0., 0.])]
    """
    return [each.make() if isinstance(each, Zeros) else each for each in operands]
