"""Allocation: large tensors in recycled memory and huge pages.

A system hands out fresh memory page by page, at the first touch of each; for what backward needs, that can take a third
of a call. So freed memory is to be used again, and large tensors ask for huge pages, as NumPy's do.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

MAPPED = 128 << 10
"""Bytes from which the GNU C library at first asks the system for every piece of memory, and gives it back."""
MOST_MAPPED = 32 << 20
"""The most that it learns to keep."""
LARGE = 4 << 20
"""Bytes from which a tensor asks for huge pages, of which it then has at least one whole."""


def empty(shape: Sequence[int], dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """`torch.empty`, in memory that is quick to touch.

    >>> empty((2, 3), torch.float32).shape
    torch.Size([2, 3])
    """
    tensor = torch.empty(shape, dtype=dtype, device=device)
    if tensor.nbytes >= MAPPED and tensor.device.type == "cpu":
        _keep_freed_memory()
        advise = _advise()
        if advise is not None and tensor.nbytes >= LARGE:
            first = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
            last = (tensor.data_ptr() + tensor.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
            advise(first, last - first, mmap.MADV_HUGEPAGE)  # advice: a system that does not take it goes on as before
    return tensor


@cache
def _keep_freed_memory() -> None:
    """Frees one large piece of memory, untouched.

    From the size of what is freed, the GNU C library learns what size it had better keep for the next request (dynamic
    thresholds, in mallopt(3)). Without a large one it would give back the history of every call when the call ends.
    """
    torch.empty(MOST_MAPPED - MAPPED, dtype=torch.uint8, device="cpu")


@cache
def _advise() -> Any:
    """`madvise` of the C library, where a system has huge pages to give."""
    if not sys.platform.startswith("linux") or not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function
