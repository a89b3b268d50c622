"""Runs a plan: chunk by chunk, forwards, and backwards for gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from unspool.dynamo import called_as_it_is
from unspool.engine.execute.allocation import empty
from unspool.engine.execute.layout import Layout
from unspool.engine.execute.parts import Shared, Values
from unspool.engine.execute.phase import Phase, add_sums
from unspool.engine.execute.policies import Checkpoint, Keep, Memory
from unspool.engine.execute.random_state import RandomState
from unspool.engine.execute.residual_store import History
from unspool.engine.partition.outer_products import add_outer
from unspool.engine.plans.plan import Plan, Schedule, row_of
from unspool.engine.trace.gradient_reach import bits
from unspool.tracers import differentiator, is_batched, onlooker

Tensors = list[Tensor]


@dataclass(frozen=True)
class Call:
    """One run of a plan over a batch.

    Args:
        plan: what to run.
        layout: the rows of each step.
        steps: how many steps the outputs have; past the longest row they are zero.
        chunk: how many steps are worked on at once.
        memory: what is kept for backward; None if there will be no backward.
        swap: whether what is kept waits in host memory.
        constants: the tensors that the step uses besides weights.
        replay: the same loop by ordinary autograd, from the same tensors, for gradients of gradients, if there are any.
        ends: a bit for each of the results, outputs before final states, that has a gradient.
    """

    plan: Plan
    layout: Layout
    steps: int
    chunk: int
    memory: Memory | None
    swap: bool
    constants: Values
    replay: Callable[[Sequence[Tensor]], Sequence[Tensor]] | None
    ends: int

    @property
    def memories(self) -> int:
        """How many of the last states are memory, which is not among the results."""
        return len(self.plan.trace.memory)

    @property
    def schedule(self) -> Schedule:
        """The phases for what is kept; between checkpoints there is little to keep, so products are."""
        if self.memory is None:
            return self.plan.inference
        return self.plan.keep if isinstance(self.memory, Keep | Checkpoint) else self.plan.recompute

    def start(self) -> None:
        """Starts the compilers of all phases, where there is something to compile.

        Raises:
            CannotPlanError: if the schedule cannot be made.
        """
        for phase in (self.schedule.forward, self.schedule.adjoint):
            if phase is not None:
                phase.parts(self.layout.mean_rows)

    def segments(self) -> list[tuple[int, int]]:
        """The steps from one checkpoint to the next; without checkpoints, all."""
        every = self.memory.every if isinstance(self.memory, Checkpoint) else self.layout.steps
        return _ranges(0, self.layout.steps, every)

    def chunks(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The steps that are worked on at once."""
        return _ranges(start, stop, self.chunk)

    def cut(self, tensors: Sequence[Tensor]) -> tuple[Values, Tensors, Tensors]:
        """Weights by their nodes, inputs and state."""
        traced = self.plan.trace
        first, second = len(traced.weights), len(traced.weights) + len(traced.inputs)
        weights = dict(zip(traced.weights, tensors[:first], strict=True))
        return {**weights, **self.constants}, list(tensors[first:second]), list(tensors[second:])

    def run(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Outputs and final state from weights, inputs and initial state, all flat."""
        if self.memory is None:
            with torch.no_grad() if torch.is_grad_enabled() else nullcontext():
                return _forward(self, tensors, None)
        return _Loop.apply(self, *tensors)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportReturnType]


def _ranges(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    return [(begin, min(begin + size, stop)) for begin in range(start, stop, size)]


class _Loop(torch.autograd.Function):
    """The loop as one operation of autograd."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        history = History(call.layout.device if call.swap else None)
        ctx.random = RandomState(call.layout.device) if call.plan.is_random else None
        results = _separate(_forward(call, tensors, history), tensors)
        ctx.call, ctx.lengths, ctx.given = call, history.lengths, len(tensors)
        ctx.from_outputs = list(dict.fromkeys(call.schedule.from_outputs.values()))
        ctx.save_for_backward(*tensors, *(results[number] for number in ctx.from_outputs), *history.saved())
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(each for number, each in enumerate(results) if not call.ends >> number & 1))
        return tuple(results)

    @staticmethod
    @called_as_it_is
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        saved: Sequence[Tensor] = ctx.saved_tensors  # once: whoever packed them may unpack them only once
        tensors = saved[: ctx.given]
        reached = ctx.call.plan.reach.sources(ctx.call.layout, bits(each is not None for each in gradients))
        wanted = [need and bool(reached >> number & 1) for number, need in enumerate(ctx.needs_input_grad[1:])]
        if not any(wanted):
            return (None,) * (1 + ctx.given)
        # Somebody wants gradients of these gradients, to see every operation, or many gradients at once.
        again = torch.is_grad_enabled()
        if again or onlooker() is not None or differentiator() is not None or any(map(is_batched, gradients)):
            return (None, *_plain_backward(ctx, tensors, gradients, wanted, again))
        kept = ctx.given + len(ctx.from_outputs)
        outputs = dict(zip(ctx.from_outputs, saved[ctx.given : kept], strict=True))
        swap = ctx.call.layout.device if ctx.call.swap else None
        history = History.reading(ctx.lengths, saved[kept:], swap)
        return (None, *_backward(ctx.call, tensors, outputs, history, gradients, wanted))


