"""Linearity: the operations that a sum over rows, such as a weight's gradient, may pass through.

Such sums are the gradients of weights. A loop sums them over chunks of time as well, and only what is linear may be
applied to each chunk's sum or to the sum of all, with the same result.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unspool.engine.ops import Linear, op_of
from unspool.engine.rows.labels import SUMMED, Axis, Label, MixedError
from unspool.engine.rows.nodes import is_zero
from unspool.engine.trace.graph import Node, ancestors, argument, aten, is_derived, is_random, operand, value


def follow_sums(node: Node, labels: dict[Node, Label]) -> Label:
    """The label of what a node computes from sums over rows.

    Raises:
        MixedError: if the node does not treat them linearly, or uses them in a row.
    """
    tensors = [each for each in node.all_input_nodes if each in labels]
    summed = [each for each in tensors if labels[each] == SUMMED]
    others = [each for each in tensors if labels[each] != SUMMED]
    result = value(node)
    has_rows = isinstance(result, Tensor) and any(isinstance(size, torch.SymInt) for size in result.shape)
    if has_rows or any(isinstance(labels[each], Axis) for each in others):
        raise MixedError("uses a sum over rows in a row")
    op = op_of(node.target)
    if op is not None and _is_linear(node, op.linear, tensors, summed):
        return SUMMED
    # The derivative of what depends on weights alone, of a matrix exponential, say. As a whole it is linear in the sums
    # that it is given, whether its single steps are or not; and it is computed once, from the sums over all steps.
    if is_derived(node) and not any(is_random(each) for each in ancestors(others)):
        return SUMMED
    raise MixedError("does not treat a sum over rows linearly")


def _is_linear(node: Node, linear: Linear | None, tensors: list[Node], summed: list[Node]) -> bool:
    """Whether an operation is linear in the sums among its tensors."""
    match linear:
        case Linear.ALL:
            adds = node.target in (aten.add.Tensor, aten.sub.Tensor)
            numbers = adds and len(tensors) != len({argument(node, 0), argument(node, 1)})
            return not numbers and all(each in summed or is_zero(each) for each in tensors)
        case Linear.FIRST:
            return summed == [argument(node, 0)]
        case Linear.EACH:
            return len(summed) == 1
        case Linear.PUT:
            return summed == [operand(node, 2)] and is_zero(operand(node, 0))
        case Linear.CHOSEN:
            return all(each in summed or is_zero(each) for each in node.args[1:])
        case None:
            return False
