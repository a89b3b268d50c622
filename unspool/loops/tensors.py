"""Tensors from what a caller may give in their place."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from unspool.structure import Structure, describe, map_structure
from unspool.tracers import constant


def as_tensor(leaf: Any, name: str) -> Tensor:
    """A tensor from a tensor, an array or a number; `name` is the argument it stands in.

    >>> as_tensor(np.arange(3)[::-1], "inputs")
    tensor([2, 1, 0])
    """
    if isinstance(leaf, Tensor):
        return leaf
    if leaf is None:
        raise ValueError(f"{name}: None values not supported")
    if not _is_number_like(leaf):
        raise TypeError(f"{name} must be made of tensors or arrays, but has {describe(leaf)}: {leaf!r}")
    try:
        return constant(_plain(leaf))
    except TypeError as error:
        raise TypeError(f"{name} has no dtype that torch knows: {leaf!r}") from error


def as_tensors(structure: Structure, name: str) -> Structure:
    """`structure` with tensors for its arrays and numbers; what is neither, such as a TensorArray, stays as it is."""
    return map_structure(
        lambda leaf: as_tensor(leaf, name) if leaf is None or _is_number_like(leaf) else leaf, structure
    )


def _is_number_like(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | np.generic | int | float | complex)


def _plain(value: Any) -> Any:
    # torch takes neither negative strides nor foreign byte orders, and warns of arrays that cannot be written.
    if not hasattr(value, "flags"):
        return value
    return np.require(value, value.dtype.newbyteorder("="), ["C", "W"])
