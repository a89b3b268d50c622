"""The core as a CUDA graph: the launches of a chunk, recorded once and replayed in one call.

On a GPU a step that is interpreted takes as long as its launches do, several times what they compute. A graph has fixed
shapes and addresses: chunks in which rows end are padded to one of few.
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

from unspool.engine.emit.cuda.launch import overlapping
from unspool.engine.emit.cuda.precision import tf32_is_allowed
from unspool.engine.emit.graphs.joined import Joined
from unspool.engine.emit.graphs.padded import Padded, can_pad
from unspool.engine.emit.protocol import Chunk, CoreEmitter, Results, launches
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.memory.copying import copy_all
from unspool.engine.reasons import Code, Reason

log = logging.getLogger("unspool")


class _Prepared(list[Tensor]):
    """What is the same for all chunks of a call; it can be referred to weakly, as a list cannot."""


class _SharedMemory:
    """The memory from which all graphs of a stream read shared values."""

    def __init__(self, shared: Sequence[Tensor]) -> None:
        # Matrices keep their layout, which the libraries' choice of an algorithm depends on.
        self.own = [torch.empty_strided(m.shape, m.stride(), dtype=m.dtype, device=m.device) for m in shared]
        self._holds: weakref.ref[_Prepared] | None = None

    def take(self, shared: Sequence[Tensor]) -> None:
        """Copies these values; once for all chunks of a call."""
        if self._holds is not None and self._holds() is shared:
            return
        copy_all(self.own, shared)
        self._holds = weakref.ref(shared) if isinstance(shared, _Prepared) else None


class _Room:
    """The memory of all graphs of a stream, which never run at the same time: that of the largest is enough."""

    def __init__(self) -> None:
        self.pool = torch.cuda.graph_pool_handle()
        self._own: dict[Hashable, Tensor] = {}

    def like(self, name: str, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Room for tensors like these; what is in it is zero, or what the last graph left."""
        return [self._room((name, k), each) for k, each in enumerate(tensors)]

    def _room(self, key: Hashable, like: Tensor) -> Tensor:
        if key not in self._own or self._own[key].numel() < like.numel():
            self._own[key] = torch.zeros(like.numel(), dtype=like.dtype, device=like.device)
        return self._own[key][: like.numel()].view(like.shape)


@dataclass(frozen=True)
class _Inputs:
    """The memory from which a graph reads what differs from chunk to chunk."""

    streamed: list[Tensor]
    carried: list[Tensor]
    runs: Tensor | None

    @classmethod
    def of(cls, chunk: Chunk, padded: Padded | None, room: _Room) -> _Inputs:
        """For such chunks, with this one in it."""
        given, state, runs = chunk.streamed, chunk.carried, None
        if padded is not None:
            given, state = [padded.around(each) for each in given], [padded.around_state(each) for each in state]
            runs = torch.empty_like(padded.runs)
        own = cls(room.like("streamed", given), room.like("carried", state), runs)
        own.take(chunk, padded)
        return own

    def take(self, chunk: Chunk, padded: Padded | None) -> None:
        """Copies a chunk."""
        if padded is None or self.runs is None:
            copy_all([*self.streamed, *self.carried], [*chunk.streamed, *chunk.carried])
            return
        for own, given in zip(self.streamed, chunk.streamed, strict=True):
            padded.put(own, given)
        copy_all([*(own[: chunk.counts[0]] for own in self.carried), self.runs], [*chunk.carried, padded.runs])


@dataclass(frozen=True)
class _Recording:
    """A graph, and the memory that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    shared: _SharedMemory
    inputs: _Inputs
    carried: list[Tensor]
    emitted: list[Tensor]

    def results(self, chunk: Chunk, padded: Padded | None) -> Results:
        """Copies of what the graph wrote."""
        targets = chunk.into or [None] * len(self.emitted)
        found = self.emitted if padded is None else [padded.take(own) for own in self.emitted]
        emitted = [
            target.copy_(each) if target is not None else each.clone() if padded is None else each
            for each, target in zip(found, targets, strict=True)
        ]
        return [own[: chunk.counts[0]].clone() for own in self.carried], emitted


class Graphs(CoreEmitter):
    """Runs any core on a GPU."""

    name = "CUDA graph"

    def refusal(self, device: torch.device) -> Reason | None:
        """Graphs are CUDA's."""
        if device.type == "cuda":
            return None
        return Reason(Code.OTHER_DEVICE, f"it needs a GPU, and the tensors are on {device.type}")

    def cost(self, core: Core) -> float:
        """In a graph, a launch takes what the device needs for it."""
        return 1.5 * launches(core)

    def core(self, core: Core, device: torch.device) -> Graphed:
        """The core with joined kernels, to be recorded."""
        return Graphed(Joined(core, device))