def _separate(results: Tensors, inputs: Sequence[Tensor]) -> Tensors:
    """`results`, none of which is an input, another result, or a part of something larger: autograd marks each."""
    seen, separate = set(map(id, inputs)), Tensors()
    for each in results:
        separate.append(each.clone() if id(each) in seen or each._base is not None else each)
        seen.add(id(each))
    return separate


# -- forward ----------------------------------------------------------------------------------------------------------


def _forward(call: Call, tensors: Sequence[Tensor], history: History | None) -> Tensors:
    weights, inputs, state = call.cut(tensors)
    layout, traced = call.layout, call.plan.trace
    checkpoints = isinstance(call.memory, Checkpoint)
    schedule = call.plan.inference if checkpoints else call.schedule
    outputs = [_batch(node, call) for node in traced.outputs]
    # Between checkpoints all of the loop runs again: with the same draws, whether or not the adjoint needs them.
    kept = call.plan.draws.outputs if checkpoints else call.schedule.kept
    with _no_autocast(layout.device):
        shared = schedule.forward.begin(weights, layout.mean_rows)
        carried = [layout.sort(leaf) for leaf in state]
        for start, stop in call.segments():
            if checkpoints and history is not None:
                history.keep([leaf[: layout.counts[start]] for leaf in carried[: len(carried) - call.memories]])
            for begin, end in call.chunks(start, stop):
                drawn = call.plan.draw(layout.counts_of(begin, end))
                carried, values = _forward_chunk(
                    call, schedule.forward, shared, inputs, drawn, carried, begin, end, outputs
                )
                if history is not None:
                    history.keep([values[node] for node in kept])
    return [*outputs, *(layout.unsort(leaf) for leaf in carried[: len(carried) - call.memories])]


def _forward_chunk(
    call: Call,
    phase: Phase,
    shared: Shared,
    inputs: Tensors,
    drawn: Values,
    carried: Tensors,
    begin: int,
    end: int,
    outputs: Tensors | None,
) -> tuple[Tensors, Values]:
    """Runs the steps from `begin` to `end`, and writes their outputs, if there is a place for them."""
    layout, traced = call.layout, call.plan.trace
    counts = layout.counts_of(begin, end)
    known = {node: layout.take(leaf, begin, end) for node, leaf in zip(traced.inputs, inputs, strict=True)}
    places: Values = {}
    if outputs is not None:
        places = _places(layout, {node: outputs[k] for node, k in call.schedule.in_place.items()}, begin, end)
    running = [leaf[: counts[0]] for leaf in carried] if layout.sorted else carried
    new, values = phase.run(counts, shared, {**known, **drawn}, running, into=places)
    if outputs is not None:
        for number, (node, leaf) in enumerate(zip(traced.outputs, outputs, strict=True)):
            if call.schedule.in_place.get(node) != number or places.get(node) is not values[node]:
                layout.put(leaf, begin, end, values[node])
    return _beside(new, carried) if layout.sorted else new, values


def _places(layout: Layout, leaves: Values, begin: int, end: int) -> Values:
    """Where the core may write at once what goes to `leaves`; nowhere if its rows have changed places."""
    return {} if layout.sorted else {node: layout.take(leaf, begin, end) for node, leaf in leaves.items()}


