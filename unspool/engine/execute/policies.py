"""What a loop keeps for its backward pass."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Keep:
    """Keeps the states and the results of the step's matrix products and large sums: backward repeats none of them.

    The fastest where memory is plentiful, and what TensorFlow does. For an LSTM, 6 N numbers a row and step.

    >>> Keep()
    Keep()
    """


@dataclass(frozen=True)
class Recompute:
    """Keeps the states alone; backward computes the rest of a chunk again, for all its steps at once.

    One more large matrix product a chunk. A state that is also an output, such as an LSTM's `h`, is not kept twice:
    in return, the outputs must not be changed in place before `backward()`. For an LSTM, N numbers a row and step.

    >>> Recompute()
    Recompute()
    """


@dataclass(frozen=True)
class Checkpoint:
    """Keeps every N-th state; backward runs the loop again between them, N steps at a time.

    For `T` steps, `ceil(T / N)` states are kept, and N steps are held as `Keep` holds them while backward is there.

    Args:
        every: N, at least 1.

    >>> Checkpoint(every=50)
    Checkpoint(every=50)
    """

    every: int

    def __post_init__(self) -> None:
        try:
            every = operator.index(self.every)
        except TypeError:
            raise TypeError(f"every must be an int, but is {self.every!r}") from None
        if every < 1:
            raise ValueError(f"every must be at least 1, but is {every}")


Memory = Keep | Recompute | Checkpoint


def check_memory(memory: Any) -> None:
    """Raises `TypeError` unless `memory` is a policy or None."""
    if memory is not None and not isinstance(memory, Keep | Recompute | Checkpoint):
        hint = " (write it with parentheses)" if memory in (Keep, Recompute) else ""
        raise TypeError(f"memory must be Keep(), Recompute(), Checkpoint(every=N) or None, but is {memory!r}{hint}")


def default_memory(device: torch.device) -> Memory:
    """What a loop keeps unless it is told: on a GPU products are cheap and memory is not."""
    return Recompute() if device.type == "cuda" else Keep()
