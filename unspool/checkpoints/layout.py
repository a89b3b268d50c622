"""How weights are laid out in a checkpoint: what they are called, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import Tensor

Shape: TypeAlias = tuple[int, ...]


class Layout:
    """One way in which a checkpoint may hold the weights of a module."""

    names: tuple[str, ...]
    """What the variables are called, below the scope."""

    hint: str = ""
    """What to say if they are not there."""

    def shapes(self, found: Mapping[str, Shape]) -> Mapping[str, Shape]:
        """The shape that each variable must have, where these were found: a module may not have its own yet."""
        raise NotImplementedError

    def prepare(self, values: Mapping[str, Tensor]) -> Callable[[], None]:
        """What puts values of those shapes into the module; `ValueError` if that cannot be done."""
        raise NotImplementedError


def converted(name: str, value: Tensor, dtype: torch.dtype) -> Tensor:
    """Floating-point values in another floating dtype.

    Raises:
        ValueError: if either is no such dtype, or if a value is too large for the new one.

    >>> converted("bias", torch.ones(2, dtype=torch.float64), torch.float32)
    tensor([1., 1.])
    """
    if value.dtype == dtype:
        return value
    if not (value.dtype.is_floating_point and dtype.is_floating_point):
        raise ValueError(f"{name} holds {value.dtype}, but expected {dtype}")
    result = value.to(dtype)
    if not torch.equal(result.isfinite(), value.isfinite()):
        raise ValueError(f"{name} holds values that are too large for {dtype}")
    return result


def full_name(scope: str, name: str) -> str:
    """The name of a variable in a scope."""
    return f"{scope}/{name}" if scope else name
