"""Explains a call from its plan: what runs when, from which lines, at what cost in products and memory."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unspool.engine.emit.graphs.graphed import Graphed
from unspool.engine.emit.graphs.padded import can_pad
from unspool.engine.emit.interpreted import Interpreted
from unspool.engine.execute.call import Call
from unspool.engine.execute.phase import Phase
from unspool.engine.execute.policies import Checkpoint, Keep, Memory, Recompute
from unspool.engine.explain.explanation import Direction, Explanation, Extent, Kept, Line, MemoryUse
from unspool.engine.explain.units import counted
from unspool.engine.ir.products import RUNS, products_of
from unspool.engine.ir.program import lower, operation_name
from unspool.engine.options import Options
from unspool.engine.partition.outer_products import OuterSum
from unspool.engine.partition.residuals import row_bytes
from unspool.engine.partition.split import Part
from unspool.engine.reasons import CannotPlanError
from unspool.engine.reasons import Line as SourceLine
from unspool.engine.run import LEAST_STEPS, prepare
from unspool.engine.trace.graph import line_of_node
from unspool.structure import Structure, flatten
from unspool.tracers import has_values


def explain(
    cell: Any,
    inputs: Structure,
    lengths: Tensor | None,
    state: Structure,
    output_dtype: torch.dtype,
    options: Options,
) -> Explanation:
    """How `run` would run the same arguments; nothing is run."""
    name, leaf = type(cell).__name__, flatten(inputs)[0]
    try:
        call, _ = prepare(cell, inputs, lengths, state, output_dtype, options)
    except CannotPlanError as error:
        steps, batch_size = leaf.shape[:2]
        # The plain loop runs every row to the end of the longest.
        longest = int(lengths.max()) if lengths is not None and batch_size and has_values(lengths) else steps
        extent = Extent(batch_size, longest, longest * batch_size, 1, longest, str(leaf.device))
        return Explanation(name, extent, error.reason)
    checkpoints = isinstance(call.memory, Checkpoint)
    schedule = call.schedule
    forward = call.plan.inference.forward if checkpoints else schedule.forward
    return Explanation(
        name,
        _extent(call),
        forward=_direction(call, forward, "forward"),
        backward=None if schedule.adjoint is None else _direction(call, schedule.adjoint, "backward"),
        again=_direction(call, schedule.forward, "forward again") if checkpoints else None,
        lines=tuple(_lines(call, forward)),
        memory=None if call.memory is None else _memory(call, call.memory, options),
    )


def _extent(call: Call) -> Extent:
    layout = call.layout
    chunks = [end - begin for segment in call.segments() for begin, end in call.chunks(*segment)]
    rows = layout.rows(0, layout.steps)
    return Extent(layout.batch_size, layout.steps, rows, max(chunks), len(chunks), str(layout.device))


# -- parts ------------------------------------------------------------------------------------------------------------


def _direction(call: Call, phase: Phase, name: str) -> Direction:
    labels, rows = call.plan.labels, call.layout.rows(0, call.layout.steps)
    programs = {part: lower(getattr(phase.split, part), labels) for part in RUNS}
    counts = {part: len(program.instructions) for part, program in programs.items()}
    products = [each for part, program in programs.items() for each in products_of(program, name, part, rows)]
    if name == "backward":
        outer = lower(_outer_products(call.schedule.outer), labels)
        counts["after"] += len(outer.instructions)
        products += products_of(outer, name, "after", rows)
    draws = lower(call.plan.draws, labels) if name != "backward" else None
    emitter, passed_over, source = _emitter(call, phase)
    return Direction(
        **counts,
        draws=0 if draws is None else len(draws.instructions),
        products=tuple(products),
        operations=tuple(each.name for each in phase.core.instructions),
        program=str(phase.core),
        emitter=emitter,
        passed_over=tuple(passed_over.items()),
        source=source,
    )


def _outer_products(sums: Sequence[OuterSum]) -> Part:
    """What each step would add to gradients that need not be carried; it is computed for all steps at once."""
    terms = [term for each in sums for term in each.terms]
    return Part(tuple(terms), tuple(dict.fromkeys(factor for term in terms for factor in term.args)), tuple(terms))


def _emitter(call: Call, phase: Phase) -> tuple[str, dict[str, str], str]:
    """What runs the core of this call, what does not, with the reasons, and the code that runs."""
    loop = phase.wait(call.layout.mean_rows).loop
    if loop.name == Graphed.name and call.layout.sorted and not can_pad(loop.core):
        why = {Graphed.name: "rows end at different steps, and a step of these cannot be padded"}
        return Interpreted.name, why, loop.source
    return loop.name, {name: str(reason) for name, reason in phase.passed_over.items()}, loop.source


def _lines(call: Call, forward: Phase) -> list[Line]:
    """The lines in the order of the code, files in the order in which they are first met."""
    split, draws = forward.split, call.plan.draws
    parts = {"invariant": [split.invariant], "before": [draws, split.before], "core": [split.core]}
    parts["after"] = [split.after]
    found: dict[SourceLine, dict[str, list[str]]] = {}
    for name, pieces in parts.items():
        for node in (node for piece in pieces for node in piece.nodes if node.target is not operator.getitem):
            line = line_of_node(node)
            if line is not None:
                found.setdefault(line, {}).setdefault(name, []).append(operation_name(node.target))
    lines = [line_of_node(node) for node in call.plan.trace.graph.nodes]
    files = list(dict.fromkeys(line.file for line in lines if line is not None))
    return [
        Line(Path(each.file).name, each.number, each.text, **{name: tuple(own) for name, own in found[each].items()})
        for each in sorted(found, key=lambda each: (files.index(each.file), each.number))
    ]


# -- memory -----------------------------------------------------------------------------------------------------------


def _memory(call: Call, policy: Memory, options: Options) -> MemoryUse:
    checkpoint = policy if isinstance(policy, Checkpoint) else Checkpoint(LEAST_STEPS)
    every = [_kept(replace(call, memory=each), each) for each in (Keep(), Recompute(), checkpoint)]
    chosen = next(each for each in every if each.policy == policy)
    why = f"the default on {call.layout.device.type}" if options.memory is None else "as the call says"
    return MemoryUse(chosen, why, tuple(each for each in every if each is not chosen), call.swap)


def _kept(call: Call, policy: Memory) -> Kept:
    layout, trace = call.layout, call.plan.trace
    try:
        schedule = call.schedule
    except CannotPlanError as error:
        return Kept(policy, "", 0, 0, 0, str(error))
    rows = layout.rows(0, layout.steps)
    draws = [node for node in schedule.kept if node in call.plan.draws.outputs]
    states = [node for node in schedule.kept if node in trace.state]
    activations = len(schedule.kept) - len(draws) - len(states)
    every_row = _row_bytes(call, schedule.kept)
    if isinstance(policy, Checkpoint):
        segments, draws = call.segments(), call.plan.draws.outputs
        states_kept = sum(layout.counts[start] for start, _ in segments) * _row_bytes(call, trace.state)
        total = states_kept + rows * _row_bytes(call, draws)
        again = max(layout.rows(start, stop) for start, stop in segments) * every_row
        what = [f"all states at {counted(len(segments), 'step')}", counted(len(draws), "draw")]
        return Kept(policy, _list(what), total / rows, total, again)
    read = f" ({len(schedule.from_outputs)} more in the outputs)" if schedule.from_outputs else ""
    what = [counted(len(states), "state") + read, counted(activations, "activation"), counted(len(draws), "draw")]
    return Kept(policy, _list(what), every_row, rows * every_row)


def _list(items: Sequence[str]) -> str:
    return ", ".join(item for item in items if not item.startswith("0 ") or "more" in item) or "nothing"


def _row_bytes(call: Call, nodes: Sequence[Any]) -> int:
    return sum(row_bytes(node, call.plan.labels) for node in nodes)
