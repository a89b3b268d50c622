"""A cell over sequences: by its plan, or by the plain loop where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from unspool.engine import scanned
from unspool.engine.chunks import default_chunk, suited_chunk
from unspool.engine.emit.registry import asked
from unspool.engine.execute import plain
from unspool.engine.execute.autograd import run_call
from unspool.engine.execute.call import Call
from unspool.engine.execute.device_layout import DeviceLayout
from unspool.engine.execute.double_backward import Replay
from unspool.engine.execute.layout import Layout, PackedLayout
from unspool.engine.execute.operands import Operands
from unspool.engine.execute.recorded.recordings import recordings_of
from unspool.engine.fallbacks import fall_back, is_strict, report_fault
from unspool.engine.known import cache as known_calls
from unspool.engine.known import fixed
from unspool.engine.known.guarded import GuardedCall
from unspool.engine.memory.policies import Keep, Memory, default_memory
from unspool.engine.memory.random_state import RandomState
from unspool.engine.plans.cache import plan_of
from unspool.engine.plans.fast_path import Ready
from unspool.engine.plans.plan import Plan
from unspool.engine.reasons import CannotPlanError, Code, Reason
from unspool.engine.request import Options, Request, stays_on_device
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
    again = fixed.find(request, scope)
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
        what, reason = "runs in the plain loop, one step after another", error.reason
        if reason.code is not Code.NOT_TRACED or is_strict():
            fall_back(request.subject, what, reason)
            return _run_plain(request)
        found = _run_plain(request)  # which may raise what stopped the trace, and says it better
        fall_back(request.subject, what, reason)
        return found
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
        fixed.remember(request, scope, call, tensors)
    return _structured(request, call, results)


def _structured(request: Request, call: Call, results: Sequence[Tensor]) -> tuple[Structure, Structure]:
    outputs = call.plan.trace.output_kind
    first = len(outputs.leaves)
    return outputs.unflatten(results[:first]), unflatten_as(request.state, results[first:])


def _run_plain(request: Request) -> tuple[Structure, Structure]:
    """The same by the plain loop, which knows no packed rows, and none in another order than the cell's."""
    if request.counts is None:
        return plain.run(request.cell, request.inputs, request.lengths, request.state, request.output_dtype)
    layout, order = PackedLayout.of_counts(request.counts, flatten(request.inputs)[0].device), request.order
    back = None if order is None else order.argsort()
    inputs = map_structure(lambda leaf: _picked(layout.padded(leaf), back, 1), request.inputs)
    state = map_structure(lambda leaf: _picked(leaf, back), request.state)
    outputs, state = plain.run(request.cell, inputs, _picked(layout.lengths, back), state, request.output_dtype)
    outputs = map_tensors(lambda leaf: layout.packed(_picked(leaf, order, 1)), outputs)
    return outputs, map_structure(lambda leaf: _picked(leaf, order), state)


def _picked(leaf: Tensor, order: Tensor | None, axis: int = 0) -> Tensor:
    """Rows in another order."""
    return leaf if order is None or not leaf.dim() else leaf.index_select(axis, order)


def _can_be_scanned(request: Request) -> bool:
    steps, leaves = static_shape(flatten(request.inputs)[0])[0], flatten(request.state)
    return steps != 0 and bool(leaves) and all(isinstance(leaf, Tensor) for leaf in leaves)


