"""Cleanup: identities, common subexpressions, dead code."""

from __future__ import annotations

import operator
from typing import Any

from torch import SymInt, Tensor, fx

from unspool.engine.trace.graph import (
    Node,
    ancestors,
    argument,
    aten,
    calls,
    is_call,
    is_random,
    operand,
    replace,
    value,
)


def drop_identities(graph: fx.Graph) -> None:
    """Removes what gives back what it was given: `x * 1`, `x + 0`, `where(c, x, x)`, copies, casts and views."""
    for node in calls(graph):
        same = _unchanged(node)
        if same is not None:
            replace(node, same)


def _unchanged(node: Node) -> Node | None:
    copies = (
        aten.detach.default,
        aten.alias.default,
        aten.clone.default,
        aten.lift_fresh_copy.default,
        aten.lift_fresh.default,
    )
    if is_call(node, *copies):
        return operand(node, 0)
    if is_call(node, aten.where.self) and node.args[1] is node.args[2]:  # of which gradients alone are chosen
        same = operand(node, 1)
        return same if value(same).shape == value(node).shape else None
    if is_call(node, aten.t.default) and is_call(operand(node, 0), aten.t.default):
        return operand(operand(node, 0), 0)
    neutral: dict[Any, int] = {
        aten.mul.Tensor: 1,
        aten.mul.Scalar: 1,
        aten.div.Tensor: 1,
        aten.div.Scalar: 1,
        aten.add.Tensor: 0,
        aten.sub.Tensor: 0,
    }
    shapes_only = (
        aten.view.default,
        aten._unsafe_view.default,
        aten.reshape.default,
        aten.expand.default,
        aten.slice.Tensor,
        aten.slice_backward.default,
        aten.slice_scatter.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten._to_copy.default,
    )
    given = argument(node, 1 if is_call(node, aten.slice_scatter.default) else 0)
    if not isinstance(given, fx.Node) or not isinstance(value(given), Tensor) or not isinstance(value(node), Tensor):
        return None
    if is_call(node, aten.squeeze.dim, aten.squeeze.dims):
        dims = argument(node, 1)
        sizes = [value(given).shape[dim] for dim in ([dims] if isinstance(dims, int) else dims)]
        if any(isinstance(size, SymInt) for size in sizes):
            return None  # of one row it would do something
    does_nothing = is_call(node, *shapes_only) or (
        node.target in neutral
        and not node.kwargs
        and isinstance(argument(node, 1), int | float)
        and argument(node, 1) == neutral[node.target]
    )
    return given if does_nothing and _alike(value(given), value(node)) else None


def _alike(one: Tensor, other: Tensor) -> bool:
    return (str(one.shape), one.dtype, one.device) == (str(other.shape), other.dtype, other.device)


def share_repeated(graph: fx.Graph) -> None:
    """Computes only once what is computed several times from the same."""
    seen: dict[Any, Node] = {}
    for node in calls(graph):
        if is_random(node):
            continue
        key = repr((str(node.target), node.args, sorted(node.kwargs.items())))
        if key in seen:
            replace(node, seen[key])
        else:
            seen[key] = node


def drop_dead(graph: fx.Graph) -> None:
    """Removes what no result needs, but for draws: without one, the next would get its numbers."""
    draws = [node for node in graph.nodes if is_random(node)]
    parts = [user for draw in draws for user in draw.users if is_call(user, operator.getitem)]
    needed = ancestors([graph.output_node(), *draws, *parts])
    for node in reversed(list(graph.nodes)):
        if node not in needed and node.op != "placeholder":
            graph.erase_node(node)
