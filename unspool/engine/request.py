"""What the engine is asked for: a cell over sequences, and how."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from unspool.engine.memory.policies import Memory
from unspool.structure import Structure


@dataclass(frozen=True)
class Options:
    """How a loop runs, which never changes its result.

    Args:
        parallel_iterations: how many steps are worked on at once; None for what suits the batch and the device.
        swap_memory: whether what backward needs waits in host memory.
        memory: what is kept for backward; None for what suits the device.
    """

    parallel_iterations: int | None = None
    swap_memory: bool = False
    memory: Memory | None = None


@dataclass(frozen=True)
class Request:
    """A cell over sequences, checked by the caller.

    Args:
        cell: anything that looks like a cell, built.
        inputs: a structure of `[T, B, ...]` tensors; where there are `counts`, of `[sum(counts), ...]` tensors.
        lengths: int64 `[B]`, or None for full length.
        state: the initial state.
        output_dtype: the dtype of the outputs; None for a cell that does not know their size: as its step has them.
        options: how to run it.
        owner: who keeps the plan, if the cell was only made for the occasion.
        counts: the rows of each step, if inputs and outputs are packed: rows of all steps one after another, without
            padding, the longest sequence first. Then there are no lengths.
        order: which row of the caller's batch each of the packed sequences is; None if they are in its order. What the
            cell itself has of each row is in that order.
        look: by what the caller tells calls like this one from others, if those need not be checked and prepared again;
            see `known/cache.py`.
        starts_with_zeros: whether the caller has made the initial state, of zeros.
        fixed: whether nobody changes anything about the cell but the values of its weights, by the caller's word: then
            what one call has found out need not be looked for by the next.
    """

    cell: Any
    inputs: Structure
    lengths: Tensor | None
    state: Structure
    output_dtype: torch.dtype | None
    options: Options = field(default_factory=Options)
    owner: Any = None
    counts: tuple[int, ...] | None = field(default=None, kw_only=True)
    order: Tensor | None = field(default=None, kw_only=True)
    look: Hashable = field(default=None, kw_only=True)
    starts_with_zeros: bool = field(default=False, kw_only=True)
    fixed: bool = field(default=False, kw_only=True)

    @property
    def subject(self) -> Any:
        """Whom messages are about: the module or function that a cell was made of, if it was."""
        return self.owner if isinstance(self.owner, nn.Module | FunctionType) else self.cell


def stays_on_device(lengths: Tensor, device: torch.device) -> bool:
    """Whether the host would have to wait for lengths, and does not: they are not looked at."""
    return device.type == "cuda" and lengths.device == device
