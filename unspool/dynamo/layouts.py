"""How results and gradients of the operation lie in memory: as its fakes say, and each in memory of its own.

Outputs, and gradients of inputs, have time first in memory, as the engine writes them; everything else is dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor


def time_first(tensor: Tensor) -> Tensor:
    """`[batch, time, ...]`, laid out as `[time, batch, ...]`."""
    by_time = tensor.transpose(0, 1)
    return tensor if by_time.is_contiguous() else by_time.contiguous().transpose(0, 1)


def space(like: Tensor, rows_first: bool, steps: Any = None) -> Tensor:
    """An empty tensor, for a fake: `like`, or like it with other steps, with time first in memory."""
    if not rows_first:
        return like.new_empty(like.shape if steps is None else (steps, *like.shape[1:]))
    rows, before = like.shape[:2]
    return like.new_empty((before if steps is None else steps, rows, *like.shape[2:])).transpose(0, 1)


def laid_out(results: Sequence[Tensor], turned: int, others: Sequence[Tensor]) -> list[Tensor]:
    """Results as the fakes are, the first ones with time first in memory, none in the memory of another."""
    made = [time_first(each) if number < turned else each.contiguous() for number, each in enumerate(results)]
    return separate(made, others)


def separate(tensors: Sequence[Tensor], others: Sequence[Tensor]) -> list[Tensor]:
    """`tensors`, copied where one shares memory with another, or with one before it."""
    seen, made = _memory(others), list[Tensor]()
    for each in tensors:
        memory = each.untyped_storage().data_ptr()
        made.append(each.clone() if memory in seen else each)
        seen.add(memory)
    return made


def in_own_memory(tensors: Sequence[Tensor], others: Sequence[Tensor]) -> list[Tensor]:
    """`tensors`, copied where one shares memory with one of the others, whose memory a compiler may reuse."""
    seen = _memory(others)
    return [each.clone() if each.untyped_storage().data_ptr() in seen else each for each in tensors]


def _memory(tensors: Sequence[Tensor]) -> set[int]:
    return {each.untyped_storage().data_ptr() for each in tensors} - {0}