def _check_values(request: Request, call: Call) -> None:
    """Runs the first step as it stands: what it checks of values, a plan does not."""
    random, lengths, counts = RandomState(call.layout.device), request.lengths, request.counts
    if counts is None:
        first = replace(
            request,
            inputs=map_structure(lambda leaf: leaf[:1], request.inputs),
            lengths=None if lengths is None else lengths.clamp(max=1),
        )
    else:
        first = replace(
            request, inputs=map_structure(lambda leaf: leaf[: counts[0]], request.inputs), counts=counts[:1]
        )
    with torch.no_grad():
        _run_plain(first)
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
    leaves, options = flatten(request.inputs), request.options
    shown = request if request.counts is None else _shown_padded(request, request.counts)
    (steps, batch_size), device = static_shape(flatten(shown.inputs)[0])[:2], leaves[0].device
    if steps == 0 or batch_size == 0:
        raise CannotPlanError(Code.NOTHING_TO_RUN, "there is nothing to run")
    ready = plan_of(shown)
    plan = ready.plan
    if request.lengths is not None and plan.trace.other_containers is not None:
        raise CannotPlanError.of(plan.trace.other_containers)
    by_row = [_picked(each, request.order) for each in ready.row_buffers.values()]
    operands = Operands(_weights(ready), leaves, flatten(request.state), by_row)
    tensors = operands.flat()
    emitter = asked()
    kind = None if request.lengths is None else request.lengths.dtype
    how = steps, batch_size, kind, scope, emitter, options, [each.requires_grad for each in tensors]
    alike = _alike(request, device)
    if alike and (call := _call_again(request, ready, how)) is not None:
        if request.look is not None:
            _remember(request, ready, call)
        return call, tensors

    swap = options.swap_memory and device.type == "cuda"

    def call_on(layout: Layout) -> Call:
        ends = plan.reach.results(layout, bits(each.requires_grad for each in tensors)) if ready.adjoint else 0
        adjoint = bool(ends)  # all results may be detached
        return Call(
            plan,
            layout,
            steps,
            options.parallel_iterations or default_chunk(layout),
            (options.memory or _default_policy(plan, layout, swap=swap)) if adjoint else None,
            swap,
            emitter,
            ready.constants,
            _replay(request, ready, layout, steps) if adjoint else None,
            ends,
            scope,
        )

    call = call_on(_layout(request, steps, batch_size, device))
    if call.layout.on_device and not call.counts_on_device:
        call = call_on(call.layout.counted)
    if call.layout.steps == 0:
        raise CannotPlanError(Code.NOTHING_TO_RUN, "there is nothing to run")
    call = _started(call, options)
    if alike and call.layout.on_device == (request.lengths is not None) and len(ready.calls) < MOST_CALLS:
        call = call._replace(recordings=recordings_of(call))
        ready.calls[how[:3]] = how, call.start(), call._replace(constants={}, replay=None)
    return call, tensors


def _remember(request: Request, ready: Ready, call: Call) -> None:
    """Lets calls that look like this one run without any of this, unless there is something to be said at each."""
    known = None if slowed_by(call) else GuardedCall.of(request, ready, call)
    if known is not None:
        known_calls.remember(request.cell, request.look, known)


def _alike(request: Request, device: torch.device) -> bool:
    """Whether the host sees no more of a call's lengths than of those of others."""
    return request.counts is None and (request.lengths is None or stays_on_device(request.lengths, device))


def _default_policy(plan: Plan, layout: Layout, *, swap: bool) -> Memory:
    """What is kept if nobody says so; who swaps has little room."""
    if layout.device.type != "cuda" or swap:
        return default_memory(layout.device)
    return default_memory(layout.device, Keep().usage(plan, layout).total)


def _call_again(request: Request, ready: Ready, how: tuple[Any, ...]) -> Call | None:
    """A call like an earlier one, as far as the host can tell; None if there was none."""
    before, parts, call = ready.calls.get(how[:3], (None, None, None))
    if call is None or before != how or call.start() != parts:  # an emitter may have turned out to have no form
        return None
    layout: Layout = call.layout
    if request.lengths is not None:
        layout = _layout(request, call.steps, layout.batch_size, layout.device)
    replay = None if call.memory is None else _replay(request, ready, layout, call.steps)
    return call._replace(layout=layout, constants=ready.constants, replay=replay)


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
    chunk = options.parallel_iterations or default_chunk(layout)
    return _started(call._replace(layout=layout, ends=ends, chunk=chunk), options)


def _started(call: Call, options: Options) -> Call:
    """A call whose compilers are at work, in chunks that suit its values."""
    parts = call.start()  # which may still find a reason
    chunk = options.parallel_iterations or suited_chunk(call, parts)
    return call if chunk == call.chunk else call._replace(chunk=chunk)


def _layout(request: Request, steps: int, batch_size: int, device: torch.device) -> Layout:
    """The rows of each step, without waiting for the device where that can be."""
    if request.counts is not None:
        return PackedLayout.of_counts(request.counts, device)
    if request.lengths is None:
        return Layout.full(batch_size, steps, device)
    on_device = stays_on_device(request.lengths, device)
    return (DeviceLayout if on_device else Layout.of)(request.lengths, steps, device)


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


MOST_CALLS = 64
"""How many calls are remembered that differ in their steps and rows alone."""
