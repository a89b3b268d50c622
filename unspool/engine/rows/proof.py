"""The proof that a step treats the rows of a batch independently, by following the batch axis through every operation.

Only with the proof may time be folded into the batch, rows be left out, and their order be changed. Every operation
has to be known: for one that is not, there is no proof.

docs/internals.md has the induction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import fx

from unspool.engine.ops import is_pointwise, op_of
from unspool.engine.reasons import CannotPlanError, Code
from unspool.engine.rows.labels import SHARED, SUMMED, Axis, Label, MixedError
from unspool.engine.rows.linearity import follow_sums
from unspool.engine.rows.nodes import axis_in, has_rows, is_zero
from unspool.engine.rows.rules import aligned, along
from unspool.engine.trace.graph import Node, argument, aten, is_size, line_of_node, value


def follow_rows(graph: fx.Graph, rows: Node) -> dict[Node, Label]:
    """Where the rows are in every node of `graph`.

    Raises:
        CannotPlanError: if rows meet each other in a node, or if nothing is known about it.
    """
    labels: dict[Node, Label] = {}
    for node in graph.nodes:
        if node.op == "output" or is_size(node):
            continue
        if node.op != "call_function":
            labels[node] = axis_in(value(node)) or SHARED
            continue
        try:
            _check_sizes(node)
            labels[node] = _label(node, labels, rows)
        except MixedError as error:
            message, operation = f"{_name(node)} {error}", str(node.target)
            raise CannotPlanError(error.code, message, operation=operation, line=line_of_node(node)) from None
    return labels


def check_result_rows(labels: dict[Node, Label], per_row: Iterable[Node | None], sums: Iterable[Node | None]) -> None:
    """Raises unless results have their rows in front, and gradients of weights are sums over rows."""
    for node in per_row:
        if node is not None and labels[node] != Axis(0):
            raise CannotPlanError(
                Code.MIXED_ROWS, f"a result of the step does not have its rows in front: {labels[node]}"
            )
    for node in sums:
        if node is not None and labels[node] != SUMMED and not is_zero(node):
            raise CannotPlanError(Code.MIXED_ROWS, "a weight has a gradient that is no sum over rows")


def _check_sizes(node: Node) -> None:
    """The number of rows may be a size and nothing else: as a value, it would be that of a chunk."""
    sizes = [each for each in node.all_input_nodes if is_size(each)]
    if not sizes:
        return
    op = op_of(node.target)
    told = () if op is None or op.shape_at is None else argument(node, op.shape_at)
    if any(each not in told for each in sizes):
        raise MixedError("computes with the number of rows", Code.ROW_COUNT)
    if node.target is aten.full.default and isinstance(argument(node, 1), fx.Node):
        raise MixedError("computes with the number of rows", Code.ROW_COUNT)


def _label(node: Node, labels: dict[Node, Label], rows: Node) -> Label:
    given = {each: labels[each] for each in node.all_input_nodes if each in labels}
    if any(label == SUMMED for label in given.values()):
        return follow_sums(node, labels)
    if all(label == SHARED for label in given.values()):
        if not has_rows(value(node)):
            return SHARED
        op = op_of(node.target)
        if (op is not None and op.shape_at == 0) or node.target is aten.expand.default:
            found = axis_in(value(node))
            assert found is not None
            return Axis(found.index, 1, _entries(value(node).shape[found.index], value(rows)))
        raise MixedError("makes rows from what has none")
    return _apply_rule(node, labels)


def _entries(size: Any, rows: Any) -> int:
    """How many entries each row gets of a size; they lie next to each other, as in `[rows * entries]`."""
    expression, row = size.node.expr, rows.node.expr
    times = expression.coeff(row, 1)
    if not times.is_Integer or times * row != expression:
        raise MixedError("makes a number of entries that is no multiple of the rows")
    return int(times)


def _apply_rule(node: Node, labels: dict[Node, Label]) -> Label:
    """Where the rows are in what a node computes from rows."""
    op = op_of(node.target)
    if op is not None and op.axes is not None:
        return along(node, labels, op.axes(node))
    if op is not None and op.rule is not None:
        return op.rule(node, labels)
    if op is None and is_pointwise(node.target):
        return aligned(node, labels)
    raise MixedError("is an operation of which it is not known whether it keeps rows apart", Code.UNKNOWN_OPERATION)


def _name(node: Node) -> str:
    return str(node.target).removeprefix("aten.").split(".")[0]
