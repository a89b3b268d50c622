"""A cell over sequences: by its plan, or by the plain loop where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from unspool.engine import repeated, scanned
from unspool.engine.emit.registry import asked
from unspool.engine.execute import plain
from unspool.engine.execute.autograd import run_call
from unspool.engine.execute.call import Call
from unspool.engine.execute.double_backward import Replay
from unspool.engine.execute.layout import Layout, PackedLayout
from unspool.engine.execute.operands import Operands
from unspool.engine.execute.random_state import RandomState
from unspool.engine.fallbacks import fall_back, is_strict, report_fault
from unspool.engine.memory.policies import default_memory
from unspool.engine.plans.cache import plan_of
from unspool.engine.plans.fast_path import Ready
from unspool.engine.reasons import CannotPlanError, Code, Reason
from unspool.engine.request import Options, Request
from unspool.engine.trace.gradient_reach import bits
from unspool.structure import Structure, flatten, map_structure, map_tensors, unflatten_as
from unspool.tracers import recorder, static_shape


def run(request: Request, scope: str = "rnn") -> tuple[Structure, Structure]:
    """Runs a cell over time-major inputs; returns its outputs, time-major, and its final state.

        for t in range(max(lengths)):
            output[t], state = cell(inputs[t], state)      # for the rows with t < lengths

    The request is valid; that is the caller's part. `scope` names what a profiler shows of it.
    """
    if recorder() == "torch.export" and _can_be_scanned(request):
        return scanned.run(request.cell, request.inputs, request.lengths, request.state, request.output_dtype)
    again = repeated.find(request, scope)
    if again is not None:
        call, tensors = again.again(request)
        try:
            return _structured(request, call, run_call(call, tensors))
        except torch.OutOfMemoryError:
            raise
        except (IndexError, RuntimeError, ValueError):
            pass  # the long way says why
    try:
        call, tensors = prepare(request, scope)
    except CannotPlanError as error:
        fall_back(request.subject, "runs in the plain loop, one step after another", error.reason)
        return _run_plain(request)
    if call.plan.unchecked:
        _check_values(request, call)
    strict = is_strict()
    if strict:  # before any work is done
        _say_interpreted(request.subject, call)
    random = RandomState(call.layout.device) if call.plan.is_random else None
    try:
        results = run_call(call, tensors)
    except torch.OutOfMemoryError:
        raise
    except (IndexError, RuntimeError, ValueError) as error:
        # An id out of range, say: the cell itself has more to say about it.
        if random is not None:
            random.restore()
        found = _run_plain(request)
        if strict:
            raise
        report_fault(request.subject, error)
        return found
    if not _say_interpreted(request.subject, call):  # a compiler may have failed only now
        repeated.remember(request, scope, call, tensors)
    return _structured(request, call, results)


def _structured(request: Request, call: Call, results: Sequence[Tensor]) -> tuple[Structure, Structure]:
    outputs = call.plan.trace.output_kind
    first = len(outputs.leaves)
    return outputs.unflatten(results[:first]), unflatten_as(request.state, results[first:])


def _run_plain(request: Request) -> tuple[Structure, Structure]:
    """The same by the plain loop, which knows no packed rows."""
    if request.counts is None:
        return plain.run(request.cell, request.inputs, request.lengths, request.state, request.output_dtype)
    layout = PackedLayout.of_counts(request.counts, flatten(request.inputs)[0].device)
    inputs = map_structure(layout.padded, request.inputs)
    outputs, state = plain.run(request.cell, inputs, layout.lengths, request.state, request.output_dtype)
    return map_tensors(layout.packed, outputs), state


def _can_be_scanned(request: Request) -> bool:
    steps, leaves = static_shape(flatten(request.inputs)[0])[0], flatten(request.state)
    return steps != 0 and bool(leaves) and all(isinstance(leaf, Tensor) for leaf in leaves)


def _check_values(request: Request, call: Call) -> None:
    """Runs the first step as it stands: what it checks of values, a plan does not."""
    random, lengths, counts = RandomState(call.layout.device), request.lengths, request.counts
    first = map_structure(lambda leaf: leaf[:1] if counts is None else leaf[None, : counts[0]], request.inputs)
    with torch.no_grad():
        once = None if lengths is None else lengths.clamp(max=1)
        plain.run(request.cell, first, once, request.state, request.output_dtype)
    random.restore()
    call.plan.unchecked = False


def _say_interpreted(cell: Any, call: Call) -> bool:
    """Whether it is, and somebody was told."""
    reasons = slowed_by(call)
    for reason in reasons:
        fall_back(cell, "is interpreted, not compiled", reason)
    return bool(reasons)


def slowed_by(call: Call) -> list[Reason]:
    """Why phases of a call are interpreted although there is a compiler; nothing if none is."""
    phases = [each for each in (call.schedule.forward, call.schedule.adjoint) if each is not None]
    return [each for each in (phase.slowed_by(call.emitter) for phase in phases) if each is not None]


def prepare(request: Request, scope: str = "rnn") -> tuple[Call, Sequence[Tensor]]:
    """A plan with everything that it needs to run, and the tensors that it runs on.

    Raises:
        CannotPlanError: with the reason, if the plain loop has to do it.
    """
    leaves, options, lengths = flatten(request.inputs), request.options, request.lengths
    shown = request if request.counts is None else _shown_padded(request, request.counts)
    (steps, batch_size), device = static_shape(flatten(shown.inputs)[0])[:2], leaves[0].device
    if steps == 0 or batch_size == 0:
        raise CannotPlanError(Code.NOTHING_TO_RUN, "there is nothing to run")
    ready = plan_of(shown)
    plan = ready.plan
    if lengths is not None and plan.trace.other_containers is not None:
        raise CannotPlanError.of(plan.trace.other_containers)
    operands = Operands(_weights(ready), leaves, flatten(request.state), list(ready.row_buffers.values()))
    tensors = operands.flat()
    if request.counts is not None:
        layout: Layout = PackedLayout.of_counts(request.counts, device)
    else:
        layout = Layout.full(batch_size, steps, device) if lengths is None else Layout.of(lengths, steps, device)
    if layout.steps == 0:
        raise CannotPlanError(Code.NOTHING_TO_RUN, "there is nothing to run")
    ends = plan.reach.results(layout, bits(each.requires_grad for each in tensors)) if ready.adjoint else 0
    adjoint = bool(ends)  # all results may be detached
    call = Call(
        plan,
        layout,
        steps,
        options.parallel_iterations or _default_chunk(steps, batch_size, device),
        (options.memory or default_memory(device)) if adjoint else None,
        options.swap_memory and device.type == "cuda",
        asked(),
        ready.constants,
        _replay(request, ready, layout, steps) if adjoint else None,
        ends,
        scope,
    )
    return _started(call, options), tensors


def relaid(call: Call, layout: Layout, requiring: int, options: Options) -> Call | None:
    """A call whose rows have other lengths than before, and else nothing new; None if it is not that alike.

    Args:
        call: the call before.
        layout: the rows now.
        requiring: a bit for each operand that requires gradients.
        options: how it was to run.
    """
    ends = call.plan.reach.results(layout, requiring) if call.memory is not None else 0
    if layout.steps == 0 or bool(ends) != (call.memory is not None):
        return None
    chunk = options.parallel_iterations or _default_chunk(call.steps, layout.batch_size, layout.device)
    return _started(call._replace(layout=layout, ends=ends, chunk=chunk), options)


def _started(call: Call, options: Options) -> Call:
    """A call whose compilers are at work, in chunks that suit its values."""
    largest = call.start()  # which may still find a reason
    if options.parallel_iterations or largest < LARGE_ROW:
        return call
    return call._replace(chunk=max(1, min(call.chunk, CHUNK_BYTES // (largest * call.layout.batch_size))))


def _shown_padded(request: Request, counts: tuple[int, ...]) -> Request:
    """What a plan is looked for by where rows are packed: it holds for any rows, and depends on kinds and shapes."""

    def shown(leaf: Tensor) -> Tensor:
        return leaf[:1, None].expand(len(counts), counts[0], *leaf.shape[1:])

    return replace(request, inputs=map_structure(shown, request.inputs))


def _weights(ready: Ready) -> list[Tensor]:
    """The weights, without the history of those that get no gradient: an attribute may keep what a step once made."""
    each = zip(ready.weights.values(), ready.plan.trace.d_weights, strict=True)
    return [weight if found is not None or weight.grad_fn is None else weight.detach() for weight, found in each]


def _replay(request: Request, ready: Ready, layout: Layout, steps: int) -> Replay:
    outputs = ready.plan.trace.output_kind
    return Replay(request.cell, ready.signature, request.output_dtype, outputs, layout, steps, ready.key)


CHUNK_STEPS = 32
"""Steps in a chunk, as TensorFlow has it."""
ENOUGH_ROWS = 4096
"""Rows in a chunk with which what is done for all of them at once is as fast as it gets on a CPU."""

LARGE_ROW = 64 << 10
"""Bytes of a value of one row, such as an image, from which few rows are enough for that."""
CHUNK_BYTES = 8 << 20
"""What such a value beside the core may take for all rows of a chunk: what is larger leaves the caches, and a system
hands out fresh memory for it, page by page."""


def _default_chunk(steps: int, batch_size: int, device: torch.device) -> int:
    if device.type != "cpu":
        return CHUNK_STEPS
    most = max(CHUNK_STEPS, -(-ENOUGH_ROWS // batch_size))
    return -(-steps // -(-steps // most))  # chunks of much the same length
