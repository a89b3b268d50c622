"""Explains a call from its plan: what runs when, from which lines, at what cost in products and memory."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from pathlib import Path

from unspool.engine.emit.registry import LAST
from unspool.engine.execute.call import Call
from unspool.engine.execute.phase import Phase
from unspool.engine.explain.explanation import Direction, Explanation, Extent, Kept, Line, MemoryUse
from unspool.engine.fallbacks import named_after
from unspool.engine.ir.products import RUNS, products_of
from unspool.engine.ir.program import lower_part, operation_name
from unspool.engine.memory.policies import Memory
from unspool.engine.partition.outer_products import OuterSum
from unspool.engine.partition.split import Part
from unspool.engine.reasons import CannotPlanError
from unspool.engine.reasons import Line as SourceLine
from unspool.engine.request import Options, Request
from unspool.engine.run import prepare
from unspool.engine.trace.graph import line_of_node
from unspool.structure import flatten
from unspool.tracers import has_values


def explain(request: Request) -> Explanation:
    """How `engine.run` would run a request; nothing is run."""
    name, leaf, lengths = named_after(request.subject).__name__, flatten(request.inputs)[0], request.lengths
    try:
        call, _ = prepare(request)
    except CannotPlanError as error:
        steps, batch_size = leaf.shape[:2]
        # The plain loop runs every row to the end of the longest.
        longest = int(lengths.max()) if lengths is not None and batch_size and has_values(lengths) else steps
        extent = Extent(batch_size, longest, longest * batch_size, 1, longest, str(leaf.device))
        return Explanation(name, extent, error.reason)
    schedule, memory = call.schedule, call.memory
    forward = schedule.forward if memory is None else memory.forward(call.plan).forward
    reruns = memory is not None and memory.reruns
    return Explanation(
        name,
        _extent(call),
        forward=_direction(call, forward, "forward"),
        backward=None if schedule.adjoint is None else _direction(call, schedule.adjoint, "backward"),
        again=_direction(call, schedule.forward, "forward again") if reruns else None,
        lines=tuple(_lines(call, forward)),
        memory=None if memory is None else _memory(call, memory, request.options),
    )


def _extent(call: Call) -> Extent:
    layout = call.layout
    chunks = [end - begin for segment in call.segments() for begin, end in call.chunks(*segment)]
    rows = layout.rows(0, layout.steps)
    return Extent(layout.batch_size, layout.steps, rows, max(chunks), len(chunks), str(layout.device))


# -- parts ------------------------------------------------------------------------------------------------------------


def _direction(call: Call, phase: Phase, name: str) -> Direction:
    labels, rows = call.plan.labels, call.layout.rows(0, call.layout.steps)
    programs = {part: lower_part(getattr(phase.split, part), labels) for part in RUNS}
    counts = {part: len(program.instructions) for part, program in programs.items()}
    products = [each for part, program in programs.items() for each in products_of(program, name, part, rows)]
    if name == "backward":
        outer = lower_part(_outer_products(call.schedule.outer), labels)
        counts["after"] += len(outer.instructions)
        products += products_of(outer, name, "after", rows)
    draws = lower_part(call.plan.draws, labels) if name != "backward" else None
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
    factors = dict.fromkeys(factor for each in sums for pair in each.factors for factor in pair)
    return Part(tuple(terms), tuple(factors), tuple(terms))


def _emitter(call: Call, phase: Phase) -> tuple[str, dict[str, str], str]:
    """What runs the core of this call, what does not, with the reasons, and the code that runs."""
    parts = phase.wait(call.layout.mean_rows, call.emitter)
    reason = parts.core.interpreted(ragged=call.layout.sorted)
    if reason is not None:
        return LAST.name, {parts.emitter.name: str(reason)}, parts.core.source
    passed_over = {name: str(reason) for name, reason in phase.passed_over(call.emitter).items()}
    return parts.emitter.name, passed_over, parts.core.source


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
    others = [kind.example() for kind in Memory.__subclasses__() if kind is not type(policy)]
    why = f"the default on {call.layout.device.type}" if options.memory is None else "as the call says"
    return MemoryUse(_kept(call, policy), why, tuple(_kept(call, each) for each in others), call.swap)


def _kept(call: Call, policy: Memory) -> Kept:
    try:
        usage = policy.usage(call.plan, call.layout)
    except CannotPlanError as error:
        return Kept(policy, "", 0, 0, 0, str(error))
    what = [each for each in usage.what if not each.startswith("0 ") or "more" in each]
    return Kept(policy, ", ".join(what) or "nothing", usage.row_bytes, usage.total, usage.again)
