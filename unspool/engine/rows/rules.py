"""Row rules of elementwise operations, operations along axes, and views: where each leaves the rows it is given.

A rule takes a node and the labels of what it is given, and raises a `MixedError` where rows would meet. The rows of
`engine.ops` say which operation has which rule.
"""

from __future__ import annotations

import math
from typing import Any

from unspool.engine.rows import op_axes
from unspool.engine.rows.labels import SUMMED, Axis, Label, MixedError
from unspool.engine.rows.nodes import axis_of, dims_of, result_axis, row_inputs
from unspool.engine.trace.graph import Node, argument, aten, number, operand, operands, value


def aligned(node: Node, labels: dict[Node, Label]) -> Label:
    """Elements meet only elements in the same place, counted from the last axis."""
    result = value(node)[0] if isinstance(value(node), tuple | list) else value(node)
    places = {(value(each).dim() - axis.index, axis.outer, axis.inner) for each, axis in row_inputs(node, labels)}
    if len(places) != 1:
        raise MixedError("lets different rows meet")
    ((from_the_end, outer, inner),) = places
    return Axis(result.dim() - from_the_end, outer, inner)


def along(node: Node, labels: dict[Node, Label], dims: Any) -> Label:
    """Elements meet along some axes, which must not be the rows'; a sum over rows is allowed."""
    first, axis = row_inputs(node, labels)[0]
    if any((other.outer, other.inner) != (axis.outer, axis.inner) for _, other in row_inputs(node, labels)):
        raise MixedError("lets different rows meet")
    if any(other.index != axis.index for _, other in row_inputs(node, labels)):
        raise MixedError("lets different rows meet")
    if axis.index in dims_of(dims, value(first).dim()):
        if node.target in (aten.sum.dim_IntList, aten.sum.default):
            return SUMMED
        raise MixedError("works across rows")
    return Axis(result_axis(node), axis.outer, axis.inner)


def put_back(node: Node, labels: dict[Node, Label]) -> Label:
    """`select_scatter` and its like: a piece takes a place along other axes than the rows', in front of them or behind.

    The piece has these axes no longer, so that its rows may be nearer to the front; or it is the same for all rows.
    """
    base, piece = operand(node, 0), operand(node, 1)
    axis, placed = axis_of(base, labels), axis_of(piece, labels)
    rank = value(base).dim()
    gone = dims_of(op_axes.replaced(node), rank)
    if axis is None:
        raise MixedError("puts rows into something shared")
    if axis.index in gone:
        raise MixedError("works across rows")
    nearer = axis.index - sum(dim < axis.index for dim in gone) if value(piece).dim() < rank else axis.index
    if placed is not None and (placed.index, placed.outer, placed.inner) != (nearer, axis.outer, axis.inner):
        raise MixedError("lets different rows meet")
    return axis


def one_of_several(node: Node, labels: dict[Node, Label]) -> Label:
    """One result of an operation with several."""
    source = operand(node, 0)
    label = labels[source]
    if source.target is aten.convolution_backward.default and number(node, 1) != 0:
        return SUMMED
    assert isinstance(label, Axis)
    return Axis(result_axis(node), label.outer, label.inner)


def reshaped(node: Node, labels: dict[Node, Label]) -> Label:
    """Finds the rows again after a reshape, by the number of elements in front of them."""
    source = operand(node, 0)
    axis = axis_of(source, labels)
    assert axis is not None
    index = result_axis(node)
    in_front = math.prod(value(source).shape[: axis.index]) * axis.outer
    behind = math.prod(value(source).shape[axis.index + 1 :]) * axis.inner
    outer, rest = divmod(in_front, math.prod(value(node).shape[:index]))
    inner, rest_behind = divmod(behind, math.prod(value(node).shape[index + 1 :]))
    if rest or rest_behind or outer < 1 or inner < 1:
        raise MixedError("takes rows apart and puts them together differently")
    return Axis(index, int(outer), int(inner))


def moved(node: Node, labels: dict[Node, Label]) -> Label:
    """Axes change places, appear or vanish, and elements stay together."""
    axis = axis_of(operand(node, 0), labels)
    assert axis is not None
    return Axis(result_axis(node), axis.outer, axis.inner)


def squeezed(node: Node, labels: dict[Node, Label]) -> Label:
    """An axis of size 1 vanishes; that of the rows would, of one row alone."""
    source = operand(node, 0)
    axis = axis_of(source, labels)
    assert axis is not None
    if axis.index in dims_of(argument(node, 1), value(source).dim()):
        raise MixedError("depends on the number of rows")
    return moved(node, labels)


def joined(node: Node, labels: dict[Node, Label]) -> Label:
    """`cat`: pieces without rows cannot stand beside pieces with rows, but along the axis that joins them."""
    dim = argument(node, 1, 0) % value(node).dim()
    axes = {axis_of(piece, labels) for piece in operands(node, 0)}
    if len(axes) != 1:
        raise MixedError("joins different rows")
    (axis,) = axes
    assert axis is not None
    if axis.index == dim:
        raise MixedError("appends rows to rows")
    return axis


def stacked(node: Node, labels: dict[Node, Label]) -> Label:
    """`stack`: all pieces have their rows along the same axis."""
    axes = {axis_of(piece, labels) for piece in operands(node, 0)}
    if len(axes) != 1:
        raise MixedError("joins different rows")
    (axis,) = axes
    assert axis is not None
    return Axis(result_axis(node), axis.outer, axis.inner)
