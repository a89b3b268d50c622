"""The core as a CUDA graph: the interpreter's launches of a chunk, recorded once and replayed in one call.

On a GPU a step of the interpreter takes as long as its launches do, several times what they compute. A graph has fixed
shapes and addresses, so it serves chunks in which every step has all rows; others are interpreted.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import Counter, OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unspool.engine.emit.chunk import Chunk, Results
from unspool.engine.emit.cuda.launch import overlapping
from unspool.engine.emit.interpreted import Interpreted

log = logging.getLogger("unspool")


class _Prepared(list[Tensor]):
    """What is the same for all chunks of a call; it can be referred to weakly, as a list cannot."""


class _Shared:
    """The memory from which all graphs of a stream read shared values."""

    def __init__(self, shared: Sequence[Tensor]) -> None:
        # Matrices keep their layout, which the libraries' choice of an algorithm depends on.
        self.own = [torch.empty_strided(m.shape, m.stride(), dtype=m.dtype, device=m.device) for m in shared]
        self._holds: weakref.ref[_Prepared] | None = None

    def take(self, shared: Sequence[Tensor]) -> None:
        """Copies these values; once for all chunks of a call."""
        if self._holds is not None and self._holds() is shared:
            return
        _copy_all(self.own, shared)
        self._holds = weakref.ref(shared) if isinstance(shared, _Prepared) else None


@dataclass(frozen=True)
class _Recording:
    """A graph, and the memory that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    shared: _Shared
    inputs: list[Tensor]
    carried: list[Tensor]
    emitted: list[Tensor]


class Graphed:
    """Runs a core over a chunk of steps; takes and returns what `Interpreted` does."""

    name = "CUDA graph"

    MOST = 8
    """How many graphs are kept: each holds the memory of a chunk."""

    TRIES = 32
    """How many are recorded at all: where shapes keep changing, recording costs more than it saves."""

    def __init__(self, loop: Interpreted) -> None:
        self._loop = loop
        self.core, self.source = loop.core, loop.source
        self._recordings: OrderedDict[Hashable, _Recording | None] = OrderedDict()
        self._shared: dict[int, _Shared] = {}
        self._seen: Counter[Hashable] = Counter()
        self._tries = 0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """It always can."""

    def prepare(self, shared: Sequence[Tensor]) -> list[Tensor]:
        """As the interpreter takes them."""
        return _Prepared(self._loop.prepare(shared))

    def __call__(self, shared: Sequence[Tensor], chunk: Chunk) -> Results:
        """Runs every step of a chunk."""
        with torch.cuda.device(chunk.carried[0].device if chunk.carried else chunk.streamed[0].device):
            return self._run(shared, chunk)

    def _run(self, shared: Sequence[Tensor], chunk: Chunk) -> Results:
        counts, stream = chunk.counts, torch.cuda.current_stream()
        key = (len(counts), counts[0], stream.stream_id, torch.backends.cuda.matmul.allow_tf32)
        with self._lock:
            recording = None
            if counts[0] == counts[-1] and not torch.cuda.is_current_stream_capturing():
                recording = self._recording(key, stream.stream_id, shared, chunk)
            if recording is not None:
                return self._replay(recording, shared, [*chunk.streamed, *chunk.carried], chunk.into)
        return self._loop(shared, chunk)

    def _recording(self, key: Hashable, stream: int, shared: Sequence[Tensor], chunk: Chunk) -> _Recording | None:
        """The graph for such a chunk; None where it cannot be, or is not yet known to be worth it."""
        if key in self._recordings:
            self._recordings.move_to_end(key)
            return self._recordings[key]
        self._seen[key] += 1
        # The first time also warms up libraries, which must not happen while recording.
        if self._seen[key] == 1 or self._tries == self.TRIES:
            return None
        self._tries += 1
        try:
            # Memory that is written again and again, by calls in other modes too.
            with torch.inference_mode(False), torch.no_grad():
                if stream not in self._shared:
                    self._shared[stream] = _Shared(shared)
                self._shared[stream].take(shared)
                self._recordings[key] = self._record(self._shared[stream], chunk)
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            log.info("a core runs without a CUDA graph: %s", error)
            self._recordings[key] = None
        while len(self._recordings) > self.MOST:
            self._recordings.popitem(last=False)
        return self._recordings[key]

    def _record(self, shared: _Shared, chunk: Chunk) -> _Recording:
        given = [*chunk.streamed, *chunk.carried]
        inputs = [each.clone(memory_format=torch.contiguous_format) for each in given]
        cut, graph = len(chunk.streamed), torch.cuda.CUDAGraph()
        same = Chunk(chunk.counts, inputs[:cut], inputs[cut:], chunk.reverse)
        self._loop(shared.own, same)  # kernels are compiled for such memory, which must not happen while recording
        with torch.cuda.graph(graph, capture_error_mode="thread_local"), overlapping():
            new, emitted = self._loop(shared.own, same)
        return _Recording(graph, shared, inputs, new, emitted)

    def _replay(
        self,
        recording: _Recording,
        shared: Sequence[Tensor],
        inputs: Sequence[Tensor],
        into: Sequence[Tensor | None] | None,
    ) -> tuple[list[Tensor], list[Tensor]]:
        recording.shared.take(shared)
        _copy_all(recording.inputs, inputs)
        recording.graph.replay()
        targets = into or [None] * len(recording.emitted)
        emitted = [
            own.clone() if target is None else target.copy_(own)
            for own, target in zip(recording.emitted, targets, strict=True)
        ]
        return [own.clone() for own in recording.carried], emitted


def _copy_all(own: Sequence[Tensor], given: Sequence[Tensor]) -> None:
    """Copies one list of tensors to another; in one call, since each takes longer than the copy."""
    if own:
        torch._foreach_copy_(list(own), list(given))  # pyright: ignore
