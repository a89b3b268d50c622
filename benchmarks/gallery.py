"""Training every cell of `unspool.gallery`: `dynamic_rnn` against the Python loop over the same step.

On one and on two threads. The first call at one thread is one with nothing of the cell's compiled beforehand: the
compile cache starts as an empty folder. What is loaded once a process, as the tracer is, and compiled once a machine,
the runtime of all loops, is there. `about` has the part of a first call in which it waited for the compiler, and who
runs the core of the loop.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import unspool
from benchmarks.harness import Case, Contender, Options, main
from benchmarks.peers import case, dynamic_rnn
from benchmarks.peers.loops import plain
from benchmarks.problem import QUICK, Problem, Shape
from unspool import gallery
from unspool.engine.emit.cpp.libraries.build import Build
from unspool.structure import map_structure

SHAPES = [Shape(32, 100, 64, 128), Shape(4, 500, 32, 64)]
THREADS = {"cpu": (1, 2), "cuda": (1,)}

PLACES = 20
"""Words that a decoder looks at."""
ACTIONS = 4
"""The depth of an action in a world."""

Made = tuple[Any, Any, list[Tensor]]
"""A cell, its inputs, and those tensors among them, or under them, that want gradients."""


def vectors(kind: Any, shape: Shape) -> Made:
    """A cell that reads a vector a step."""
    x = _vectors(shape)
    return kind(shape.depth, shape.units), x, [x]


def gaps(kind: Any, shape: Shape) -> Made:
    """A vector, and the time since the last step."""
    x = _vectors(shape)
    return kind(shape.depth, shape.units), (x, _gaps(shape)), [x]


def times(kind: Any, shape: Shape) -> Made:
    """A vector, and the time."""
    x = _vectors(shape)
    return kind(shape.depth, shape.units), (x, _gaps(shape).cumsum(0)), [x]


def masked(kind: Any, shape: Shape) -> Made:
    """A vector half of which is missing, which half it is, and the time since the last step."""
    x = _vectors(shape)
    return kind(shape.depth, shape.units), (x, (torch.rand_like(x) < 0.5).float(), _gaps(shape)), [x]


def annotated(kind: Any, shape: Shape) -> Made:
    """A vector, and a memory that is the same in all steps."""
    x, memory = _vectors(shape), torch.randn(shape.batch, PLACES, shape.units, requires_grad=True)
    cell = kind(shape.depth, shape.units, memory_size=shape.units)
    return cell, (x, memory.expand(shape.steps, -1, -1, -1)), [x, memory]


def played(kind: Any, shape: Shape) -> Made:
    """What is seen of a world, and what is done in it."""
    x, action = _vectors(shape), torch.randn(shape.steps, shape.batch, ACTIONS)
    return kind(shape.depth, shape.units, action_size=ACTIONS), (x, action), [x]


def images(kind: Any, shape: Shape) -> Made:
    """Images of 8 x 8 in three colours; a state has a channel for every sixteen units."""
    x = torch.randn(shape.steps, shape.batch, 3, 8, 8, requires_grad=True)
    return kind(3, shape.units // 16, (8, 8)), x, [x]


def contrib(kind: Any, shape: Shape) -> Made:
    """A cell with TensorFlow's arguments, which reads a vector a step."""
    x = _vectors(shape)
    return kind(shape.units, input_size=shape.depth), x, [x]


def projected(kind: Any, shape: Shape) -> Made:
    """One that takes vectors of another width by a projection."""
    x = _vectors(shape)
    return kind(shape.units, shape.units, input_size=shape.depth), x, [x]


def grouped(kind: Any, shape: Shape) -> Made:
    """One in four groups."""
    x = _vectors(shape)
    return kind(shape.units, number_of_groups=4, input_size=shape.depth), x, [x]


