"""Rewrites of convolutions: what is carried apart from what is not, as of matrix products."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any

from torch import fx

from unspool.engine.trace.graph import (
    Node,
    ancestors,
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
    value,
)
from unspool.engine.trace.rewrites.hoist import hoist_invariants


def take_convolutions_apart(graph: fx.Graph) -> None:
    """Computes the gradients of a convolution's input, filters and bias by themselves: only the first is carried.

    That of the input is a convolution itself, transposed if the other is not, and that of the bias a sum.
    """
    for node in calls(graph, aten.convolution_backward.default):
        for user in list(node.users):
            which = number(user, 1)
            by_itself = {0: _of_input, 2: _of_bias}.get(which, _nothing)(node, user)
            if by_itself is None:
                mask = [k == which for k in range(3)]
                alone = insert(node, aten.convolution_backward.default, *node.args[:-1], mask)
                by_itself = insert(node, operator.getitem, alone, which)
            replace(user, by_itself)
        graph.erase_node(node)


def _of_input(node: Node, result: Node) -> Node | None:
    """The gradient of the input as a convolution; None if it would have another shape."""
    gradient, filters = operand(node, 0), operand(node, 2)
    covered: list[int] = list(value(filters).shape[2:])
    if value(gradient).dim() != value(filters).dim() or not value(gradient).dtype.is_floating_point:
        return None
    steps, padding, dilation = (_for_each(argument(node, k), len(covered)) for k in (4, 5, 6))
    transposed, groups = argument(node, 7), argument(node, 9)
    more = [0] * len(steps)
    if not transposed:
        sizes, found = value(result).shape[2:], value(gradient).shape[2:]
        for k, (size, step) in enumerate(zip(found, steps, strict=True)):
            least = (size - 1) * step - 2 * padding[k] + dilation[k] * (covered[k] - 1) + 1
            more[k] = sizes[k] - least
    if any(few < 0 or few >= step for few, step in zip(more, steps, strict=True)):
        return None
    options = (steps, padding, dilation, not transposed, more, groups)
    new = insert(node, aten.convolution.default, gradient, filters, None, *options)
    if str(value(new).shape) == str(value(result).shape):
        return new
    node.graph.erase_node(new)
    return None


def _of_bias(node: Node, result: Node) -> Node | None:
    """The gradient of the bias as a sum over rows and pixels."""
    gradient = operand(node, 0)
    if value(gradient).dim() != value(operand(node, 2)).dim():
        return None
    others = [dim for dim in range(value(gradient).dim()) if dim != 1]
    return insert(node, aten.sum.dim_IntList, gradient, others)


def _nothing(node: Node, result: Node) -> Node | None:
    return None


def split_concat_convolutions(graph: fx.Graph, weights: Collection[Node], carried: Iterable[Node]) -> None:
    """`conv(concat([x, h]), w)` becomes `conv(x, w[:, :n]) + conv(h, w[:, n:])` where `h` is carried and `x` is not."""
    shared, dependent = invariants(graph, weights), descendants(graph, carried)
    for node in calls(graph, aten.convolution.default):
        joined, filters, bias, *options = node.args
        if not is_call(joined, aten.cat.default) or filters not in shared or not _is_plain(node):
            continue
        pieces, rank = operands(joined, 0), value(joined).dim()
        if argument(joined, 1, 0) % rank != 1 or any(value(piece).dim() != rank for piece in pieces):
            continue
        groups: list[list[Node]] = []
        for piece in pieces:
            if groups and (groups[-1][-1] in dependent) == (piece in dependent):
                groups[-1].append(piece)
            else:
                groups.append([piece])
        if len(groups) == 1:
            continue
        start, total = 0, None
        for group in groups:
            channels = insert(node, aten.cat.default, group, 1) if len(group) > 1 else group[0]
            end = start + value(channels).shape[1]
            own = insert(node, aten.slice.Tensor, filters, _input_axis(node), start, end)
            part = insert(node, aten.convolution.default, channels, own, bias if start == 0 else None, *options)
            total = part if total is None else insert(node, aten.add.Tensor, total, part)
            start = end
        assert total is not None
        replace(node, total)
    hoist_invariants(graph, weights)


def narrow_convolutions(graph: fx.Graph, weights: Collection[Node], results: Iterable[Node | None]) -> None:
    """`conv(d, w)[:, a:b]` becomes a convolution by some of the filters, where others are not needed, or later.

    This is how the gradient of `conv(concat([x, h]))` lets go of the gradient of `x`. What the loop's `results` need
    together stays together.
    """
    shared, in_loop = invariants(graph, weights), ancestors(results)
    for node in calls(graph, aten.convolution.default):
        users, (gradient, filters, bias, *options) = list(node.users), node.args
        cut = all(is_call(user, aten.slice.Tensor) and number(user, 1) == 1 and len(user.args) == 4 for user in users)
        if not users or not cut or filters not in shared or bias is not None or not _is_plain(node):
            continue
        if len(users) > 1 and len({user in in_loop for user in users}) == 1:
            continue
        ranges = sorted((argument(user, 2), argument(user, 3)) for user in users)
        if any(end > start for (_, end), (start, _) in pairwise(ranges)):
            continue  # they overlap: that would be more work
        for user in users:
            own = insert(user, aten.slice.Tensor, filters, 1 - _input_axis(node), *user.args[2:4])
            replace(user, insert(user, aten.convolution.default, gradient, own, None, *options))
        graph.erase_node(node)
    hoist_invariants(graph, weights)


def _for_each(numbers: Sequence[int], axes: int) -> list[int]:
    """Numbers for each axis; a single one is for all."""
    return list(numbers) if len(numbers) == axes else list(numbers) * axes


def _is_plain(node: Node) -> bool:
    """Whether every output sees every channel, of images with rows."""
    return argument(node, 8) == 1 and value(operand(node, 0)).dim() == value(operand(node, 1)).dim()


def _input_axis(node: Node) -> int:
    """The axis of the filters along which the channels of the image lie."""
    transposed: Any = argument(node, 6)
    return 0 if transposed else 1
