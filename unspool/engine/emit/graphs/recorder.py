"""Records whole passes over calls as CUDA graphs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager, suppress
from typing import Any, cast

import torch

from unspool.engine.emit.protocol import Made
from unspool.forking import ForkSafeLock

_C = cast(Any, torch)._C
HOW = (
    _C._get_cublas_allow_tf32,
    _C._get_cublas_allow_fp16_reduced_precision_reduction,
    _C._get_cublas_allow_bf16_reduced_precision_reduction,
    _C._get_blas_preferred_backend,
)
"""What torch may be told at any time of how to multiply: `torch.backends.cuda` has names for it, and takes longer."""

_beside: dict[tuple[torch.device, int], Any] = {}
"""On which streams recordings are made, by that on which they will run: a capture must not be seen by work under way.

Products that are captured on one stream share the memory that their library works in, and so must run on one stream.
"""
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
        return _C._cuda_getCurrentRawStream(self._device.index), *[how() for how in HOW]

    def record(self, function: Callable[[], Made]) -> tuple[Callable[[], None], Made]:
        """What repeats a function, and what it returned.

        Raises:
            RuntimeError: if it cannot be captured.
        """
        with _recording.own, torch.cuda.device(self._device):
            if self._pool is None:
                self._pool = torch.cuda.graph_pool_handle()
            graph, after, stream = torch.cuda.CUDAGraph(), self._after, _stream_beside(self._device)
            # What is collected may belong to other graphs, which must not be destroyed while one is captured.
            with torch.cuda.stream(stream), _uncollected():
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    made = function()
                except BaseException:
                    with suppress(RuntimeError):  # it may be broken already
                        graph.capture_end()
                    raise
                graph.capture_end()

        def replay() -> None:
            graph.replay()
            after()

        return replay, made


def _stream_beside(device: torch.device) -> Any:
    """The stream on which to record what is to run on the current one, ready to be captured."""
    current = torch.cuda.current_stream(device)
    key = device, current.cuda_stream
    if key not in _beside:
        _beside[key] = torch.cuda.Stream(device)
    stream = _beside[key]
    stream.wait_stream(current)
    with torch.cuda.stream(stream):  # where a thread's first product runs, its library takes memory to work in
        small = torch.zeros(16, 16, dtype=torch.float16, device=device)
        torch.addmm(small[0], small, small)
    return stream


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
