"""Kernels on a GPU: compiled by NVRTC, launched by the CUDA driver."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import Any, cast

import torch
from torch import Tensor

from unspool.engine.emit.cuda.bindings import bindings, done
from unspool.engine.emit.cuda.loop.nvrtc import cubin
from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.tiles import Limits
from unspool.engine.emit.cuda.precision import tf32_is_allowed
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.sharing import loops_at_once
from unspool.engine.reasons import Code

_C = cast(Any, torch)._C
_AS_IT_IS = nullcontext()
CLUSTERS = 9
"""The first compute capability with clusters of blocks."""


class _Thread(threading.local):
    """What is known of the thread that asks."""

    has_context = False
    """Whether a context has been bound in it: whoever changes devices by torch binds that of the other device."""


class Cuda:
    """A GPU.

    Args:
        device: which one.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = torch.device("cuda", torch.cuda.current_device()) if device == torch.device("cuda") else device
        about = cast(Any, torch.cuda).get_device_properties(self.device)
        self._architecture = f"sm_{about.major}{about.minor}"
        self._limits = Limits(
            about.multi_processor_count,
            about.shared_memory_per_block_optin,
            about.regs_per_multiprocessor,
            clusters=about.major >= CLUSTERS,
        )
        self._known: dict[tuple[int, bool], Limits] = {}
        self._thread = _Thread()

    def limits(self) -> Limits:
        """What a loop may have of it, and whether float32 may be multiplied as TF32."""
        now = loops_at_once(), tf32_is_allowed()
        if now not in self._known:  # asked for several times a call
            processors = max(1, self._limits.processors // now[0])
            self._known[now] = replace(self._limits, processors=processors, tf32=now[1])
        return self._known[now]

    def compile(self, text: KernelText) -> Any:
        """The kernel, loaded.

        Raises:
            CannotEmitError: if it cannot be compiled or loaded.
        """
        binary, driver = cubin(text.text(), self._architecture), self._driver
        most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        with self._current():
            try:
                (module,) = done(driver.cuModuleLoadData(binary))
                (function,) = done(driver.cuModuleGetFunction(module, text.name.encode()))
                done(driver.cuFuncSetAttribute(function, most, text.places.shared.size))
            except RuntimeError as error:
                raise CannotEmitError(f"what NVRTC has made cannot be loaded: {error}", Code.COMPILER_FAILED) from error
        return function

    def resident(self, kernel: Any, threads: int, shared_bytes: int, cluster: int) -> int:
        """How many blocks of a loop's kernel there can be at the same time, in clusters of so many."""
        driver, processors = self._driver, self.limits().processors
        with self._current():
            (blocks,) = done(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, threads, shared_bytes))
            fit = int(blocks) * processors
            if cluster > 1:  # whose blocks have multiprocessors that are neighbours
                shape = self._shape(cluster, threads, shared_bytes)
                (clusters,) = done(driver.cuOccupancyMaxActiveClusters(kernel, shape))
                fit = min(fit, int(clusters) // loops_at_once() * cluster)
        return fit

    def _shape(self, cluster: int, threads: int, shared_bytes: int) -> Any:
        """A launch of one cluster, of a kernel that says itself how large it is."""
        shape = self._driver.CUlaunchConfig()
        shape.gridDimX, shape.gridDimY, shape.gridDimZ = cluster, 1, 1
        shape.blockDimX, shape.blockDimY, shape.blockDimZ = threads, 1, 1
        shape.sharedMemBytes = shared_bytes
        return shape

    def launch(
        self, kernel: Any, chunk: Sequence[int], blocks: int, threads: int, shared_bytes: int, *, together: bool
    ) -> None:
        """Runs a kernel on the current stream; all blocks at the same time, or none, if they work `together`."""
        driver, told = self._driver, array("q", chunk)
        parameters = array("q", (told.buffer_info()[0],))  # a kernel has one, which the driver copies at once
        stream = _C._cuda_getCurrentRawStream(self.device.index)  # as the code has it that Inductor writes
        shape = (blocks, 1, 1, threads, 1, 1, shared_bytes, stream, parameters.buffer_info()[0])
        with self._current():
            done(
                driver.cuLaunchCooperativeKernel(kernel, *shape)
                if together
                else driver.cuLaunchKernel(kernel, *shape, 0)
            )

    def numbers(self, numbers: Sequence[int]) -> Tensor:
        """Whole numbers on the device; the host does not wait for the copy."""
        if torch.cuda.is_current_stream_capturing():  # a copy would read the host's memory again when it is replayed
            runs = [torch.full((len(list(run)),), value, device=self.device) for value, run in groupby(numbers)]
            return torch.cat(runs)
        return torch.tensor(list(numbers)).pin_memory().to(self.device, non_blocking=True)

    def trouble(self) -> Tensor:
        """Five zeros in memory of the host, which the device writes to by the same address."""
        return torch.zeros(5, dtype=torch.int64).pin_memory()

    def _current(self) -> AbstractContextManager[None]:
        """The device is the current one, and its context is."""
        here = self._thread.has_context and torch.cuda.current_device() == self.device.index
        return _AS_IT_IS if here else self._made_current()

    @contextmanager
    def _made_current(self) -> Generator[None]:
        """The same where they may not be: in a thread, torch binds a context only with its first launch."""
        driver = self._driver
        with torch.cuda.device(self.device):
            (now,) = done(driver.cuCtxGetCurrent())
            if not int(now):
                done(driver.cuCtxSetCurrent(self._context))
            self._thread.has_context = True
            yield

    @cached_property
    def _driver(self) -> Any:
        return bindings("driver")

    @cached_property
    def _context(self) -> Any:
        driver = self._driver
        (device,) = done(driver.cuDeviceGet(self.device.index))
        (context,) = done(driver.cuDevicePrimaryCtxRetain(device))
        return context
