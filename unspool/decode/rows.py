"""Which rows of a batch are finished, and what becomes of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.loops.tensors import as_tensor
from unspool.step import select_rows, take_rows
from unspool.structure import Structure, map_structure
from unspool.tracers import constant


def as_finished(finished: Any, shape: tuple[int, ...] | None = None) -> Tensor:
    """`finished` as a bool tensor of that shape; one bool is spread over it.

    >>> as_finished([True, False])
    tensor([ True, False])
    """
    finished = constant(finished) if type(finished) in (list, tuple) else as_tensor(finished, "finished")
    if finished.dtype != torch.bool:
        raise TypeError(f"finished must be bool, but is {finished.dtype}")
    if shape is None and not finished.dim():
        raise ValueError("finished must have a bool for each row, but is a single one")
    if shape is not None and finished.dim() and finished.shape != shape:
        raise ValueError(f"finished must have shape {list(shape)}, but has shape {list(finished.shape)}")
    return finished if shape is None else finished.expand(shape)


class FinishedRows:
    """Rows that were finished before a step, in a batch where others still run.

    A finished row must neither change nor pass gradients on, whatever stands in it. But a cell may hold tensors of its
    own for the whole batch (the memory of an attention), so rows cannot simply be left out. Instead, a finished row
    borrows the inputs and the state of one that runs, and what comes of it is thrown away: a NaN in a finished row
    never meets the cell, and its gradients are exactly zero.
    """

    def __init__(self, finished: Tensor) -> None:
        self._running = ~finished
        own = torch.arange(len(finished), device=finished.device)
        self._lenders = torch.where(finished, self._running.int().argmax(), own)

    def borrow(self, structure: Structure) -> Structure:
        """`structure` with rows that run in the place of those that are finished."""
        return map_structure(lambda leaf: take_rows(leaf, self._lenders), structure)

    def keep(self, new: Structure, old: Structure) -> Structure:
        """`new`, but the finished rows of `old`. Scalars and TensorArrays have no rows and are always new."""
        return map_structure(lambda after, before: select_rows(self._running, after, before), new, old)

    def pad(self, output: Tensor, padding: float) -> Tensor:
        """`output` with `padding` in the finished rows."""
        return select_rows(self._running, output, output.new_full((), padding))