def _no_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Casts are part of the plan."""
    if torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def _beside(new: Tensors, old: Tensors) -> Tensors:
    """The rows that ran, and after them those that did not."""
    return [
        fresh if len(fresh) == len(rows) else torch.cat([fresh, rows[len(fresh) :]])
        for fresh, rows in zip(new, old, strict=True)
    ]


def _batch(node: fx.Node, call: Call) -> Tensor:
    """Space for a result of every step; zero where no step writes."""
    row, dtype = row_of(node)
    complete = not call.layout.sorted and call.layout.steps == call.steps
    space = empty((call.steps, call.layout.batch_size, *row), dtype, call.layout.device)
    return space if complete else space.zero_()


# -- backward ---------------------------------------------------------------------------------------------------------


def _backward(
    call: Call,
    tensors: Sequence[Tensor],
    outputs: dict[int, Tensor],
    history: History,
    gradients: Sequence[Tensor | None],
    wanted: Sequence[bool],
) -> list[Tensor | None]:
    weights, inputs, state = call.cut(tensors)
    layout, traced, schedule = call.layout, call.plan.trace, call.schedule
    adjoint = schedule.adjoint
    assert adjoint is not None
    d_outputs, d_final = gradients[: len(traced.outputs)], list(gradients[len(traced.outputs) :])
    d_final += [None] * call.memories
    first = {node: layout.sort(leaf) for node, leaf in zip(traced.state, state, strict=True)}
    d_of = {node: _batch(node, call) for node in traced.d_inputs if node is not None}
    d_state: list[Tensor | None] = [None] * len(state)
    outer = [each for each in schedule.outer if wanted[len(tensors) - len(state) + each.state]]
    for each in outer:
        d = d_final[each.state]
        d_state[each.state] = None if d is None else d.clone()
    sums: Values = {}
    with _no_autocast(layout.device):
        shared = adjoint.begin(weights, layout.mean_rows)
        again = schedule.forward.begin(weights, layout.mean_rows) if isinstance(call.memory, Checkpoint) else None
        carried = [
            torch.zeros_like(leaf) if d is None else layout.sort(d)
            for d, leaf in ((d_final[k], state[k]) for k in schedule.carried)
        ]
        carried += [first[node] for node in schedule.constant]
        for start, stop in reversed(call.segments()):
            for begin, end, kept in _kept_chunks(call, schedule, again, inputs, first, history, start, stop):
                counts = layout.counts_of(begin, end)
                known = dict(kept)
                known.update(
                    (node, layout.take(leaf, begin, end)) for node, leaf in zip(traced.inputs, inputs, strict=True)
                )
                for node, number in schedule.from_outputs.items():
                    known[node] = layout.previous(outputs[number], first[node], begin, end)
                for node, d in zip(traced.d_outputs, d_outputs, strict=True):
                    known[node] = _no_rows(node, counts.total) if d is None else layout.take(d, begin, end)
                running = [leaf[: counts[0]] for leaf in carried] if layout.sorted else carried
                places = _places(layout, d_of, begin, end)
                new, values = adjoint.run(counts, shared, known, running, reverse=True, into=places)
                carried = _beside(new, carried) if layout.sorted else new
                add_sums(sums, adjoint, values)
                for each in outer:
                    factors = [(values[column], values[line]) for column, line in each.factors]
                    d_state[each.state] = add_outer(d_state[each.state], factors, layout, begin, end)
                for node, d in d_of.items():
                    if places.get(node) is not values[node]:
                        layout.put(d, begin, end, values[node])
        totals = adjoint.finish(shared, sums)
    d_weights = [None if node is None else totals[node] for node in traced.d_weights]
    for number, d in zip(schedule.carried, carried[: len(schedule.carried)], strict=True):  # and no memory
        d_state[number] = layout.unsort(d)
    seen: set[fx.Node | None] = set()
    d_inputs: list[Tensor | None] = []
    for node in traced.d_inputs:
        d_inputs.append(None if node is None else d_of[node].clone() if node in seen else d_of[node])
        seen.add(node)
    results = [*d_weights, *d_inputs, *d_state]
    return [result if want else None for result, want in zip(results, wanted, strict=True)]


def _kept_chunks(
    call: Call,
    schedule: Schedule,
    shared: Shared | None,
    inputs: Tensors,
    first: Values,
    history: History,
    start: int,
    stop: int,
) -> Iterator[tuple[int, int, Values]]:
    """The chunks of a segment, last one first, with what was kept of each, or what is kept when it runs again."""
    chunks = call.chunks(start, stop)
    if not isinstance(call.memory, Checkpoint):
        for begin, end in reversed(chunks):
            yield begin, end, dict(zip(schedule.kept, history.take(), strict=True))
        return
    assert shared is not None
    drawn = [dict(zip(call.plan.draws.outputs, history.take(), strict=True)) for _ in chunks]  # the last one first
    rows = call.layout.counts[start]
    carried = [*history.take(), *(first[node][:rows] for node in call.plan.trace.memory)]
    again: list[Values] = []
    for begin, end in chunks:
        carried, values = _forward_chunk(call, schedule.forward, shared, inputs, drawn.pop(), carried, begin, end, None)
        again.append({node: values[node] for node in schedule.kept})
    for begin, end in reversed(chunks):
        yield begin, end, again.pop()


def _no_rows(node: fx.Node, rows: int) -> Tensor:
    """The gradient of an output that nobody used: zeros that take no memory."""
    row, dtype = row_of(node)
    return torch.zeros((), dtype=dtype, device=node.meta["val"].device).expand(rows, *row)


# -- by operations of torch -------------------------------------------------------------------------------------------


def _plain_backward(
    ctx: Any,
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    wanted: Sequence[bool],
    create_graph: bool,
) -> list[Tensor | None]:
    """The same gradients by ordinary autograd through the plain loop, so that they can have gradients themselves."""
    sources = [tensor for tensor, want in zip(tensors, wanted, strict=True) if want]
    with ctx.random.again() if ctx.random else torch.enable_grad():
        assert ctx.call.replay is not None
        results = ctx.call.replay(tensors)
    ends = [(y, d) for y, d in zip(results, gradients, strict=True) if d is not None and y.requires_grad]
    found = torch.autograd.grad(
        [y for y, _ in ends], sources, [d for _, d in ends], create_graph=create_graph, allow_unused=True
    )
    each = iter(found)
    return [next(each) if want else None for want in wanted]
