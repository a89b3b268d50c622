"""The residual store: what a loop keeps for backward, chunk by chunk, on its device or in pinned host memory."""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class ResidualStore:
    """Lists of tensors, kept one after another and taken back in the opposite order.

    With `swap`, a CUDA device, each list goes to pinned host memory on a stream of its own while the device goes on
    computing, and comes back one list ahead of its use.

    >>> store = ResidualStore()
    >>> store.keep([torch.zeros(2)])
    >>> store.keep([torch.ones(2), torch.ones(3)])
    >>> [len(each) for each in ResidualStore.reading(store.lengths, store.saved()).take()]
    [2, 3]
    """

    IN_FLIGHT = 2
    """How many lists may be on their way to the host: the device's memory is bounded only if the host waits."""

    def __init__(self, swap: torch.device | None = None) -> None:
        self.lengths: list[int] = []
        self._tensors: list[Tensor] = []
        self._device = swap
        self._stream = None if swap is None else torch.cuda.Stream(swap)
        self._pinned = True
        self._copies: deque[Any] = deque()
        self._ahead: list[Tensor] | None = None

    def keep(self, tensors: Sequence[Tensor]) -> None:
        """Keeps a list of tensors, which must not change from now on."""
        compact = _compact(tensors)
        self.lengths.append(len(compact))
        self._tensors += compact if self._stream is None else self._send(compact, self._stream)

    def saved(self) -> list[Tensor]:
        """Everything that was kept; what `reading` takes."""
        for event in self._copies:
            event.synchronize()
        self._copies.clear()
        return self._tensors

    @classmethod
    def reading(
        cls, lengths: Sequence[int], tensors: Sequence[Tensor], swap: torch.device | None = None
    ) -> ResidualStore:
        """A store of what was kept, to be taken back."""
        store = cls(swap)
        store.lengths, store._tensors = list(lengths), list(tensors)
        return store

    def take(self) -> list[Tensor]:
        """The last list that was kept and not yet taken."""
        if self._stream is None or self._device is None:
            return self._pop()
        now = self._fetch(self._stream) if self._ahead is None else self._ahead
        current = torch.cuda.current_stream(self._device)
        current.wait_stream(self._stream)
        for tensor in now:
            tensor.record_stream(current)
        self._ahead = self._fetch(self._stream) if self.lengths else None
        return now

    def _pop(self) -> list[Tensor]:
        count = self.lengths.pop()
        cut = len(self._tensors) - count
        taken = self._tensors[cut:]
        del self._tensors[cut:]
        return taken

    def _send(self, tensors: Sequence[Tensor], stream: torch.cuda.Stream) -> list[Tensor]:
        if len(self._copies) >= self.IN_FLIGHT:
            self._copies.popleft().synchronize()
        stream.wait_stream(torch.cuda.current_stream(self._device))
        hosts: list[Tensor] = []
        with torch.cuda.stream(stream):
            for tensor in tensors:
                host = self._host_memory(tensor)
                host.copy_(tensor, non_blocking=True)
                tensor.record_stream(stream)
                hosts.append(host)
            self._copies.append(stream.record_event())
        return hosts

    def _host_memory(self, like: Tensor) -> Tensor:
        if self._pinned:
            try:
                return torch.empty(like.shape, dtype=like.dtype, device="cpu", pin_memory=True)
            except RuntimeError as error:
                self._pinned = False
                text = f"swap_memory: no pinned host memory ({error}); pageable memory is used, which is slower"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
        return torch.empty(like.shape, dtype=like.dtype, device="cpu")

    def _fetch(self, stream: torch.cuda.Stream) -> list[Tensor]:
        # Not before what is computed now: else all that was kept could be back before any of it is used.
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            return [host.to(self._device, non_blocking=True) for host in self._pop()]


def _compact(tensors: Sequence[Tensor]) -> list[Tensor]:
    """`tensors`, copied where they are a small part of what they would keep alive."""
    if all(tensor.nbytes == tensor.untyped_storage().nbytes() for tensor in tensors):
        return list(tensors)
    used: Counter[int] = Counter()
    for tensor in tensors:
        used[tensor.untyped_storage().data_ptr()] += tensor.nbytes
    return [
        tensor.clone() if used[storage.data_ptr()] < storage.nbytes() else tensor
        for tensor in tensors
        for storage in [tensor.untyped_storage()]
    ]