def spectra(kind: Any, shape: Shape) -> Made:
    """A spectrum a step, in four windows of frequencies, each with an eighth of the units."""
    x, width = _vectors(shape), shape.depth // 4
    more = {} if kind is gallery.TimeFreqLSTMCell else {"num_frequency_blocks": [4]}
    options = dict(feature_size=width, frequency_skip=width, input_size=shape.depth)
    return kind(shape.units // 8, **options, **more), x, [x]


def attending(kind: Any, shape: Shape) -> Made:
    """A GRU that looks back at its last eight outputs."""
    x, cell = _vectors(shape), kind(unspool.GRUCell(shape.units), 8)
    cell.build(shape.depth)
    return cell, x, [x]


def channels_last(*sizes: int) -> Callable[[Any, Shape], Made]:
    """Images in three colours, which are their last axis; a state has a channel for every sixteen units."""

    def made(kind: Any, shape: Shape) -> Made:
        x = torch.randn(shape.steps, shape.batch, *sizes, 3, requires_grad=True)
        channels, kernel = shape.units // 16, [3] * len(sizes)
        cell = kind(input_shape=[*sizes, 3], output_channels=channels, kernel_shape=kernel)
        cell.build(torch.Size([*sizes, 3]))
        return cell, x, [x]

    return made


OTHERS: dict[str, Callable[[Any, Shape], Made]] = {
    "AttentionCellWrapper": attending,
    "BahdanauDecoderCell": annotated,
    "BidirectionalGridLSTMCell": spectra,
    "CfCCell": gaps,
    "Conv1DLSTMCell": channels_last(16),
    "Conv2DLSTMCell": channels_last(8, 8),
    "Conv3DLSTMCell": channels_last(4, 4, 4),
    "ConvGRUCell": images,
    "ConvLSTMCell": images,
    "CoupledInputForgetGateLSTMCell": contrib,
    "CudnnCompatibleGRUCell": contrib,
    "CudnnCompatibleLSTMCell": contrib,
    "GLSTMCell": grouped,
    "GRUBlockCell": contrib,
    "GRUBlockCellV2": contrib,
    "GRUDCell": masked,
    "GridLSTMCell": spectra,
    "IntersectionRNNCell": projected,
    "LSTMBlockCell": contrib,
    "LayerNormBasicLSTMCell": contrib,
    "NASCell": contrib,
    "ODERNNCell": gaps,
    "PhasedLSTMCell": times,
    "RSSMCell": played,
    "SpatioTemporalLSTMCell": images,
    "TLSTMCell": gaps,
    "TimeFreqLSTMCell": spectra,
    "UGRNNCell": contrib,
}
"""What cells read that read something other than a vector a step."""

CHAOTIC = ("LayerNormLSTMCell", "ODERNNCell", "RIMCell")
"""With the published weights and random inputs, rounding grows to the size of numbers in a few hundred steps. With
half these weights it does not, and results can be compared."""
CHOOSING = ("AdaptiveLIFCell", "DNCCell", "LIFCell", "RIMCell", "SkipRNNCell")
"""These compare numbers, and rounding may decide: a spike or a choice more or less is no mistake in float32."""


def problem_of(name: str, shape: Shape, options: Options) -> Problem:
    """A random problem for a cell of the gallery."""
    torch.manual_seed(0)
    cell, inputs, sources = OTHERS.get(name, vectors)(getattr(gallery, name), shape)
    with torch.no_grad():
        for weight in cell.parameters():
            if name in CHAOTIC:
                weight.mul_(0.5)
            if not weight.any():  # nobody would see what it multiplies
                weight.normal_(std=0.05)
    inputs, sources = map_structure(lambda leaf: leaf.to(options.device), (inputs, sources))
    with torch.no_grad():
        first = map_structure(lambda leaf: leaf[0], inputs)
        output, _ = cell.to(options.device)(first, cell.zero_state(shape.batch, torch.float32, options.device))
    gradient = map_structure(lambda leaf: torch.randn(shape.steps, *leaf.shape).to(leaf), output)
    return Problem(name, shape, cell, inputs, gradient, None, True, options.tf32, sources)


def cases(options: Options) -> Iterator[Case]:
    """One for every cell, shape and number of threads."""
    with tempfile.TemporaryDirectory() as empty, _waiting() as waited:
        os.environ["UNSPOOL_CACHE"] = empty
        _load_everything(options)
        for shape in [QUICK] if options.quick else SHAPES:
            for name in gallery.__all__:
                problem = problem_of(name, shape, options)
                for threads in THREADS[options.device]:
                    torch.set_num_threads(threads)
                    waited.clear()
                    contenders = case(problem, [_telling(problem, waited)], [plain])
                    title = f"{problem.title}, {threads} thread{'s'[: threads > 1]}"
                    seeded = [replace(each, run=_seeded(each.run)) for each in contenders.contenders]
                    tolerance = 0.05 if name in CHOOSING else problem.tolerance
                    yield replace(contenders, title=title, contenders=seeded, tolerance=tolerance)


def _telling(problem: Problem, waited: list[float]) -> Contender:
    """`dynamic_rnn`, which tells who ran it."""

    def about() -> Mapping[str, Any]:
        waited_ms = 1e3 * sum(waited)
        found = unspool.explain(problem.cell, problem.inputs, dtype=problem.dtype, time_major=True)
        reason = None if found.reason is None else str(found.reason)
        emitters = {name: each and each.emitter for name in ("forward", "backward") if (each := getattr(found, name))}
        return {"waited_for_compiler_ms": waited_ms, "reason": reason, **emitters}

    return replace(dynamic_rnn(problem), about=about)


def _seeded(run: Callable[[], Any]) -> Callable[[], Any]:
    """The run with the same random numbers every time, for cells that draw some.

    Each generator is seeded by itself: `torch.manual_seed` formats a stack trace for devices that are not in use, which
    takes a twentieth of the shortest runs.
    """

    def again() -> Any:
        for each in (torch.default_generator, *torch.cuda.default_generators):
            each.manual_seed(1)
        return run()

    return again


@contextmanager
def _waiting() -> Iterator[list[float]]:
    """The seconds that this process waits for compilers, as they come."""
    seconds, library = list[float](), Build.library

    def timed(build: Build) -> Any:
        began = time.perf_counter()
        try:
            return library(build)
        finally:
            seconds.append(time.perf_counter() - began)

    Build.library = timed
    try:
        yield seconds
    finally:
        Build.library = library


def _load_everything(options: Options) -> None:
    """Runs and explains a cell that is not measured, so that no first call pays for what is loaded once a process."""
    problem = Problem.of("RNN", QUICK, options)
    dynamic_rnn(problem).run()
    unspool.explain(problem.cell, problem.inputs, dtype=problem.dtype, time_major=True)


def _vectors(shape: Shape) -> Tensor:
    return torch.randn(shape.steps, shape.batch, shape.depth, requires_grad=True)


def _gaps(shape: Shape) -> Tensor:
    return 0.1 + torch.rand(shape.steps, shape.batch, 1)


if __name__ == "__main__":
    main(__doc__, cases, rounds=3)
