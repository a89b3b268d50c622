"""`dynamic_decode`: a decoder, step by step, until every row says that it is finished."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from unspool.decode.decoder import Decoder
from unspool.decode.free_running import FreeRunning
from unspool.decode.progress import Progress, take_step
from unspool.dynamo import called_as_it_is
from unspool.engine import Options
from unspool.flags import checks_flags
from unspool.loops.arguments import check_parallel_iterations, scope_name
from unspool.profiling import profiled
from unspool.step import attach, gradient_sources
from unspool.structure import Structure, describe, map_structure
from unspool.tracers import constant, has_values, obstacle

DEFAULT_BOUND = 10_000
"""The number of steps after which decoding without `maximum_iterations` stops, with a warning."""


@called_as_it_is
@checks_flags
def dynamic_decode(
    decoder: Decoder,
    output_time_major: bool = False,
    impute_finished: bool = True,
    maximum_iterations: Any = None,
    parallel_iterations: int | None = None,
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
        parallel_iterations: as in `dynamic_rnn`, where all inputs are known beforehand: a `BasicDecoder` with a
            `TrainingHelper`, and `impute_finished`. Any other decode takes one step after another, and it does nothing.
            It never changes the result.
        swap_memory: as in `dynamic_rnn`, likewise.
        scope: a name for profiler ranges, "decoder" by default.

    Returns:
        The outputs, as long as the longest row; the final state; and the lengths of the rows, int32.

    Raises:
        TypeError: if `decoder` is no `Decoder`, `maximum_iterations` no whole number, `swap_memory` or another flag no
            bool, or a container changes.
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
    check_decoder(decoder)
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
            run_at_once(decoder, progress, bound, Options(int(parallel_iterations or 0) or None, bool(swap_memory)))
        while progress.time < bound and (running := progress.running()):
            take_step(decoder, progress, impute=impute and running < len(progress.finished))
        if known is None and (running := progress.running()):
            warnings.warn(
                f"dynamic_decode stopped after {bound} steps, its default bound, with {running} of "
                f"{progress.finished.numel()} rows unfinished: give maximum_iterations to say how long a row may be",
                RuntimeWarning,
                stacklevel=3,
            )
        return finish(decoder, progress, time_major=output_time_major)


def check_decoder(decoder: Any) -> None:
    """Raises `TypeError` unless it is a `Decoder`."""
    if not isinstance(decoder, Decoder):
        raise TypeError(f"decoder must be a Decoder, but is {describe(decoder)}: {decoder!r}")


def run_at_once(decoder: Decoder, progress: Progress, bound: int, options: Options) -> None:
    """All steps, if the decoder knows a quicker way than one after another with all rows."""
    blocks = decoder.in_blocks(progress.inputs) if bound else None
    if blocks is not None:
        outputs, progress.lengths = blocks.run(bound)
        progress.outputs.take(outputs)
        progress.state, progress.finished = blocks.final_state(), blocks.finished()
        progress.time = bound
        return
    # Whether a row runs at all need not be asked where a recorder would not know.
    running = progress.running() if has_values(progress.finished) else None
    known = decoder.known_steps(bound, options) if running != 0 and bound else None
    if known is not None:
        outputs, progress.state, progress.lengths = known
        progress.outputs.take(outputs)
        progress.time, progress.finished = bound, torch.ones_like(progress.finished)
        return
    free = decoder.free_running(progress.inputs, progress.state) if progress.running() else None
    if free is not None:
        free.go_on(progress.time, progress.finished, progress.lengths)
        run_free(progress, free, bound)


def run_free(progress: Progress, free: FreeRunning, bound: int) -> None:
    """All steps, each with the rows that still run."""
    now = progress
    while now.time < bound and free.left:
        now.outputs.append_rows(*free.step())
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


def as_iterations(maximum_iterations: Any) -> int | None:
    """`maximum_iterations` as an int; None stays None.

    >>> as_iterations(torch.tensor(3))
    3
    """
    if maximum_iterations is None:
        return None
    if isinstance(maximum_iterations, Tensor) and not has_values(maximum_iterations):
        raise RuntimeError(f"maximum_iterations is a tensor, which cannot be read under {obstacle()}: give an int")
    if type(maximum_iterations) is int and maximum_iterations >= 0:
        return maximum_iterations
    try:
        iterations = constant(maximum_iterations)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"maximum_iterations must be an int, but is {maximum_iterations!r}") from None
    if iterations.dim():
        raise ValueError(f"maximum_iterations must be a scalar, but has shape {list(iterations.shape)}")
    if iterations.dtype == torch.bool or iterations.is_floating_point() or iterations.is_complex():
        raise TypeError(f"maximum_iterations must be an int, but is {maximum_iterations!r}")
    if iterations < 0:
        raise ValueError(f"maximum_iterations must not be negative, but is {int(iterations)}")
    return int(iterations)
