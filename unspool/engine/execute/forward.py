"""The forward pass of a call: chunk after chunk, with what backward needs put aside."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from unspool.engine.execute.call import Call
from unspool.engine.execute.operands import Operands
from unspool.engine.execute.parts import Bound, Steps, Values
from unspool.engine.memory.residual_store import ResidualStore

Tensors = list[Tensor]


def forward(call: Call, tensors: Sequence[Tensor], store: ResidualStore | None) -> Tensors:
    """Outputs and final state; what the policy keeps goes to `store`, if there is one."""
    layout, plan, operands = call.layout, call.plan, call.operands(tensors)
    schedule = call.first_schedule
    kept = () if call.memory is None else call.memory.residuals(plan)
    keeps_states = call.memory is not None and call.memory.reruns
    states = len(operands.state)
    outputs = [call.space(node) for node in plan.trace.outputs]
    with no_autocast(layout.device):
        bound = schedule.forward.begin(call.weights(operands), layout.mean_rows, call.emitter)
        carried = [layout.sort(leaf) for leaf in operands.carried]
        for start, stop in call.segments():
            if keeps_states and store is not None:
                store.keep([leaf[: layout.counts[start]] for leaf in carried[:states]])
            for begin, end in call.chunks(start, stop):
                drawn = plan.draw(layout.counts_of(begin, end))
                carried, values = forward_chunk(call, bound, operands, drawn, carried, (begin, end), outputs)
                if store is not None:
                    store.keep([values[node] for node in kept])
                del values  # their memory is the next chunk's
    return [*outputs, *(layout.unsort(leaf) for leaf in carried[:states])]


def forward_chunk(
    call: Call,
    bound: Bound,
    operands: Operands[Tensor],
    drawn: Values,
    carried: Tensors,
    steps: tuple[int, int],
    outputs: Tensors | None = None,
) -> tuple[Tensors, Values]:
    """Runs some steps, and writes their outputs, if there is a place for them: what is carried on, and all values."""
    layout, traced, in_place = call.layout, call.plan.trace, call.schedule.in_place
    counts = layout.counts_of(*steps)
    known = {node: layout.take(leaf, *steps) for node, leaf in zip(traced.inputs, operands.inputs, strict=True)}
    for node in bound.parts.needs.lent.intersection(known):  # an index, say, which has to be in range
        known[node] = layout.if_any_runs(known[node], steps[0])
    places: Values = {}
    if outputs is not None:
        places = call.places({node: outputs[k] for node, k in in_place.items()}, *steps)
    running = first_rows(carried, counts[0]) if layout.sorted else carried
    chunk = Steps(counts, into=places, scope=call.scope)
    if layout.on_device:
        kept = (call.schedule if outputs is None else call.first_schedule).kept
        needs, after = call.adjoint_needs, bound.parts.split.after.outputs  # computed of whatever the core has left
        lending = (needs.lent | needs.finite.intersection(after)).intersection(kept)
        lent = layout.lent(*steps) if lending else None
        zeros = needs.finite.intersection(kept).union(() if outputs is None else traced.outputs)
        chunk = chunk._replace(running=layout.running(*steps), lent=lent, lending=lending, zeros=zeros)
    new, values = bound.run({**known, **drawn}, running, chunk)
    if outputs is not None:
        for number, (node, leaf) in enumerate(zip(traced.outputs, outputs, strict=True)):
            if in_place.get(node) != number or places.get(node) is not values[node]:
                layout.put(leaf, *steps, values[node], zero=bound.is_zero(node, chunk))
    return beside(new, carried) if layout.sorted else new, values


def first_rows(leaves: Tensors, rows: int) -> Tensors:
    """So many rows of each."""
    return [leaf if len(leaf) == rows else leaf[:rows] for leaf in leaves]


def beside(new: Tensors, old: Tensors) -> Tensors:
    """The rows that ran, and after them those that did not."""
    return [
        fresh if len(fresh) == len(rows) else torch.cat([fresh, rows[len(fresh) :]])
        for fresh, rows in zip(new, old, strict=True)
    ]


def no_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Casts are part of the plan."""
    if torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return _AS_IT_IS


_AS_IT_IS = nullcontext()
