"""`stream`: a decode that hands out every step as it comes, and can wait in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unspool.decode.decoder import Decoder
from unspool.decode.dynamic_decode import as_iterations, check_decoder
from unspool.decode.free_running import FreeRunning
from unspool.decode.progress import Progress, take_step
from unspool.dynamo import called_as_it_is
from unspool.structure import Structure, describe, map_structure
from unspool.tracers import onlooker


class StreamPosition(NamedTuple):
    """Where a stream stands: all that it takes to go on from there, but for the decoder.

    `torch.save` can keep it. What a helper draws from, a generator, is the caller's.

    >>> from unspool import GRUCell
    >>> from unspool.decode import BasicDecoder, GreedyEmbeddingHelper, stream
    >>> cell = GRUCell(4, input_size=4)
    >>> helper = GreedyEmbeddingHelper(torch.eye(4), start_tokens=[0, 0], end_token=3)
    >>> steps = stream(BasicDecoder(cell, helper, cell.zero_state(2, torch.float32)))
    >>> steps.position().time
    0
    """

    time: int
    inputs: Structure
    state: Structure
    finished: Tensor
    lengths: Tensor


class Stream(Iterator[Structure]):
    """A decode under way, made by `stream`. Every `next` takes one step, and the last one is that of the longest row.

    >>> from unspool.decode import Decoder, stream
    >>> class CountDown(Decoder):
    ...     batch_size, output_size, output_dtype = 2, torch.Size([]), torch.int64
    ...     def initialize(self):
    ...         start = torch.tensor([3, 1])
    ...         return start == 0, start, ()
    ...     def step(self, time, inputs, state):
    ...         return inputs, state, inputs - 1, inputs == 1
    >>> count_down = stream(CountDown())
    >>> next(count_down), count_down.finished
    (tensor([3, 1]), tensor([False,  True]))
    >>> list(count_down), count_down.lengths
    ([tensor([2, 0]), tensor([1, 0])], tensor([3, 1], dtype=torch.int32))
    """

    def __init__(self, decoder: Decoder, limit: int | None, position: StreamPosition | None) -> None:
        self._decoder = decoder
        self._progress = Progress(decoder)
        self._impute = not decoder.tracks_own_finished
        if self._impute:
            self._progress.check_rows()
        if position is not None:
            self._progress.go_to(position)
        self._end = None if limit is None else self._progress.time + limit
        now = self._progress
        self._free = decoder.free_running(now.inputs, now.state) if self._impute and now.running() else None
        if self._free is not None:
            self._free.every = 1  # whoever waits for every step may as well look at it
            self._free.go_on(now.time, now.finished, now.lengths)

    @called_as_it_is
    def __next__(self) -> Structure:
        """What the next step puts out, `[batch, ...]`; rows that have ended have their padding.

        Raises:
            StopIteration: if all rows have ended, or after `maximum_iterations`.
        """
        with torch.no_grad():
            if self._free is not None and onlooker() is not None:
                self._take_all_rows(self._free)
            return self._next()

    def _next(self) -> Structure:
        now = self._progress
        running = now.running() if self._free is None else self._free.left
        if not running or now.time == self._end:
            raise StopIteration
        if self._free is None:
            take_step(self._decoder, now, impute=self._impute and running < len(now.finished))
            # What was put out may be a part of the state, and whoever gets it may change it.
            return map_structure(lambda leaf: leaf.clone(), now.outputs.last())
        now.outputs.append_rows(*self._free.step())
        now.time += 1
        return now.outputs.last()

    def _take_all_rows(self, free: FreeRunning) -> None:
        """Goes on without a plan: somebody wants to see every operation."""
        now, self._free = self._progress, None
        now.inputs, now.state, now.finished, now.lengths = (
            free.inputs(),
            free.final_state(),
            free.finished(),
            free.lengths(),
        )

    @property
    def time(self) -> int:
        """How many steps have been taken, those before its position included."""
        return self._progress.time

    @property
    def finished(self) -> Tensor:
        """Which rows have come to their end."""
        return self._progress.finished if self._free is None else self._free.finished()

    @property
    def lengths(self) -> Tensor:
        """How many steps each row has taken, int32."""
        return self._progress.lengths if self._free is None else self._free.lengths()

    @property
    def state(self) -> Structure:
        """The state of each row after its last step."""
        return self._progress.state if self._free is None else self._free.final_state()

    def position(self) -> StreamPosition:
        """Where it stands, for another stream to go on from."""
        inputs = self._progress.inputs if self._free is None else self._free.inputs()
        return StreamPosition(self.time, inputs, self.state, self.finished, self.lengths)


@called_as_it_is
def stream(decoder: Decoder, maximum_iterations: Any = None, *, position: StreamPosition | None = None) -> Stream:
    """Runs a decoder one step at a time, without gradients, each time that somebody asks for the next.

    What it yields, put together, is what `dynamic_decode` returns, but nothing is kept of a step that was handed out:
    a stream may go on for ever in the same memory. To stop, stop asking; to go on, ask again. `position` goes on where
    another stream stood, in another program if need be.

    Args:
        decoder: a `Decoder` whose steps are final, such as `BasicDecoder`. Beam search is not: its beams change places
            until the end.
        maximum_iterations: the most steps that this stream takes; by default, as many as the rows need.
        position: where to start, instead of where the decoder says; what `Stream.position` returned.

    Returns:
        An iterator of the decoder's outputs, each `[batch, ...]`. It also knows the rows' `lengths`, which are
        `finished`, and their `state`.

    Raises:
        TypeError: if `decoder` is no `Decoder`, or changes its outputs in the end; if `position` is no position.
        ValueError: if `maximum_iterations` is no scalar or below 0, or `position` does not fit the decoder.

    >>> from torch import nn
    >>> from unspool import GRUCell
    >>> from unspool.decode import BasicDecoder, SampleEmbeddingHelper
    >>> cell, embedding, layer = GRUCell(8), nn.Embedding(10, 4), nn.Linear(8, 10)
    >>> helper = SampleEmbeddingHelper(embedding, start_tokens=[1], end_token=2, seed=0)
    >>> steps = stream(BasicDecoder(cell, helper, cell.zero_state(1, torch.float32), layer), maximum_iterations=20)
    >>> ids = [int(step.sample_id[0]) for step in steps]
    >>> len(ids) == int(steps.lengths[0])
    True
    """
    check_decoder(decoder)
    if type(decoder).finalize is not Decoder.finalize:
        raise TypeError(
            f"decoder is {describe(decoder)}, which changes its outputs when all steps are taken, so that there is "
            "nothing to hand out before: use dynamic_decode"
        )
    if position is not None and not isinstance(position, StreamPosition):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"position must be a StreamPosition, but is {describe(position)}: {position!r}")
    with torch.no_grad():
        return Stream(decoder, as_iterations(maximum_iterations), position)
