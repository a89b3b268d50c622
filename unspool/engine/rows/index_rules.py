"""Row rules of operations that find elements by indices."""

from __future__ import annotations

from collections.abc import Sequence

from unspool.engine.rows.labels import SUMMED, Axis, Label, MixedError
from unspool.engine.rows.nodes import axis_of, is_zero, result_axis, same_layout
from unspool.engine.rows.rules import along
from unspool.engine.trace.graph import Node, argument, operand, value


def looked_up(node: Node, labels: dict[Node, Label]) -> Label:
    """`embedding(table, ids)`: the table is shared, the ids are rows."""
    table, ids = axis_of(operand(node, 0), labels), axis_of(operand(node, 1), labels)
    if table is not None or ids is None:
        raise MixedError("looks up rows in each other")
    return ids


def summed_look_up(node: Node, labels: dict[Node, Label]) -> Label:
    """The gradient of a table, a sum over what was looked up: every id has a line of its own in what is added."""
    added, ids = axis_of(operand(node, 0), labels), axis_of(operand(node, 1), labels)
    if ids is None or added != ids:
        raise MixedError("adds up different rows")
    if argument(node, 4):
        raise MixedError("divides by how often an id occurs in the batch")
    return SUMMED


def addressed(node: Node, labels: dict[Node, Label]) -> Label:
    """`gather` and `scatter`: every row has its own indices, and nothing reaches into another row."""
    tensors = [each for each in node.all_input_nodes if each in labels]
    if any(axis_of(each, labels) is None for each in tensors):
        raise MixedError("does not have indices for every row")
    return along(node, labels, argument(node, 1))


def index_added(node: Node, labels: dict[Node, Label]) -> Label:
    """`index_add` along another axis than the rows', by shared indices."""
    source, index, added = (axis_of(operand(node, k), labels) for k in (0, 2, 3))
    if index or source != added:
        raise MixedError("adds to indexed rows")
    return along(node, labels, argument(node, 1))


def indexed(node: Node, labels: dict[Node, Label]) -> Label:
    """`x[index]`: rows of indices into something shared, or shared indices into other axes than the rows'."""
    axis, indices = axis_of(operand(node, 0), labels), _indices(node)
    by_rows = [each for each in indices if each is not None and axis_of(each, labels)]
    if axis is None and by_rows:
        axes = {axis_of(each, labels) for each in by_rows}
        if len(axes) == 1 and all(each is None or each in by_rows for each in indices):
            (found,) = axes
            assert found is not None
            return Axis(result_axis(node), found.outer, found.inner)
    if axis and not by_rows and (axis.index >= len(indices) or indices[axis.index] is None):
        return Axis(result_axis(node), axis.outer, axis.inner)
    raise MixedError("indexes rows")


def index_put(node: Node, labels: dict[Node, Label]) -> Label:
    """`x[index] += v`: into something shared it is a sum over rows; else the axis of the rows must not be indexed."""
    source, indices, put = operand(node, 0), _indices(node), operand(node, 2)
    accumulates = bool(argument(node, 3))
    axis, placed = axis_of(source, labels), axis_of(put, labels)
    given = {k: each for k, each in enumerate(indices) if each is not None}
    by_rows = [each for each in given.values() if axis_of(each, labels)]
    indexed = list(given)
    # What is found stands where the indices stand, if they are side by side, else in front.
    side_by_side = indexed == list(range(indexed[0], indexed[-1] + 1))
    rank = value(source).dim()
    if axis is None and by_rows and accumulates and is_zero(source):
        behind = rank - 1 - indexed[-1] if side_by_side else rank - len(indexed)
        places = {(_from_the_end(each, labels), axis_of(each, labels)) for each in by_rows}
        ((from_the_end, axis),) = places if len(places) == 1 else {(0, None)}
        if axis and _fits(put, placed, from_the_end + behind, axis):
            return SUMMED
    elif axis and not by_rows and (axis.index >= len(indices) or indices[axis.index] is None):
        after = [k for k in indexed if k > axis.index]
        found = max(value(given[k]).dim() for k in after) if after and side_by_side else 0
        if _fits(put, placed, rank - axis.index - len(after) + found, axis):
            return axis
    raise MixedError("writes to indexed rows")


def _indices(node: Node) -> Sequence[Node | None]:
    """What `x[i, :, j]` and its like are given for each axis; None for all of it."""
    return argument(node, 1)


def _from_the_end(node: Node, labels: dict[Node, Label]) -> int:
    axis = axis_of(node, labels)
    return 0 if axis is None else value(node).dim() - axis.index


def _fits(put: Node, placed: Axis | None, from_the_end: int, axis: Axis) -> bool:
    """Whether a tensor is the same for all rows, or has those of `axis` that far from its last axis."""
    return placed is None or (value(put).dim() - placed.index == from_the_end and same_layout(placed, axis))