class Graphed:
    """Runs a core over a chunk of steps; takes and returns what `Interpreted` does."""

    MOST = 16
    """How many graphs are kept."""

    TRIES = 64
    """How many are recorded at all: where shapes keep changing, recording costs more than it saves."""

    def __init__(self, loop: Joined) -> None:
        self._loop = loop
        self.core, self.source = loop.core, loop.source
        self._can_pad = can_pad(loop.core)
        self._recordings: OrderedDict[Hashable, _Recording | None] = OrderedDict()
        self._shared: dict[int, _SharedMemory] = {}
        self._rooms: dict[int, _Room] = {}
        self._seen: Counter[Hashable] = Counter()
        self._tries = 0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """It always can."""

    def prepare(self, shared: Sequence[Tensor]) -> list[Tensor]:
        """As the interpreter takes them."""
        return _Prepared(self._loop.prepare(shared))

    def interpreted(self, *, ragged: bool) -> Reason | None:
        """A graph has one number of rows for all steps."""
        if not ragged or self._can_pad:
            return None
        return Reason(Code.NO_FORM, "rows end at different steps, and a step of these cannot be padded")

    def __call__(self, shared: Sequence[Tensor], chunk: Chunk) -> Results:
        """Runs every step of a chunk."""
        with torch.cuda.device(chunk.carried[0].device if chunk.carried else chunk.streamed[0].device):
            return self._run(shared, chunk)

    def _run(self, shared: Sequence[Tensor], chunk: Chunk) -> Results:
        counts, stream = chunk.counts, torch.cuda.current_stream()
        ragged = counts[0] != counts[-1]
        if torch.cuda.is_current_stream_capturing() or (ragged and not self._can_pad):
            return self._loop(shared, chunk)
        padded = Padded.of(counts, stream.device) if ragged else None
        shape = (len(counts), counts[0]) if padded is None else (padded.steps, padded.rows)
        key = (ragged, *shape, stream.stream_id, tf32_is_allowed())
        with self._lock:
            recording = self._recording(key, stream.stream_id, shared, chunk, padded)
            if recording is not None:
                return self._replay(recording, shared, chunk, padded)
        return self._loop(shared, chunk)

    def _recording(
        self, key: Hashable, stream: int, shared: Sequence[Tensor], chunk: Chunk, padded: Padded | None
    ) -> _Recording | None:
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
                    self._shared[stream], self._rooms[stream] = _SharedMemory(shared), _Room()
                self._shared[stream].take(shared)
                self._recordings[key] = self._record(self._shared[stream], self._rooms[stream], chunk, padded)
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            log.info("a core runs without a CUDA graph: %s", error)
            self._recordings[key] = None
        while len(self._recordings) > self.MOST:
            self._recordings.popitem(last=False)
        return self._recordings[key]

    def _record(self, shared: _SharedMemory, room: _Room, chunk: Chunk, padded: Padded | None) -> _Recording:
        inputs = _Inputs.of(chunk, padded, room)
        counts = chunk.counts if padded is None else Counts([padded.rows] * padded.steps)
        same = Chunk(counts, inputs.streamed, inputs.carried, chunk.reverse)
        # Kernels are compiled for such memory, which must not happen while recording.
        _, emitted = self._loop(shared.own, same, inputs.runs)
        same, graph = same._replace(into=room.like("emitted", emitted)), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=room.pool, capture_error_mode="thread_local"), overlapping():
            new, emitted = self._loop(shared.own, same, inputs.runs)
        return _Recording(graph, shared, inputs, new, emitted)

    def _replay(self, recording: _Recording, shared: Sequence[Tensor], chunk: Chunk, padded: Padded | None) -> Results:
        recording.shared.take(shared)
        recording.inputs.take(chunk, padded)
        recording.graph.replay()
        return recording.results(chunk, padded)
