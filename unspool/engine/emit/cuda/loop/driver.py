"""Kernels on a GPU: compiled by NVRTC, launched by the CUDA driver."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from unspool.engine.emit.cuda.loop.nvrtc import bindings, cubin, done
from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.tiles import Limits


class Cuda:
    """A GPU.

    Args:
        device: which one.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def limits(self) -> Limits:
        """What it has, and whether float32 may be multiplied as TF32."""
        about = cast(Any, torch.cuda).get_device_properties(self.device)
        tf32 = bool(torch.backends.cuda.matmul.allow_tf32)
        return Limits(
            about.multi_processor_count, about.shared_memory_per_block_optin, about.regs_per_multiprocessor, tf32
        )

    def compile(self, text: KernelText) -> Any:
        """The kernel, loaded.

        Raises:
            CannotEmitError: if it cannot be compiled.
        """
        major, minor = torch.cuda.get_device_capability(self.device)
        binary = cubin(text.text(), f"sm_{major}{minor}")
        driver = bindings("driver")
        with torch.cuda.device(self.device):
            torch.cuda.current_stream()  # the context that is current from here on
            (module,) = done(driver.cuModuleLoadData(binary))
            (function,) = done(driver.cuModuleGetFunction(module, b"core"))
            most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            done(driver.cuFuncSetAttribute(function, most, text.places.shared.size))
        return function

    def resident(self, kernel: Any, threads: int, shared_bytes: int) -> int:
        """How many blocks of a kernel there can be at the same time."""
        driver = bindings("driver")
        with torch.cuda.device(self.device):
            (blocks,) = done(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, threads, shared_bytes))
        return int(blocks) * self.limits().processors

    def launch(
        self, kernel: Any, chunk: Sequence[int], blocks: int, threads: int, shared_bytes: int, *, together: bool
    ) -> None:
        """Runs a kernel on the current stream; all blocks at the same time, or none, if they work `together`."""
        driver = bindings("driver")
        told = (ctypes.c_int64 * len(chunk))(*chunk)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(told))
        with torch.cuda.device(self.device):
            stream = torch.cuda.current_stream().cuda_stream
            shape = (blocks, 1, 1, threads, 1, 1, shared_bytes, stream, ctypes.addressof(parameters))
            done(
                driver.cuLaunchCooperativeKernel(kernel, *shape)
                if together
                else driver.cuLaunchKernel(kernel, *shape, 0)
            )

    def numbers(self, numbers: Sequence[int]) -> Tensor:
        """Whole numbers on the device; the host does not wait for the copy."""
        return torch.tensor(list(numbers)).pin_memory().to(self.device, non_blocking=True)

    def trouble(self) -> Tensor:
        """Five zeros in memory of the host, which the device writes to by the same address."""
        return torch.zeros(5, dtype=torch.int64).pin_memory()
