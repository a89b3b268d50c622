"""Rewrites that separate what does not depend on the carry, so that the split can move it out of the loop."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Any

import torch
from torch import fx

from unspool.engine.trace.graph import (
    Node,
    argument,
    aten,
    calls,
    descendants,
    insert,
    invariants,
    is_call,
    number,
    operand,
    operands,
    replace,
    terms_of,
    value,
)


def hoist_invariants(graph: fx.Graph, weights: Collection[Node]) -> None:
    """Moves what depends on weights alone in front of everything else."""
    nodes = invariants(graph, weights)
    first = next((node for node in graph.nodes if node.op == "call_function" and node not in nodes), None)
    for node in [node for node in graph.nodes if node in nodes and node.op in ("call_function", "get_attr")]:
        if first is not None:
            first.prepend(node)


def take_dropout_apart(graph: fx.Graph) -> None:
    """Draws a dropout's mask without looking at what it will be applied to."""
    for node in calls(graph, aten.native_dropout.default):
        given, rate, training = operand(node, 0), argument(node, 1), argument(node, 2)
        if not training or rate in (0, 1):
            continue
        ones = insert(node, aten.full_like.default, given, 1)
        drawn = insert(node, aten.native_dropout.default, ones, rate, True)
        mask = insert(node, operator.getitem, drawn, 1)
        kept = insert(node, aten.mul.Tensor, given, mask)
        scaled = insert(node, aten.mul.Tensor, kept, 1 / (1 - rate))
        for user in list(node.users):
            replace(user, (scaled, mask)[number(user, 1)])
        graph.erase_node(node)


def split_concat_products(graph: fx.Graph, weights: Collection[Node], carried: Iterable[Node]) -> None:
    """`concat([x, h]) @ kernel` becomes `x @ kernel[:n] + h @ kernel[n:]` where `h` is carried and `x` is not."""
    shared, dependent = invariants(graph, weights), descendants(graph, carried)
    for product in calls(graph, aten.mm.default):
        joined, matrix = operand(product, 0), operand(product, 1)
        if not is_call(joined, aten.cat.default) or matrix not in shared or not _is_last_axis(joined):
            continue
        pieces = operands(joined, 0)
        if any(value(piece).dim() != 2 for piece in pieces):
            continue
        groups: list[list[Node]] = []
        for piece in pieces:
            if groups and (groups[-1][-1] in dependent) == (piece in dependent):
                groups[-1].append(piece)
            else:
                groups.append([piece])
        if len(groups) == 1:
            continue
        start, sums = 0, list[Node]()
        for group in groups:
            rows = insert(product, aten.cat.default, group, 1) if len(group) > 1 else group[0]
            end = start + value(rows).shape[1]
            part = insert(product, aten.slice.Tensor, matrix, 0, start, end)
            sums.append(insert(product, aten.mm.default, rows, part))
            start = end
        total = sums[0]
        for each in sums[1:]:
            total = insert(product, aten.add.Tensor, total, each)
        replace(product, total)
    hoist_invariants(graph, weights)


def narrow_products(graph: fx.Graph, weights: Collection[Node]) -> None:
    """`(d @ m)[:, a:b]` becomes `d @ m[:, a:b]`, so that parts of a product can run at different times.

    This is how the gradient of `concat([x, h]) @ kernel` lets go of the gradient of `x`.
    """
    shared = invariants(graph, weights)
    for product in calls(graph, aten.mm.default):
        users, matrix = list(product.users), operand(product, 1)
        sliced = all(is_call(user, aten.slice.Tensor) and number(user, 1) in (1, -1) for user in users)
        if matrix not in shared or not sliced or any(len(user.args) > 4 for user in users):
            continue
        ranges = sorted((argument(user, 2), argument(user, 3)) for user in users)
        if any(end > start for (_, end), (start, _) in pairwise(ranges)):
            continue  # they overlap: that would be more work
        for user in users:
            part = insert(user, aten.slice.Tensor, matrix, 1, *user.args[2:4])
            replace(user, insert(user, aten.mm.default, operand(product, 0), part))
        graph.erase_node(product)
    hoist_invariants(graph, weights)


