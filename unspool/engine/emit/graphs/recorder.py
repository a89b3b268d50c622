"""Records whole passes over calls as CUDA graphs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager, suppress
from typing import Any, cast

import torch

from unspool.engine.emit.cuda.bindings import bindings, done
from unspool.engine.emit.cuda.precision import settings
from unspool.engine.emit.protocol import Made
from unspool.forking import ForkSafeLock

_C = cast(Any, torch)._C
_recording = ForkSafeLock()
"""One recording at a time: two would meet on one stream."""


class GraphRecorder:
    """Records functions, in memory that all of them share: what one has done with, the next ones take.

    So they must run on one stream, and be careful with what is left; `Recorder` says how.

    Args:
        device: where they run.
        after: what is to be done after every repetition.
    """

    def __init__(self, device: torch.device, after: Callable[[], None]) -> None:
        self._device, self._after = device, after
        self._pool: Any = None

    def apart(self) -> GraphRecorder:
        """Another one, which shares no memory with this."""
        return GraphRecorder(self._device, self._after)

    def place(self) -> Hashable | None:
        """The current stream, and how products are computed; None while somebody else captures it."""
        if torch.cuda.is_current_stream_capturing():
            return None
        return _C._cuda_getCurrentRawStream(self._device.index), *settings()

    def record(self, function: Callable[[], Made]) -> tuple[Callable[[], None], Made]:
        """What repeats a function, and what it returned.

        Raises:
            RuntimeError: if it cannot be captured.
        """
        with _recording.own, torch.cuda.device(self._device):
            if self._pool is None:
                self._pool = torch.cuda.graph_pool_handle()
            graph, after, aside = torch.cuda.CUDAGraph(), self._after, _Aside.of_current_stream(self._device)
            aside.warm_up()
            # What is collected may belong to other graphs, which must not be destroyed while one is captured.
            with torch.cuda.stream(aside.stream), _uncollected():
                made = self._captured(graph, function)

        def replay() -> None:
            graph.replay()
            after()

        return replay, made

    def _captured(self, graph: torch.cuda.CUDAGraph, function: Callable[[], Made]) -> Made:
        try:
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            made = function()
            graph.capture_end()
        except BaseException:
            with suppress(RuntimeError):  # it may be broken already
                graph.capture_end()
            with suppress(RuntimeError):  # which torch 2.11 has not done then, and would wait for ever after
                _C._cuda_endAllocateToPool(self._device.index, self._pool)
            raise
        return made


class _Aside:
    """Where to record what is to run on some stream.

    Products that are captured on one stream share the workspace of their library, whose address is in every graph. So
    each stream on which graphs run has another one, of nobody else's, to record them on. And the workspace is taken
    from a pool that is never given up: torch may drop it at any time, as it does where another graph is destroyed, but
    whoever takes that memory again then runs on the same stream.

    Args:
        device: of both streams.
    """

    _known: dict[tuple[torch.device, int], _Aside] = {}

    def __init__(self, device: torch.device) -> None:
        driver = bindings("driver")
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        torch.cuda.current_stream(device).query()  # binds the device's context to this thread
        (own,) = done(driver.cuStreamCreate(flags))  # torch hands out each of its own to several
        self.stream: Any = torch.cuda.ExternalStream(int(own), device)
        self._device, self._room = device, torch.cuda.MemPool()

    @classmethod
    def of_current_stream(cls, device: torch.device) -> _Aside:
        """For the current stream."""
        key = device, torch.cuda.current_stream(device).cuda_stream
        if key not in cls._known:
            cls._known[key] = cls(device)
        return cls._known[key]

    def warm_up(self) -> None:
        """Lets libraries take what they need with a thread's first product, which must not happen while recording."""
        self.stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self.stream), torch.cuda.use_mem_pool(self._room, self._device):
            small = torch.zeros(16, 16, dtype=torch.float16, device=self._device)
            torch.addmm(small[0], small, torch.mm(small, small))


@contextmanager
def _uncollected() -> Generator[None]:
    """No garbage is collected in here."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
