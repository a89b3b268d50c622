"""Splits a step into what runs once, what runs for many steps at once, and the core that must run step by step.

| part | depends on | runs |
|---|---|---|
| invariant | weights alone | once a call |
| before | what is known before the loop | for a chunk of steps at once |
| core | what is carried, on the path to what is carried on | step by step |
| after | what is carried, but no later step needs it | for a chunk at once |
| total | sums over rows | once a call, from the sums over all chunks |

Forward, the state is carried, and the inputs are known before. In the adjoint, the gradient of the state is carried,
and the states are known too: so *before* has the derivatives of a whole chunk, and *after* the gradients of inputs and
weights. Time is folded into the batch in *before* and *after*, so that a weight's gradient is one matrix product a
chunk.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from unspool.engine.ops import VIEWS, is_pointwise
from unspool.engine.partition.interleaved import moved_views
from unspool.engine.partition.residuals import DIGEST, is_digest, row_bytes
from unspool.engine.rows.labels import SUMMED, Label
from unspool.engine.trace.graph import Node, ancestors, descendants, invariants, is_size, operand
from unspool.engine.trace.trace import Trace


@dataclass(frozen=True)
class Part:
    """A piece of a graph that can run by itself: `outputs` from `inputs`, both of the whole graph's nodes."""

    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]


@dataclass(frozen=True)
class Split:
    """A graph in its parts.

    `carried` becomes `new_carried` from step to step; a None there is zero. `wanted` are the results of every step, and
    sums over rows.
    """

    invariant: Part
    before: Part
    core: Part
    after: Part
    total: Part
    carried: tuple[Node, ...]
    new_carried: tuple[Node | None, ...]
    wanted: tuple[Node, ...]


def split(
    trace: Trace,
    labels: dict[Node, Label],
    known: Sequence[Node],
    carried: Sequence[Node],
    new_carried: Sequence[Node | None],
    wanted: Sequence[Node],
) -> Split:
    """Splits what `wanted` and `new_carried` need.

    Args:
        trace: the graph.
        labels: where the rows are in each node.
        known: nodes that are not computed but given, one row for each row and step.
        carried: what a step takes over.
        new_carried: what it hands on.
        wanted: results of every step, or sums over rows.
    """
    graph = trace.graph
    given = {*known, *carried}
    needed = ancestors([*wanted, *new_carried], stop=given)
    nodes = [node for node in graph.nodes if node in needed and node.op == "call_function" and node not in given]
    nodes = [node for node in nodes if not is_size(node)]

    same = invariants(graph, trace.weights)
    moving = descendants(graph, carried, stop=given)
    sequential = ancestors(new_carried, stop=given)
    summed = {node for node in nodes if labels[node] == SUMMED}
    total = [node for node in nodes if node in summed and all(each in summed | same for each in node.all_input_nodes)]
    rest = [node for node in nodes if node not in same and node not in total]
    in_core = {node for node in rest if node in moving and node in sequential}
    # The results of an operation with several stay together with it.
    in_core |= {node for node in rest if node.target is operator.getitem and operand(node, 0) in in_core}
    after = [node for node in rest if node in moving and node not in in_core]
    in_core |= _digested(after, in_core, {*wanted, *new_carried}, labels)
    in_core |= moved_views(rest, in_core, labels)
    core = [node for node in rest if node in in_core]
    after = [node for node in after if node not in in_core]
    before = [node for node in rest if node not in moving and node not in in_core]

    invariant = [node for node in nodes if node in same]
    return _assemble(invariant, before, core, after, total, carried, new_carried, wanted)


def _digested(
    after: Sequence[Node], core: set[Node], results: set[Node | None], labels: dict[Node, Label]
) -> set[Node]:
    """Reductions that could wait, but whose large inputs would have to be written at every step: they join the core.

    The gradient of the vector that the scores of a memory are made with, say, is a sum over all places.
    """
    found: set[Node] = set()
    for digest in (node for node in after if is_digest(node, labels)):
        way = {node for node in ancestors([digest], stop=core) if node in after}
        left = {each for node in way for each in node.all_input_nodes if each in core and each not in results}
        spared = [each for each in left if all(user in core or user in way or user in found for user in each.users)]
        plain = all(node is digest or is_pointwise(node.target) or node.target in VIEWS for node in way)
        if plain and any(DIGEST * row_bytes(digest, labels) <= row_bytes(each, labels) for each in spared):
            found |= way
    return found


def regroup(split: Split, before: Sequence[Node], core: Sequence[Node], after: Sequence[Node]) -> Split:
    """The same split with its nodes otherwise divided among before, core and after; some may be in several."""
    invariant, total = split.invariant.nodes, split.total.nodes
    return _assemble(invariant, before, core, after, total, split.carried, split.new_carried, split.wanted)


def _assemble(
    invariant: Sequence[Node],
    before: Sequence[Node],
    core: Sequence[Node],
    after: Sequence[Node],
    total: Sequence[Node],
    carried: Sequence[Node],
    new_carried: Sequence[Node | None],
    wanted: Sequence[Node],
) -> Split:
    """The parts, each with what it takes from the others and what it puts out for them."""
    handed_on = [node for node in new_carried if node is not None]

    def part(
        own: Sequence[Node], *others: Sequence[Node], also: Collection[Node] = (), earlier: Collection[Node] = ()
    ) -> Part:
        """`own`, which puts out what `others`, or the caller, need of it, unless an `earlier` part has done so."""
        inside = set(own)
        used = {each for other in others for each in _inputs(other, {*other})} | set(also)
        outputs = [node for node in own if node not in earlier and (node in used or node in wanted)]
        return Part(tuple(own), _inputs(own, inside), tuple(outputs))

    core_part = part(core, after, total, earlier=set(before))
    # A state that is handed on without being computed, or that is wanted as it was, passes through the core.
    through = [node for node in [*handed_on, *wanted, *_inputs(after, after)] if node in carried or node in handed_on]
    core_inputs = _unique([*core_part.inputs, *(node for node in through if node not in core)])
    seen_outside = {*wanted, *_inputs(after, after)}
    core_outputs = _unique([*core_part.outputs, *(node for node in carried if node in seen_outside)])
    return Split(
        invariant=part(invariant, before, core, after, total),
        before=part(before, core, after, total, also=set(handed_on).difference(core)),
        core=Part(core_part.nodes, core_inputs, core_outputs),
        after=part(after, total, earlier={*before, *core}),
        total=part(total),
        carried=tuple(carried),
        new_carried=tuple(new_carried),
        wanted=tuple(wanted),
    )


def _inputs(nodes: Sequence[Node], inside: Collection[Node]) -> tuple[Node, ...]:
    found = [each for node in nodes for each in node.all_input_nodes if each not in inside and not is_size(each)]
    return _unique(found)


def _unique(nodes: Sequence[Node]) -> tuple[Node, ...]:
    return tuple(dict.fromkeys(nodes))