def sum_rows_last(graph: fx.Graph) -> None:
    """A sum over rows and other axes becomes one over the others, which every row has to itself, and one over rows."""
    for node in calls(graph, aten.sum.dim_IntList):
        given, keep = operand(node, 0), bool(argument(node, 2))
        shape = value(given).shape
        over: list[int] = [dim % len(shape) for dim in argument(node, 1)]
        others = [dim for dim in over if isinstance(shape[dim], int)]
        if len(others) + 1 != len(over) or not others or node.kwargs:
            continue
        (rows,) = (dim for dim in over if dim not in others)
        within = insert(node, aten.sum.dim_IntList, given, others, keep)
        left = rows if keep else rows - sum(dim < rows for dim in others)
        replace(node, insert(node, aten.sum.dim_IntList, within, [left], keep))


def stay_in_half(graph: fx.Graph, carried: Iterable[Node]) -> None:
    """`half(float(d) * a)` becomes `d * half(a)` where only `d` is carried.

    torch's derivatives compute in float32 and round once; the factor that leaves the loop still does.
    """
    dependent = descendants(graph, carried)
    for rounded in calls(graph, aten._to_copy.default):
        product = operand(rounded, 0)
        if not is_call(product, aten.mul.Tensor) or len(product.users) != 1 or product.kwargs:
            continue
        found = _carried_factor(product, dependent)
        if found is None or not isinstance(found[1], fx.Node) or not is_call(found[0], aten._to_copy.default):
            continue
        d, half = operand(found[0], 0), value(rounded).dtype
        if d in dependent and value(d).dtype == half and half in (torch.bfloat16, torch.float16):
            factor = insert(rounded, aten._to_copy.default, found[1], dtype=half)
            replace(rounded, insert(rounded, aten.mul.Tensor, d, factor))


def reassociate(graph: fx.Graph, carried: Iterable[Node]) -> None:
    """`(d * a) * b` becomes `d * (a * b)` where only `d` is carried: one product of two is left in the loop."""
    dependent = descendants(graph, carried)
    for node in calls(graph, aten.mul.Tensor, aten.div.Tensor):
        outer = _carried_factor(node, dependent)
        if outer is None:
            continue
        product, b = outer
        inner = _carried_factor(product, dependent)
        if inner is None or not is_call(product, aten.mul.Tensor):
            continue
        d, a = inner
        if not isinstance(a, fx.Node) and not isinstance(b, fx.Node):
            continue  # numbers alone do not cost a pass
        if _result_dtype(a, b, node) != value(node).dtype:
            continue
        operation, first, second = aten.mul.Tensor, *((a, b) if isinstance(a, fx.Node) else (b, a))
        if node.target is aten.div.Tensor:
            operation, first, second = aten.div.Tensor, a, b
            if not isinstance(a, fx.Node):
                continue
        factor = insert(node, operation, first, second)
        node.args = (d, factor)
        node.target = aten.mul.Tensor


def sum_apart(graph: fx.Graph, carried: Iterable[Node]) -> None:
    """`(x + h) + b` becomes `(x + b) + h` where only `h` is carried: one sum of two is left in the loop."""
    dependent = descendants(graph, carried)
    for total in reversed(calls(graph, aten.add.Tensor)):
        if total.kwargs or not total.users:
            continue
        terms = terms_of(total)
        outside = [each for each in terms if each not in dependent]
        inside = [each for each in terms if each in dependent]
        if len(outside) < 2 or not inside or any(value(each).dtype != value(total).dtype for each in terms):
            continue  # True + True is not 2, and a sum in float32 is rounded
        result = outside[0]
        for each in [*outside[1:], *inside]:
            result = insert(total, aten.add.Tensor, result, each)
        replace(total, result)


def _is_last_axis(joined: Node) -> bool:
    return argument(joined, 1, 0) in (1, -1) and value(joined).dim() == 2


def _carried_factor(node: Node, dependent: set[Node]) -> tuple[Node, Any] | None:
    """The factor of a product that is carried and the one that is not, if there is one of each."""
    if not is_call(node, aten.mul.Tensor, aten.div.Tensor) or node.kwargs:
        return None
    a, b = argument(node, 0), argument(node, 1)
    if a in dependent and b not in dependent:
        return a, b
    if b in dependent and a not in dependent and node.target is aten.mul.Tensor:
        return b, a
    return None


def _result_dtype(a: Any, b: Any, node: Node) -> torch.dtype:
    tensors = [value(each) for each in (a, b) if isinstance(each, fx.Node)]
    return torch.result_type(tensors[0], tensors[1] if len(tensors) > 1 else (b if isinstance(a, fx.Node) else a))
