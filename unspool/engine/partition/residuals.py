"""Chooses residuals so that backward repeats no matrix product and no large reduction.

docs/internals.md says why each trade is right.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection

from unspool.engine.ops import COMPARISONS, PRODUCTS, REDUCTIONS, VIEWS, is_pointwise
from unspool.engine.rows.labels import Axis, Label
from unspool.engine.trace.graph import Node, ancestors, aten, value
from unspool.engine.trace.trace import Trace


def values_to_keep(trace: Trace, labels: dict[Node, Label], known: Collection[Node]) -> list[Node]:
    """What forward keeps besides states: results of products that the adjoint needs, or what saves the same work.

    A result, or a state, is traded for what is computed from it without a product, if that is no larger and the adjoint
    needs nothing else of it: one sum instead of two products, the gates instead of what they are computed from, a state
    where some rows start anew instead of the state before that. What a row is reduced to is kept too where it is far
    smaller: the scores of an attention, and so its alignments. Not a maximum that is compared with what it is the
    maximum of: computed again, these may be rounded another way.
    """
    wanted = [*trace.d_weights, *trace.d_inputs, *trace.d_state]
    forward = ancestors([*trace.outputs, *trace.new_state], stop=known)
    needed = ancestors(wanted, stop=known)
    here = [node for node in trace.graph.nodes if node in forward and node in needed and node not in known]
    work = {*PRODUCTS, aten.convolution.default}
    kept = {node for node in here if _has_rows(node, labels) and node.target in work}
    kept |= {node for node in here if is_digest(node, labels) and not _is_compared(node, needed)}
    states = {node for node in trace.state if node in needed and node not in trace.row_buffers}
    kept |= states
    for node in here:
        if node in kept:
            kept = _in_pieces(node, kept, needed, forward, labels)
        elif (is_pointwise(node.target) or node.target in REDUCTIONS) and _has_rows(node, labels):
            traded = {each for each in node.all_input_nodes if each in kept}
            if (
                traded
                and all(_users(each, needed) == {node} for each in traded)
                and _bytes(labels, node) <= _bytes(labels, *traded)
            ):
                kept = kept - traded | {node}
                kept = _in_pieces(node, kept, needed, forward, labels)
    still_needed = ancestors(wanted, stop={*known, *kept})
    return [node for node in trace.graph.nodes if node in kept - states and node in still_needed]


def is_digest(node: Node, labels: dict[Node, Label]) -> bool:
    """Whether a node is a reduction at least `DIGEST` times smaller than its input."""
    if node.target not in REDUCTIONS or _several(node) or not _has_rows(node, labels):
        return False
    return DIGEST * row_bytes(node, labels) <= max(row_bytes(each, labels) for each in node.all_input_nodes)


def _is_compared(node: Node, needed: set[Node]) -> bool:
    """Whether a reduction meets what it is computed from in a comparison, as in the gradient of a maximum."""
    seen, waiting = set[Node](), [node]
    while waiting:
        for user in _users(waiting.pop(), needed) - seen:
            if user.target in COMPARISONS and not ancestors([user], stop={node}).isdisjoint(node.all_input_nodes):
                return True
            if is_pointwise(user.target) or user.target in VIEWS:
                seen.add(user)
                waiting.append(user)
    return False


DIGEST = 8
"""How many times smaller a sum must be than what it is computed from, for it to be kept in its stead."""


def _in_pieces(
    node: Node, kept: set[Node], needed: set[Node], forward: set[Node], labels: dict[Node, Label]
) -> set[Node]:
    """`kept` with the pieces of `node` instead of it, if pieces are all that is needed of it."""
    users = _users(node, needed)
    pieces = {piece for user in users for piece in (_users(user, needed) if _several(user) else {user})}
    views = all(user.target in VIEWS - {aten.cat.default, aten.stack.default} for user in users)
    if (
        pieces
        and views
        and all(_has_rows(piece, labels) and piece in forward for piece in pieces)
        and _bytes(labels, *pieces) <= _bytes(labels, node)
    ):
        return kept - {node} | pieces
    return kept


def _several(node: Node) -> bool:
    return any(user.target is operator.getitem for user in node.users)


def _users(node: Node, needed: set[Node]) -> set[Node]:
    return {user for user in node.users if user in needed}


def _has_rows(node: Node, labels: dict[Node, Label]) -> bool:
    label = labels.get(node)
    return isinstance(label, Axis) and label.outer == 1


def _bytes(labels: dict[Node, Label], *nodes: Node) -> int:
    return sum(row_bytes(node, labels) for node in nodes)


def row_bytes(node: Node, labels: dict[Node, Label]) -> int:
    """The bytes that one row of a node takes."""
    label, tensor = labels[node], value(node)
    times = label.outer * label.inner if isinstance(label, Axis) else 1
    return times * math.prod(size for size in tensor.shape if isinstance(size, int)) * tensor.dtype.itemsize
