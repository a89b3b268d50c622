"""Which values of the forward pass to keep so that backward repeats no matrix product."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection
from typing import Any

import torch

from unspool.engine.graph import Node, ancestors, aten, is_pointwise, value
from unspool.engine.program import PRODUCTS, VIEWS
from unspool.engine.rows import Axis, Label
from unspool.engine.trace import Trace


def values_to_keep(trace: Trace, labels: dict[Node, Label], known: Collection[Node]) -> list[Node]:
    """The results of the step's products that its adjoint needs, or fewer bytes that save the same work.

    A product is traded for what is computed from it by pointwise work alone, if that is no larger and the adjoint
    needs nothing else of it: one sum instead of two products, the gates instead of what they are computed from.
    """
    wanted = [*trace.d_weights, *trace.d_inputs, *trace.d_state]
    forward = ancestors([*trace.outputs, *trace.new_state], stop=known)
    needed = ancestors(wanted, stop=known)
    here = [node for node in trace.graph.nodes if node in forward and node in needed and node not in known]
    kept = {node for node in here if node.target in {*PRODUCTS, aten.convolution.default} and _has_rows(node, labels)}
    for node in here:
        if node in kept:
            kept = _cut(node, kept, needed, forward, labels)
        elif is_pointwise(node) and _has_rows(node, labels):
            traded = {each for each in node.all_input_nodes if each in kept}
            if traded and all(_users(each, needed) == {node} for each in traded) and _bytes(node) <= _bytes(*traded):
                kept = kept - traded | {node}
                kept = _cut(node, kept, needed, forward, labels)
    still_needed = ancestors(wanted, stop={*known, *kept})
    return [node for node in trace.graph.nodes if node in kept and node in still_needed]


def _cut(node: Node, kept: set[Node], needed: set[Node], forward: set[Node], labels: dict[Node, Label]) -> set[Node]:
    """`kept` with the pieces of `node` instead of it, if pieces are all that is needed of it."""
    users = _users(node, needed)
    pieces = {piece for user in users for piece in (_users(user, needed) if _several(user) else {user})}
    views = all(user.target in VIEWS - {aten.cat.default, aten.stack.default} for user in users)
    if (
        pieces
        and views
        and all(_has_rows(piece, labels) and piece in forward for piece in pieces)
        and _bytes(*pieces) <= _bytes(node)
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


def _bytes(*nodes: Node) -> int:
    """The bytes a row of these nodes takes."""
    return sum(row_bytes(value(node)) for node in nodes)


def row_bytes(tensor: torch.Tensor) -> int:
    """The bytes of one row of a tensor whose rows are not counted."""
    sizes: list[Any] = list(tensor.shape)
    return math.prod(size for size in sizes if isinstance(size, int)) * tensor.dtype.itemsize
