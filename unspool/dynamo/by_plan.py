"""A site's loop by its plan alone: forward pass and adjoint are called as they are, without autograd in the operation.

That is so where the loop is one call of the engine on the site's operands: what it starts from has no history, and
nothing is done when a sequence begins. Of a call like one before, only the guard is checked.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unspool.dynamo.beginnings import does_nothing, is_zero
from unspool.dynamo.layouts import in_own_memory, separate
from unspool.dynamo.residuals import Recording, Residuals, gradient_lost
from unspool.dynamo.site import Site, fill
from unspool.engine.emit.registry import asked
from unspool.engine.execute.backward import Backward
from unspool.engine.execute.call import Call
from unspool.engine.execute.forward import forward
from unspool.engine.execute.layout import Layout
from unspool.engine.guards.guard import Guard, Place
from unspool.engine.memory.random_state import RandomState
from unspool.engine.memory.residual_store import ResidualStore
from unspool.engine.plans.cache import latest_call
from unspool.engine.plans.checks import check_circumstances
from unspool.engine.reasons import CannotPlanError
from unspool.engine.request import Options
from unspool.engine.run import prepare, relaid, slowed_by
from unspool.engine.trace.gradient_reach import bits
from unspool.loops.arguments import Sequences, as_sequences, as_state, scope_name
from unspool.loops.dynamic import dynamic_rnn
from unspool.loops.lengths import as_lengths, check_lengths_fit
from unspool.profiling import profiled
from unspool.structure import flatten, unflatten_as
from unspool.wrapped import is_wrapped

MOST = 64
"""How many calls a site remembers: sequences of many lengths look like no other."""


class Planned(NamedTuple):
    """The one call of the engine that a site's loop is.

    Args:
        call: the call, without its replay, which would keep the cell alive.
        sources: which of the site's operands each of its operands is; None for those that are none.
        own: those that are none; None for the others.
        inputs: which of its operands are inputs, from where to where.
        order: its results, by number, in the order of the site's.
    """

    call: Call
    sources: Sequence[int | None]
    own: Sequence[Tensor | None]
    inputs: range
    order: Sequence[int]

    def tensors(self, operands: Sequence[Tensor], time_axis: int) -> list[Any]:
        """The operands of the call, whose inputs have time as their first axis, of those of the site."""
        each = zip(self.own, self.sources, strict=True)
        found: list[Any] = [own if source is None else operands[source] for own, source in each]
        if time_axis:
            for k in self.inputs:
                found[k] = found[k] if self.sources[k] is None else found[k].transpose(0, 1)
        return found


class Remembered(NamedTuple):
    """A call for others like it, as long as its guard holds.

    Args:
        guard: whether the cell is as it was.
        weights: where it lists the weights.
        how: what else it depends on.
        planned: the call.
        starts: whether the cell makes the initial state at every call.
        options: how it was to run.
    """

    guard: Guard
    weights: list[Place]
    how: Hashable
    planned: Planned
    starts: bool
    options: Options


def plan(at: Site, operands: Sequence[Tensor]) -> tuple[Planned, list[Any]] | None:
    """The call of the engine that a site's loop is, and its operands; None if the loop is more than that.

    Raises:
        RuntimeError: if a gradient reaches what it did not when the graph was recorded.
    """
    if at.loop is not dynamic_rnn:
        return None
    cell, key = at.cells[0](), tuple([each.shape for each in operands[at.weights :]])
    remembered: Remembered | None = at.remembered.get(key)
    try:
        check_circumstances(operands[-1].device)
        if remembered is not None and (found := _again(at, cell, operands, remembered)) is not None:
            return found
        if not at.is_as_recorded(operands) or not does_nothing(cell) or is_wrapped(cell):
            return None
        return _prepared(at, cell, operands, key)
    except CannotPlanError:  # the loop says why
        return None


def reached(at: Site, operands: Sequence[Tensor]) -> list[bool]:
    """Which of the operands that require gradients get some from loops over any number of steps, as far as is known."""
    try:
        found = plan(at, operands)
    except (IndexError, RuntimeError, TypeError, ValueError):  # of which the loop tells the caller
        found = None
    if found is None:
        return list(at.asked)
    numbers = _reached(found[0])
    return [asked and number in numbers for number, asked in enumerate(at.asked)]


def _reached(planned: Planned) -> set[int | None]:
    """The operands of a site that gradients of its results reach."""
    reach = planned.call.plan.reach.ever()
    return {source for k, source in enumerate(planned.sources) if reach >> k & 1}


def run(at: Site, planned: Planned, tensors: Sequence[Tensor], operands: Sequence[Tensor]) -> tuple[list[Tensor], Kept]:
    """The site's results, and what its backward pass needs besides operands and results.

    Raises:
        IndexError, RuntimeError, ValueError: as the plan does; no number has been drawn then.
    """
    call = planned.call
    store = ResidualStore(call.layout.device if call.swap else None)
    random = RandomState(call.layout.device) if call.plan.is_random else None
    try:
        with torch.no_grad() if torch.is_grad_enabled() else nullcontext(), profiled(call.scope):
            made = forward(call, tensors, None if call.memory is None else store)
    except (IndexError, RuntimeError, ValueError):
        if random is not None:
            random.restore()
        raise
    at.ran, turned = call.plan, at.turned
    results = separate([made[k].contiguous() for k in planned.order], tensors)
    saved = in_own_memory(store.saved(), [*operands, *results])
    results[:turned] = [each.transpose(0, 1) for each in results[:turned]]
    return results, Kept(planned, at.time_axis, turned, store.lengths, saved)


class Kept(Residuals):
    """What the adjoint of a plan needs of the forward pass, less operands and results of the operation.

    Args:
        planned: the call.
        time_axis: the axis of time in inputs and outputs.
        turned: how many of the site's results, the first ones, have time as their second axis.
        lengths, saved: the contents of a `ResidualStore`.
    """

    def __init__(
        self, planned: Planned, time_axis: int, turned: int, lengths: Sequence[int], saved: Sequence[Tensor]
    ) -> None:
        super().__init__()
        self._planned, self._time_axis, self._turned = planned, time_axis, turned
        self._lengths, self._saved = lengths, saved

    def gradients(
        self,
        operands: Sequence[Tensor],
        results: Sequence[Tensor],
        gradients: Sequence[Tensor | None],
        wanted: Sequence[bool],
    ) -> list[Tensor | None]:
        """Gradients of the operands, given again with the results, that want them."""
        planned, turned = self._planned, self._turned
        call, sources, order = planned.call, planned.sources, planned.order
        arrived: list[Tensor | None] = [None] * len(order)
        for place, (k, d) in enumerate(zip(order, gradients, strict=True)):
            arrived[k] = d.transpose(0, 1) if d is not None and place < turned else d
        reached = call.plan.reach.sources(call.layout, bits([d is not None for d in arrived]))
        needed = [s is not None and wanted[s] and bool(reached >> k & 1) for k, s in enumerate(sources)]
        found: list[Tensor | None] = [None] * len(operands)
        if call.memory is not None and any(needed):
            made = {k: results[order.index(k)] for k in call.schedule.used_outputs}
            outputs = {k: each.transpose(0, 1) if turned else each for k, each in made.items()}
            store = ResidualStore.reading(self._lengths, self._saved, call.layout.device if call.swap else None)
            tensors = planned.tensors(operands, self._time_axis)
            for k, d in enumerate(Backward(call, tensors, outputs, store, arrived, needed).run()):
                source = sources[k]
                if d is not None and source is not None:
                    d = d.transpose(0, 1) if self._time_axis and k in planned.inputs else d
                    before = found[source]
                    found[source] = d if before is None else before + d
        return [d for d, want in zip(found, wanted, strict=True) if want]


def _again(at: Site, cell: Any, operands: Sequence[Tensor], remembered: Remembered) -> tuple[Planned, list[Any]] | None:
    """A call that is remembered, and its operands now; None if something else has changed than their values."""
    guard, weights, how, planned, starts, options = remembered
    listed = guard.check(cell) if _how() == how else None
    if listed is None:
        return None
    tensors = planned.tensors(operands, at.time_axis)
    for k, (probe, place) in enumerate(weights):
        if tensors[k] is not listed[probe][place]:
            return None
    if at.lengths is not None:
        call = _with_lengths(at, planned, operands[at.lengths], options)
        if call is None:
            return None
        planned = planned._replace(call=call)
    if starts:
        rows, inputs = planned.call.layout.batch_size, planned.inputs
        leaves = tensors[inputs.start : inputs.stop]
        with Recording():
            state = flatten(as_state(cell, None, at.options["dtype"], rows, leaves, "initial_state"))
        if any(each.requires_grad for each in state):
            return None
        planned = planned._replace(own=[*planned.own[: inputs.stop], *state])
        tensors[inputs.stop :] = state
    return planned, tensors


def _with_lengths(at: Site, planned: Planned, given: Tensor, options: Options) -> Call | None:
    """The call with these lengths.

    Raises:
        ValueError: if one of them does not fit.
    """
    call, lengths = planned.call, as_lengths(given)
    check_lengths_fit(lengths, call.steps)
    requiring = bits([source is not None and at.asked[source] for source in planned.sources])
    return relaid(call, Layout.of(lengths, call.steps, call.layout.device), requiring, options)


def _prepared(at: Site, cell: Any, operands: Sequence[Tensor], key: Hashable) -> tuple[Planned, list[Any]] | None:
    with Recording(any(at.wanted)):
        each = zip(operands, at.asked, strict=True)
        given = [one if one.requires_grad == want else one.detach().requires_grad_(want) for one, want in each]
        arguments = {name: fill(each, given, [cell]) for name, each in at.arguments.items()}
        options = {name: each for name, each in at.options.items() if name != "scope"}
        sequences = as_sequences(**arguments, **options)
        if sequences.axes != 0:
            return None
        call, tensors = prepare(sequences, scope_name(at.options["scope"], "rnn"))
    trace = call.plan.trace
    if call.plan.unchecked or trace.row_buffers or slowed_by(call):
        return None
    starts = arguments["initial_state"] is None
    numbers = {id(each): number for number, each in reversed(list(enumerate(given)))}
    leaves = [*tensors[: len(trace.weights)], *flatten(arguments["inputs"]), *flatten(arguments["initial_state"])]
    sources = [numbers.get(id(each)) for each in leaves[: -1 if starts else None]]
    sources += [None] * (len(tensors) - len(sources))
    if any(source is None and each.requires_grad for each, source in zip(tensors, sources, strict=True)):
        return None
    inputs = range(len(trace.weights), len(trace.weights) + len(trace.inputs))
    own = [each if source is None else None for each, source in zip(tensors, sources, strict=True)]
    planned = Planned(call._replace(replay=None), sources, own, inputs, _order(at, call, sequences))
    if any(at.asked[number] and not at.wanted[number] for number in _reached(planned) if number is not None):
        raise gradient_lost()
    latest = latest_call(cell, call.plan)
    # Once the plan has run, no compiler is at work any more that could fail.
    ran = at.ran is call.plan
    space = key in at.remembered or len(at.remembered) < MOST
    if latest is not None and ran and space and _is_decided(at, sequences, call, tensors):
        at.remembered[key] = Remembered(*latest, _how(), planned, starts and not is_zero(cell), sequences.options)
    return planned, list(tensors)


def _is_decided(at: Site, sequences: Sequences, call: Call, tensors: Sequence[Tensor]) -> bool:
    """Whether no value but lengths decides how a call runs: drawn numbers, say, or what was computed before."""
    if sequences.owner is not None or call.plan.is_random or call.plan.decided_by:
        return False
    if sequences.lengths is not None and at.lengths is None:
        return False
    return all(each.grad_fn is None for each in tensors[: len(call.plan.trace.weights)])


def _order(at: Site, call: Call, sequences: Sequences) -> list[int]:
    """The results of a call, by number, in the order of the site's."""
    outputs = call.plan.trace.output_kind
    first = len(outputs.leaves)
    marks = [torch.empty(0) for _ in range(first + len(flatten(sequences.state)))]
    numbers = {id(mark): number for number, mark in enumerate(marks)}
    found = at.results((outputs.unflatten(marks[:first]), unflatten_as(sequences.state, marks[first:])))
    return [numbers[id(mark)] for mark in found]


def _how() -> Hashable:
    """What a call depends on that neither Dynamo nor the guard of a plan looks at."""
    return torch.is_inference_mode_enabled(), asked()
