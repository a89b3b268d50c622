"""Which operations a sum over rows may go through: those that are linear in it.

Such sums are the gradients of weights. A loop sums them over chunks of time as well, and only what is linear may be
applied to each chunk's sum or to the sum of all, with the same result.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx

from unspool.engine.ir.opset import PRODUCTS, VIEWS
from unspool.engine.rows.labels import SUMMED, Axis, Label, MixedError
from unspool.engine.trace.graph import Node, aten, value


def follow_sums(node: Node, labels: dict[Node, Label]) -> Label:
    """The label of what a node computes from sums over rows.

    Raises:
        MixedError: if the node does not treat them linearly, or uses them in a row.
    """
    tensors: list[Any] = [each for each in node.all_input_nodes if each in labels]
    summed = [each for each in tensors if labels[each] == SUMMED]
    others = [each for each in tensors if labels[each] != SUMMED]
    result = value(node)
    has_rows = isinstance(result, Tensor) and any(isinstance(size, torch.SymInt) for size in result.shape)
    if has_rows or any(isinstance(labels[each], Axis) for each in others):
        raise MixedError("uses a sum over rows in a row")
    numbers = node.target in (aten.add.Tensor, aten.sub.Tensor) and len(tensors) != len({*node.args[:2]})
    by_itself = node.target in LINEAR and not numbers and (not others or all(map(is_zero, others)))
    by_its_first = node.target in LINEAR_IN_THE_FIRST and summed == [node.args[0]]
    scaled = node.target in BILINEAR and len(summed) == 1
    chosen = node.target is aten.where.self and all(each in summed or is_zero(each) for each in node.args[1:])
    placed = node.target in PUTS and summed == [node.args[2]] and is_zero(node.args[0])
    if by_itself or by_its_first or scaled or chosen or placed:
        return SUMMED
    raise MixedError("does not treat a sum over rows linearly")


def is_zero(node: Any) -> bool:
    """Whether a node makes nothing but zeros."""
    if not isinstance(node, fx.Node):
        return False
    makes: dict[Any, int] = {aten.full.default: 1, aten.scalar_tensor.default: 0}
    return node.target in makes and bool(node.args[makes[node.target]] == 0)


LINEAR: set[Any] = VIEWS | {
    aten.add.Tensor,
    aten.sub.Tensor,
    aten.neg.default,
    aten.sum.dim_IntList,
    aten.sum.default,
    aten.mean.dim,
    aten.slice_scatter.default,
    aten.select_scatter.default,
    aten._to_copy.default,
    aten.clone.default,
    aten.view.default,
    aten._unsafe_view.default,
    aten.mul.Scalar,
    aten.tril.default,
    aten.triu.default,
    aten.flip.default,
    aten.roll.default,
    aten.cumsum.default,
    operator.getitem,
}
"""Operations that are linear in all they are given."""

LINEAR_IN_THE_FIRST: set[Any] = {
    aten.div.Tensor,
    aten.div.Scalar,
    aten._weight_norm_interface_backward.default,
    aten._softmax_backward_data.default,
    aten._log_softmax_backward_data.default,
    aten.index.Tensor,
    aten.index_select.default,
    aten.gather.default,
}
"""Operations that are linear in the first they are given, whatever the others are."""

PUTS: set[Any] = {aten.index_put.default, aten._unsafe_index_put.default}
"""Operations that are linear in what they put into zeros."""

BILINEAR: set[Any] = PRODUCTS | {aten.mul.Tensor}
"""Operations that are linear in each of the two they are given."""
