"""`dynamic_decode`: a decoder, step by step, until every row says that it is finished."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from unspool.decode.decoder import Decoder
from unspool.decode.free_running import FreeRunning
from unspool.decode.rows import FinishedRows, as_finished
from unspool.dtypes import as_dtype
from unspool.loops.arguments import check_parallel_iterations, check_state_rows, scope_name
from unspool.loops.profiling import profiled
from unspool.loops.tensors import as_tensors
from unspool.sizes import shape_of
from unspool.step import attach, checked, checked_like, gradient_sources
from unspool.structure import Structure, check_same_structure, describe, flatten, map_structure, unflatten_as

DEFAULT_BOUND = 10_000
"""The number of steps after which decoding without `maximum_iterations` stops, with a warning."""


def dynamic_decode(
    decoder: Decoder,
    output_time_major: bool = False,
    impute_finished: bool = True,
    maximum_iterations: Any = None,
    parallel_iterations: int | None = 32,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Structure, Structure, Tensor]:
    """Runs a decoder until all rows are finished.

    It stands for

        finished, inputs, state = decoder.initialize()
        while not all(finished) and time < maximum_iterations:
            output, new_state, inputs, finished_now = decoder.step(time, inputs, state)
            outputs[time] = where(finished, padding, output)
            state         = where(finished, state, new_state)
            lengths       = where(finished, lengths, time + 1)
            finished     |= finished_now
            time         += 1

    The step in which a row finishes counts: its output is there, and its length includes it.

    Args:
        decoder: a `Decoder`, such as `BasicDecoder`.
        output_time_major: whether the outputs are `[time, batch, ...]` instead of `[batch, time, ...]`.
        impute_finished: whether a finished row is left alone: its state stays, its outputs are zero, its ids the end
            token, and no gradient comes from or goes to what would follow, NaN or not. If not, it runs on with the
            others, and what it puts out past its length means nothing. A decoder that tracks its own finished rows
            sees to them itself.
        maximum_iterations: the most steps to take. Without it, a decoder that does not know when it ends stops after
            `DEFAULT_BOUND` steps, 10000, with a warning.
        parallel_iterations: as in `dynamic_rnn`; it never changes the result.
        swap_memory: as in `dynamic_rnn`; it never changes the result.
        scope: a name for profiler ranges, "decoder" by default.

    Returns:
        The outputs, as long as the longest row; the final state; and the lengths of the rows, int32.

    Raises:
        TypeError: if `decoder` is no `Decoder`, `maximum_iterations` no whole number, or a container changes.
        ValueError: if `maximum_iterations` is no scalar or below 0, or a step does not fit the one before.

    >>> from torch import nn
    >>> from unspool import LSTMCell
    >>> from unspool.decode import BasicDecoder, TrainingHelper, dynamic_decode
    >>> cell, helper = LSTMCell(8), TrainingHelper(torch.randn(3, 6, 4), sequence_length=[5, 0, 2])
    >>> decoder = BasicDecoder(cell, helper, cell.zero_state(3, torch.float32), nn.Linear(8, 10))
    >>> outputs, state, lengths = dynamic_decode(decoder)
    >>> outputs.rnn_output.shape, lengths
    (torch.Size([3, 5, 10]), tensor([5, 0, 2], dtype=torch.int32))
    """
    if not isinstance(decoder, Decoder):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"decoder must be a Decoder, but is {describe(decoder)}: {decoder!r}")
    limit = as_iterations(maximum_iterations)
    check_parallel_iterations(parallel_iterations)
    with profiled(scope_name(scope, "decoder")):
        progress = Progress(decoder)
        impute = bool(impute_finished) and not decoder.tracks_own_finished
        if impute:
            progress.check_rows()
        known = decoder.bound if limit is None else limit
        bound = DEFAULT_BOUND if known is None else known
        if impute:
            run_at_once(decoder, progress, bound)
        while progress.time < bound and (running := progress.running()):
            take_step(decoder, progress, impute=impute and running < len(progress.finished))
        if known is None and (running := progress.running()):
            warnings.warn(
                f"dynamic_decode stopped after {bound} steps, its default bound, with {running} of "
                f"{progress.finished.numel()} rows unfinished: give maximum_iterations to say how long a row may be",
                RuntimeWarning,
                stacklevel=2,
            )
        return finish(decoder, progress, time_major=output_time_major)


class Progress:
    """How far a decode has come: what the next step reads, and what those before it put out."""

    def __init__(self, decoder: Decoder) -> None:
        finished, inputs, state = decoder.initialize()
        self.finished = as_finished(finished)
        if len(self.finished) != decoder.batch_size:
            have, expected = list(self.finished.shape), decoder.batch_size
            raise ValueError(f"finished has shape {have}, but the decoder has a batch of {expected}")
        self.inputs, self.state = as_tensors(inputs, "inputs"), as_tensors(state, "state")
        self.lengths = torch.zeros_like(self.finished, dtype=torch.int32)
        self.outputs = Outputs(decoder)
        self.time = 0

    def check_rows(self) -> None:
        """Raises unless inputs and state have the rows of `finished`, so that finished ones can be told."""
        if self.finished.dim() != 1:
            raise ValueError(
                f"impute_finished needs one bool for each row, but finished has shape {list(self.finished.shape)}"
            )
        check_state_rows(self.inputs, len(self.finished), "an input")
        check_state_rows(self.state, len(self.finished), "the state")

    def running(self) -> int:
        """How many rows are not finished. On a GPU, this waits for it."""
        return self.finished.numel() - int(self.finished.sum())


def take_step(decoder: Decoder, progress: Progress, *, impute: bool) -> None:
    """One step of `decoder`; with `impute`, some rows are finished and to be left alone."""
    now = progress
    rows = FinishedRows(now.finished) if impute else None
    given = (now.inputs, now.state) if rows is None else rows.borrow((now.inputs, now.state))
    output, state, inputs, finished = _checked_step(decoder, now.time, *given)
    now.inputs = checked_like(now.inputs, as_tensors(inputs, "inputs"), "the decoder's next inputs", "the inputs")
    state = checked_like(now.state, as_tensors(state, "state"), "the decoder's next state", "the state")
    now.state = state if rows is None else rows.keep(state, now.state)
    now.outputs.append(output, rows)
    now.lengths = torch.where(now.finished, now.lengths, now.time + 1)
    finished = as_finished(finished, now.finished.shape).to(now.finished.device)
    now.finished = finished if decoder.tracks_own_finished else finished | now.finished
    now.time += 1


def run_at_once(decoder: Decoder, progress: Progress, bound: int) -> None:
    """All steps, if the decoder knows a quicker way than one after another with all rows."""
    running = progress.running()
    known = decoder.known_steps(bound) if running and bound else None
    if known is not None:
        outputs, progress.state, progress.lengths = known
        progress.outputs.take(outputs)
        progress.time, progress.finished = bound, torch.ones_like(progress.finished)
        return
    free = decoder.free_running(progress.inputs, progress.state) if running == len(progress.finished) else None
    if free is not None:
        run_free(decoder, progress, free, bound)


def run_free(decoder: Any, progress: Progress, free: FreeRunning, bound: int) -> None:
    """All steps, each with the rows that still run."""
    now = progress
    while now.time < bound and free.left:
        rows, output, sample_ids = free.step(now.time)
        now.outputs.append_rows(decoder.as_output(output, sample_ids), rows)
        now.time += 1
    now.state, now.finished, now.lengths = free.final_state(), free.finished(), free.lengths()
    now.time = now.outputs.end(now.lengths)


def finish(decoder: Decoder, progress: Progress, *, time_major: bool) -> tuple[Structure, Structure, Tensor]:
    """What `dynamic_decode` returns, once the last step is taken."""
    outputs, state = progress.outputs.stacked(progress.finished.device), progress.state
    if progress.time == 0:
        sources = [*decoder.weights(), *gradient_sources(None, progress.inputs, state)]
        outputs, state = attach(outputs, sources), attach(state, sources)
    own = decoder.sequence_lengths(state)
    lengths = progress.lengths if own is None else own.to(torch.int32)
    outputs, state = decoder.finalize(outputs, state, lengths)
    if not time_major:
        outputs = map_structure(lambda leaf: leaf.transpose(0, 1), outputs)
    return outputs, state, lengths


class Outputs:
    """What a decoder puts out, step by step, checked against what it says of its outputs."""

    def __init__(self, decoder: Decoder) -> None:
        self._sizes = decoder.output_size
        shapes = [(decoder.batch_size, *shape_of(size, "decoder.output_size")) for size in flatten(self._sizes)]
        dtypes = [as_dtype(dtype, "decoder.output_dtype") for dtype in flatten(decoder.output_dtype)]
        padding = decoder.output_padding
        paddings = [0] * len(shapes) if padding is None else flatten(padding)
        if not len(shapes) == len(dtypes) == len(paddings):
            raise ValueError(
                f"decoder.output_size has {len(shapes)} leaves, but decoder.output_dtype has {len(dtypes)} and "
                f"decoder.output_padding {len(paddings)}"
            )
        self._kinds = list(zip(shapes, dtypes, paddings, strict=True))
        self._steps: list[list[Tensor]] = []
        self._whole: list[Tensor] = []

    def append(self, output: Structure, finished: FinishedRows | None) -> None:
        """Adds what a step put out; rows that were finished before it get their padding."""
        name = "the decoder's output"
        check_same_structure(self._sizes, output, name=name, like="decoder.output_size")
        leaves = [
            checked(leaf, shape, dtype, name, "decoder.output_size and decoder.batch_size say")
            for leaf, (shape, dtype, _) in zip(flatten(output), self._kinds, strict=True)
        ]
        if finished is not None:
            leaves = [finished.pad(leaf, kind[2]) for leaf, kind in zip(leaves, self._kinds, strict=True)]
        self._steps.append(leaves)

    def take(self, outputs: Structure) -> None:
        """Takes all steps at once, time-major."""
        check_same_structure(self._sizes, outputs, name="the decoder's outputs", like="decoder.output_size")
        self._whole = flatten(outputs)

    def append_rows(self, output: Structure, rows: Tensor) -> None:
        """Adds what a step put out for some rows; the others get their padding."""
        leaves = flatten(output)
        if len(rows) < self._kinds[0][0][0]:
            for k, (shape, _, padding) in enumerate(self._kinds):
                whole = leaves[k].new_full(shape, padding)
                whole[rows] = leaves[k]
                leaves[k] = whole
        self._steps.append(leaves)

    def end(self, lengths: Tensor) -> int:
        """Puts the padding where rows had ended and ran on, because nobody had looked; returns how many steps count."""
        if lengths.device.type == "cpu":
            return len(self._steps)  # where somebody always has
        del self._steps[int(lengths.max()) :]
        for time, leaves in enumerate(self._steps):
            over = lengths <= time
            for k, (shape, _, padding) in enumerate(self._kinds):
                leaves[k] = leaves[k].masked_fill(over.reshape(-1, *[1] * (len(shape) - 1)), padding)
        return len(self._steps)

    def stacked(self, device: torch.device) -> Structure:
        """All steps, time-major; without any, they are empty tensors on `device`."""
        if self._whole:
            leaves = self._whole
        elif self._steps:
            leaves = [torch.stack(column) for column in zip(*self._steps, strict=True)]
        else:
            leaves = [torch.empty((0, *shape), dtype=dtype, device=device) for shape, dtype, _ in self._kinds]
        return unflatten_as(self._sizes, leaves)


def as_iterations(maximum_iterations: Any) -> int | None:
    """`maximum_iterations` as an int; None stays None.

    >>> as_iterations(torch.tensor(3))
    3
    """
    if maximum_iterations is None:
        return None
    try:
        iterations = torch.as_tensor(maximum_iterations)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"maximum_iterations must be an int, but is {maximum_iterations!r}") from None
    if iterations.dim():
        raise ValueError(f"maximum_iterations must be a scalar, but has shape {list(iterations.shape)}")
    if iterations.dtype == torch.bool or iterations.is_floating_point() or iterations.is_complex():
        raise TypeError(f"maximum_iterations must be an int, but is {maximum_iterations!r}")
    if iterations < 0:
        raise ValueError(f"maximum_iterations must not be negative, but is {int(iterations)}")
    return int(iterations)


def _checked_step(decoder: Decoder, time: int, inputs: Structure, state: Structure) -> tuple[Any, Any, Any, Any]:
    returned: Any = decoder.step(time, inputs, state)
    if not issubclass(type(returned), tuple | list) or len(returned) != 4:
        raise TypeError(
            "a decoder's step must return (outputs, next_state, next_inputs, finished), but this one returned "
            f"{describe(returned)}"
        )
    return tuple(returned)
