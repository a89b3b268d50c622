"""Queries that row rules make of a node: the axis of its rows, its shape, whether it is zero."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from unspool.engine.rows.labels import Axis, Label, MixedError
from unspool.engine.trace.graph import Node, argument, aten, is_several, value


def has_rows(tensor: Any) -> bool:
    """Whether a size of a tensor, or of one of several, has the rows in it."""
    if is_several(tensor):
        return any(has_rows(each) for each in tensor)
    return isinstance(tensor, Tensor) and any(isinstance(size, torch.SymInt) for size in tensor.shape)


def axis_in(tensor: Any) -> Axis | None:
    """The axis of a tensor whose size has the rows in it."""
    found = [k for k, size in enumerate(tensor.shape) if isinstance(size, torch.SymInt)]
    if len(found) > 1:
        raise MixedError("has the rows in two of its axes")
    return Axis(found[0]) if found else None


def result_axis(node: Node) -> int:
    """The axis of the rows in what a node computes."""
    result = value(node)
    results = result if is_several(result) else [result]
    axes = {axis.index for each in results if (axis := axis_in(each))}
    if len(axes) != 1:
        raise MixedError("loses the axis of the rows")
    return axes.pop()


def dims_of(dims: Any, rank: int) -> set[int]:
    """Dimensions as numbers from the first on; all of them for None."""
    if dims is None or dims == []:
        return set(range(rank))
    return {dim % max(rank, 1) for dim in ([dims] if isinstance(dims, int) else dims)}


def row_inputs(node: Node, labels: dict[Node, Label]) -> list[tuple[Node, Axis]]:
    """What a node is given that has rows, with their axes."""
    found: list[tuple[Node, Axis]] = []
    for each in node.all_input_nodes:
        label = labels.get(each)
        if isinstance(label, Axis):
            found.append((each, label))
    return found


def axis_of(node: Node, labels: dict[Node, Label]) -> Axis | None:
    """The axis of a node's rows, if it has any."""
    label = labels.get(node)
    return label if isinstance(label, Axis) else None


def same_layout(one: Axis, other: Axis) -> bool:
    """Whether rows are merged with as many others in both."""
    return (one.outer, one.inner) == (other.outer, other.inner)


def is_zero(node: Any) -> bool:
    """Whether a node makes nothing but zeros."""
    if not isinstance(node, fx.Node):
        return False
    makes: dict[Any, int] = {aten.full.default: 1, aten.scalar_tensor.default: 0}
    return node.target in makes and bool(argument(node, makes[node.target]) == 0)
