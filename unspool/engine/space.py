"""Memory for what a loop makes.

A system hands out fresh memory page by page, at the first touch of each: for the histories of long sequences that can
take a tenth of a call. Large tensors therefore ask for huge pages, as NumPy's do.
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

LARGE = 4 << 20
"""Bytes from which a tensor asks for huge pages, of which it then has at least one whole."""


def empty(shape: Sequence[int], dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """`torch.empty`, with huge pages where they help.

    >>> empty((2, 3), torch.float32).shape
    torch.Size([2, 3])
    """
    tensor = torch.empty(shape, dtype=dtype, device=device)
    if tensor.nbytes >= LARGE and tensor.device.type == "cpu":
        advise = _advise()
        if advise is not None:
            first = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
            last = (tensor.data_ptr() + tensor.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
            advise(first, last - first, mmap.MADV_HUGEPAGE)  # advice: a system that does not take it goes on as before
    return tensor


@cache
def _advise() -> Any:
    """`madvise` of the C library, where a system has huge pages to give."""
    if not sys.platform.startswith("linux") or not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function
