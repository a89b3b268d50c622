"""Programmatic dependent launches: a kernel begins while the one before it ends.

A kernel takes a microsecond to begin, and more to fetch what it needs. What is there from the start, such as the
matrix of a product, it may fetch while the kernel before it still runs, and wait for that one only then: NVIDIA calls
it programmatic dependent launch. `griddepcontrol.wait` waits until the kernel before has ended, and so all before that
one, and what they wrote can be read; `griddepcontrol.launch_dependents` lets the next kernel begin.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

WAIT = """
__device__ __forceinline__ void wait_for_earlier() {  // whatever is not there from the start is read and written later
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
"""
"""What a kernel calls that may begin early, and lets the next one begin."""
OLDEST = (9, 0)
"""The first devices that can do so."""


class _Attribute(ctypes.Structure):
    """`CUlaunchAttribute`, of which the value is a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_int * 15))


class _Config(ctypes.Structure):
    """`CUlaunchConfig`."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_memory", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


MAY_BEGIN_EARLY = 6
"""`CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`"""

_how = threading.local()


@contextmanager
def overlapping() -> Generator[None]:
    """Kernels that are launched in the block may begin early: what they fetch first is not written in it."""
    _how.overlap = torch.cuda.get_device_capability() >= OLDEST
    try:
        yield
    finally:
        _how.overlap = False


def launch(
    function: Any, grid: Sequence[int], block: int, arguments: Sequence[Tensor | int], shared_memory: int = 0
) -> None:
    """Launches what torch compiled, on the current stream."""
    if not getattr(_how, "overlap", False):
        function(grid=tuple(grid), block=(block, 1, 1), args=list(arguments), shared_mem=shared_memory)
        return
    given = [each.data_ptr() if isinstance(each, Tensor) else each for each in arguments]
    kinds = [ctypes.c_void_p if isinstance(each, Tensor) else ctypes.c_int for each in arguments]
    values = [kind(each) for kind, each in zip(kinds, given, strict=True)]
    attribute = _Attribute(id=MAY_BEGIN_EARLY, value=1)
    config = _Config(
        (ctypes.c_uint * 3)(*grid),
        (ctypes.c_uint * 3)(block, 1, 1),
        shared_memory,
        torch.cuda.current_stream().cuda_stream,
        ctypes.pointer(attribute),
        1,
    )
    pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    driver: Any = torch.cuda._utils._get_gpu_runtime_library()  # pyright: ignore[reportPrivateUsage]  # no public name

    failure = driver.cuLaunchKernelEx(ctypes.byref(config), function.func, pointers, None)
    if failure:
        raise RuntimeError(f"a kernel could not be launched: CUDA error {failure}")
