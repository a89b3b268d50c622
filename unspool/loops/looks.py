"""What calls of a loop look like: two that look alike differ in the values of tensors alone."""

from __future__ import annotations

import operator
from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor

from unspool.cells.cell import RNNCell
from unspool.cells.rows_first import has_rows_first
from unspool.engine import Memory, stays_on_device
from unspool.structure import Structure, flatten, is_flat
from unspool.tracers import recorder
from unspool.wrapped import may_be_wrapped

_LOOK = operator.attrgetter("__class__", "shape", "dtype", "device", "layout", "requires_grad")
_NAMES, _COUNTS, _DTYPES = (str, type(None)), (int, type(None)), (torch.dtype, type(None))
"""Classes of options that are compared by value, and that are not equal to others of another class."""
_OWN = ("zero_state", "get_initial_state")
"""Where a first state comes from, if a loop is given none."""
_READ = ("default_dtype", "batch_axis")
"""What a loop reads of a cell, and its step does not."""


def look_of(inputs: Structure, lengths: Any, state: Structure, options: tuple[Any, ...]) -> Hashable | None:
    """What a call looks like; None where there is more to it than tensors and plain options.

    Args:
        inputs: as the caller gives them.
        lengths: likewise.
        state: likewise.
        options: likewise: dtype, parallel_iterations, swap_memory, time_major, scope and memory.

    >>> same = None, None, (None, None, False, False, None, None)
    >>> look_of(torch.zeros(2, 3, 4), *same) == look_of(torch.ones(2, 3, 4), *same), look_of([[1.0]], *same)
    (True, None)
    """
    dtype, parallel_iterations, swap_memory, time_major, scope, memory = options
    if inputs.__class__ is not Tensor or may_be_wrapped() or recorder() is not None:
        return None
    tensors = [inputs]
    if lengths is not None:  # those on the host are looked at, at every call
        if lengths.__class__ is not Tensor or lengths.dtype != torch.int64:
            return None
        if not stays_on_device(lengths, inputs.device):
            return None
        tensors.append(lengths)
    if state is not None:
        if state.__class__ is not Tensor and not is_flat(state):
            return None
        tensors += flatten(state)
    if memory is not None and (not isinstance(memory, Memory) or memory.__class__.__hash__ is None):
        return None
    plain = swap_memory.__class__ is bool and time_major.__class__ is bool and scope.__class__ in _NAMES
    if not plain or parallel_iterations.__class__ not in _COUNTS or dtype.__class__ not in _DTYPES:
        return None
    if any(each.__class__ is not Tensor for each in tensors):
        return None
    looks: tuple[Hashable, ...] = tuple(map(_LOOK, tensors))
    return looks, torch.is_grad_enabled(), state.__class__, options


def starts_plainly(cell: Any, state: Structure) -> bool:
    """Whether a loop does nothing to a cell before its first step, and begins with zeros if it is given no state."""
    if not isinstance(cell, RNNCell) or not has_rows_first(cell):
        return False
    kind, own = cell.__class__, vars(cell)
    if kind.__getattr__ is not RNNCell.__getattr__ or any(
        hasattr(getattr(kind, each, None), "__get__") for each in _READ
    ):
        return False  # no guard sees what these return
    begins = {getattr(each.__class__, "start_sequence", RNNCell.start_sequence) for each in cell.modules()}
    if begins != {RNNCell.start_sequence}:
        return False
    return state is not None or all(getattr(kind, each) is getattr(RNNCell, each) and each not in own for each in _OWN)
