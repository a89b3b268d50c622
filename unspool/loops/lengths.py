"""Sequence lengths: conversion, checks, and reversing sequences within their lengths."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.loops.tensors import as_tensor
from unspool.tracers import constant, has_values, static_shape


def as_lengths(sequence_length: Any, name: str = "sequence_length") -> Tensor:
    """`sequence_length` (the argument `name`) as an int64 vector, where it is; raises for anything but whole numbers.

    >>> as_lengths([3, 1])
    tensor([3, 1])
    """
    if type(sequence_length) in (list, tuple):
        # torch makes ints of bools among ints.
        if any(isinstance(entry, bool) or getattr(entry, "dtype", None) == torch.bool for entry in sequence_length):
            raise TypeError(f"{name} must hold ints, but has a bool: {sequence_length!r}")
        try:
            lengths = constant(sequence_length)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"{name} must be a vector of ints, but got {sequence_length!r}") from error
    else:
        lengths = as_tensor(sequence_length, name)
    if lengths.dim() != 1:
        raise ValueError(f"{name} must be a vector of length batch_size, but has shape {list(lengths.shape)}")
    whole = not (lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool)
    if not whole and lengths.numel():  # an empty list has no dtype of its own
        raise TypeError(f"{name} must hold ints, but is {lengths.dtype}")
    return lengths.to(torch.int64)


def check_one_length_a_row(lengths: Tensor, batch_size: int, steps: int | None = None) -> None:
    """Raises `ValueError` unless there are as many lengths as rows; `steps`, where inputs are one tensor, is a hint."""
    (found,) = static_shape(lengths)
    if found != batch_size:
        hint = in_the_other_order(found, steps)
        raise ValueError(f"sequence_length has {found} entries, but inputs have a batch of {batch_size}{hint}")


def in_the_other_order(rows: int, steps: int | None) -> str:
    """What to do if there are as many rows as steps were found in the inputs; empty if there are not."""
    if rows != steps:
        return ""
    return f" and {steps} steps: they are read as if these were exchanged, and time_major says which comes first"


def check_lengths_fit(lengths: Tensor, steps: int) -> None:
    """Raises `ValueError` naming the first row whose length is not within [0, steps].

    Only where looking is free: lengths on a GPU are clamped instead, since a look would wait for it, and so are those
    that have no values, or that a tracer will replace by others.
    """
    if lengths.device.type != "cpu" or not has_values(lengths):
        return
    wrong = ((lengths < 0) | (lengths > steps)).nonzero()
    if len(wrong):
        row = int(wrong[0])
        length = int(lengths[row])
        bound = "a length cannot be negative" if length < 0 else f"inputs have only {steps} steps"
        raise ValueError(f"sequence_length[{row}] is {length}, but {bound}")


def reverse_sequence(values: Tensor, lengths: Tensor | None) -> Tensor:
    """Time-major `values` with the first `lengths[b]` steps of each row in reverse; the padding stays in place.

    >>> reverse_sequence(torch.tensor([[1, 1], [2, 2], [3, 3]]), torch.tensor([3, 2])).T
    tensor([[3, 2, 1],
            [2, 1, 3]])
    """
    if lengths is None:
        return values.flip(0)
    shape = static_shape(values)
    steps, batch_size = shape[:2]
    time = torch.arange(steps, device=values.device)[:, None]
    lengths = lengths.to(values.device).clamp(0, steps)
    source = torch.where(time < lengths, lengths - 1 - time, time)
    rows = source * batch_size + torch.arange(batch_size, device=values.device)
    return values.flatten(0, 1).index_select(0, rows.flatten()).reshape(shape)
