"""Flags that start rows anew, checked, for both directions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.layers.batches import Padded
from unspool.structure import flatten


def as_flags(resets: Any, batch: Padded, bidirectional: bool) -> tuple[Tensor, ...]:
    """The flags of the steps at which rows start anew: of the way forwards, and of the way back.

    A flag is between a step and the one before it. On the way back it is met by the one before.

    Raises:
        TypeError: if `resets` is no tensor of bools.
        ValueError: if it has not one flag for each step of each row.
    """
    flags = torch.as_tensor(resets)
    if flags.dtype != torch.bool:
        raise TypeError(f"resets must be bools, but is {flags.dtype}: write resets.bool(), or done != 0")
    first = flatten(batch.inputs)[0]
    time = 1 if batch.batch_first else 0
    expected = list(first.shape[:2])
    if batch.unbatched:
        expected.pop(1 - time)
    if list(flags.shape) != expected:
        axes = "[time]" if batch.unbatched else "[batch, time]" if batch.batch_first else "[time, batch]"
        raise ValueError(f"resets has shape {list(flags.shape)}, but x has {expected} steps, {axes}")
    flags = (flags.unsqueeze(1 - time) if batch.unbatched else flags).to(first.device)
    if not bidirectional:
        return (flags,)
    last = torch.zeros_like(flags.narrow(time, 0, 1)) if flags.shape[time] else flags
    return flags, torch.cat([flags.narrow(time, 1, max(flags.shape[time] - 1, 0)), last], time)
