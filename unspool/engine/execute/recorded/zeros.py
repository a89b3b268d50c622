"""A first state of zeros that nobody has made yet: a recorded call has had them since it was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor


class Zeros(NamedTuple):
    """Stands for a tensor of zeros among operands.

    Args:
        shape: of the tensor.
        strides: likewise.
        dtype: likewise.
        device: likewise.
    """

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def like(cls, leaf: Tensor) -> Zeros:
        """In the shape of a tensor.

        >>> Zeros.like(torch.ones(2, 3)).make().shape
        torch.Size([2, 3])
        """
        strides = torch.empty(leaf.shape, device="meta").stride()
        return cls(leaf.shape, strides, leaf.dtype, leaf.device)

    def make(self) -> Tensor:
        """The tensor, which is the caller's."""
        return torch.zeros(self.shape, dtype=self.dtype, device=self.device)


Operand = Tensor | Zeros


def made(operands: Sequence[Operand]) -> Sequence[Tensor]:
    """The operands, with tensors where zeros were only meant."""
    if all_made(operands):
        return operands
    return [each.make() if isinstance(each, Zeros) else each for each in operands]


def all_made(operands: Sequence[Operand]) -> TypeGuard[Sequence[Tensor]]:
    """Whether all of them are tensors."""
    return not any(isinstance(each, Zeros) for each in operands)
