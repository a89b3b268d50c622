"""Two loops on a GPU at the same time: each on a stream of its own, with its part of the multiprocessors.

Blocks of a loop wait for each other, so that all of them have to be there: loops that run beside each other must fit
together. Each is told how many there are, and takes no more than its part; then none waits for a place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from unspool.engine.emit import registry
from unspool.engine.emit.sharing import loops_at_once, sharing
from unspool.structure import flatten

First = TypeVar("First")
Second = TypeVar("Second")

_others: dict[tuple[torch.device, int], Any] = {}
"""The stream beside each one, always the same: memory that one has freed is used again by the same."""


def both(first: Callable[[], First], second: Callable[[], Second], device: torch.device) -> tuple[First, Second]:
    """What two functions return, each of which runs a loop; at the same time where an emitter's loops can.

    Args:
        first: one of them.
        second: the other. They return structures of tensors, and need nothing of each other.
        device: where they run.
    """
    if not registry.runs_at_once(device):
        return first(), second()
    with torch.cuda.device(device), sharing(loops_at_once() * 2):
        here = torch.cuda.current_stream()
        there = _beside(here)
        there.wait_stream(here)
        with torch.cuda.stream(there):
            other = second()
        found = first()
        here.wait_stream(there)
    for leaf in flatten(other):
        if isinstance(leaf, Tensor):
            leaf.record_stream(here)  # it was made there, and whoever frees it is here
    return found, other


def _beside(stream: Any) -> Any:
    key = (stream.device, stream.stream_id)
    if key not in _others:
        _others[key] = torch.cuda.Stream(stream.device)
    return _others[key]
