"""Sizes: what a cell says of one row of its state or output.

An int `n` is a vector `[n]`, a `torch.Size` is its own shape, and a nested structure of these is a structure of
tensors. The batch dimension is never part of a size.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

import torch
from torch import Tensor

from unspool.structure import Structure, flatten, map_structure


class _Unknown(Enum):
    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN: Final = _Unknown.UNKNOWN
"""The size of a cell that was not told it: its state is what a loop is given, its output what its step puts out."""


def shape_of(size: Any, name: str = "size") -> tuple[int, ...]:
    """The shape of one row: `(n,)` for an int `n`, its dimensions for a `torch.Size`.

    >>> shape_of(3), shape_of(torch.Size([2, 5])), shape_of(torch.Size([]))
    ((3,), (2, 5), ())
    """
    if size.__class__ is int and size >= 0:
        return (size,)
    if isinstance(size, torch.Size):
        shape = tuple(size)
    elif size is UNKNOWN:
        raise ValueError(f"{name} is needed here, but the cell was not told it: give unspool.cell its size")
    else:
        try:
            shape = (operator.index(size),)
        except TypeError:
            raise ValueError(
                f"{name} must be fully defined: an int, a torch.Size or a nested structure of these, "
                f"but one of its leaves is {size!r}"
            ) from None
    if any(dim < 0 for dim in shape):
        raise ValueError(f"{name} must be fully defined, but one of its leaves is {size!r}, with a dimension below 0")
    return shape


def check_sizes(sizes: Structure, name: str) -> None:
    """Raises `ValueError` unless every leaf of `sizes` is an int or a `torch.Size` without unknown dimensions."""
    for size in flatten(sizes):
        shape_of(size, name)


def size_of(rows: Tensor) -> Any:
    """The size of a batch of rows: the inverse of `shape_of`, an int where an int can say it.

    >>> size_of(torch.zeros(4, 3)), size_of(torch.zeros(4, 2, 5))
    (3, torch.Size([2, 5]))
    """
    return rows.shape[1] if rows.dim() == 2 else rows.shape[1:]


def axis_of_layers(found: Sequence[int], expected: Sequence[int]) -> str:
    """What to do about a state that has torch.nn's axis of layers and directions in front; empty if it has not."""
    if list(found) != [1, *expected]:
        return ""
    return "; the axis of layers in front, which torch.nn's layers have, is to be dropped: state[0]"


def zeros(sizes: Structure, batch_size: int, dtype: torch.dtype, device: Any = None) -> Structure:
    """Zeros of shape `[batch_size] + size` for every leaf of `sizes`."""
    return map_structure(lambda size: torch.zeros((batch_size, *shape_of(size)), dtype=dtype, device=device), sizes)
