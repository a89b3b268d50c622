"""Rows and beams: a batch of B rows with K beams each, side by side as `[B * K, ...]` or apart as `[B, K, ...]`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.loops.tensors import as_tensor
from unspool.structure import Structure, map_structure


def tile_batch(structure: Structure, multiplier: int) -> Structure:
    """Each row of each tensor `multiplier` times, one after another: a, a, a, b, b, b.

    What a beam search starts from, and the memory its cell attends to, has a row for each beam.

    Args:
        structure: a tensor `[batch, ...]`, or a nested structure of tensors.
        multiplier: how often each row is repeated: the beam width.

    Raises:
        TypeError: if `multiplier` is not an int.
        ValueError: if `multiplier` is below 1, or a tensor is a scalar.

    >>> from unspool.decode import tile_batch
    >>> tile_batch(torch.tensor([[1, 2], [3, 4]]), 2)
    tensor([[1, 2],
            [1, 2],
            [3, 4],
            [3, 4]])
    """
    times = as_count(multiplier, "multiplier")
    return map_structure(lambda leaf: _tile(leaf, times), structure)


def _tile(leaf: Any, times: int) -> Tensor:
    tensor = as_tensor(leaf, "structure")
    if tensor.dim() == 0:
        raise ValueError(f"tile_batch repeats rows, but {leaf!r} is a scalar: give tensors [batch, ...]")
    return tensor.repeat_interleave(times, 0)


def as_count(count: Any, name: str) -> int:
    """A positive int."""
    if isinstance(count, Tensor):
        count = count.item() if count.dim() == 0 else count
    if isinstance(count, bool) or not hasattr(count, "__index__") or isinstance(count, Tensor):
        raise TypeError(f"{name} must be an int, but is {count!r}")
    if count < 1:
        raise ValueError(f"{name} must be at least 1, but is {count}")
    return int(count)


def merge_beams(leaf: Any) -> Any:
    """`[B, K, ...]` as `[B * K, ...]`; scalars and TensorArrays have no beams and stay as they are."""
    return leaf.flatten(0, 1) if has_rows(leaf) else leaf


def split_beams(leaf: Any, beam_width: int) -> Any:
    """`[B * K, ...]` as `[B, K, ...]`; scalars and TensorArrays have no beams and stay as they are."""
    return leaf.unflatten(0, (len(leaf) // beam_width, beam_width)) if has_rows(leaf) else leaf


def take_beams(leaf: Any, beams: Tensor) -> Any:
    """The beams of each row of `[B, K, ...]` that `beams`, `[B, N]`, names: `[B, N, ...]`."""
    if not has_rows(leaf):
        return leaf
    batch, width = leaf.shape[:2]
    first = torch.arange(batch, device=beams.device).unsqueeze(1) * width
    return leaf.flatten(0, 1).index_select(0, (first + beams).flatten()).unflatten(0, beams.shape)


def has_rows(leaf: Any) -> bool:
    """Whether `leaf` is a tensor with a batch axis."""
    return isinstance(leaf, Tensor) and leaf.dim() > 0
