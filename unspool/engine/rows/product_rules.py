"""Row rules of matrix products, convolutions and pools."""

from __future__ import annotations

from unspool.engine.rows.labels import SUMMED, Label, MixedError
from unspool.engine.rows.nodes import axis_of, same_layout
from unspool.engine.trace.graph import Node, argument, operand, value


def matrix_product(node: Node, labels: dict[Node, Label]) -> Label:
    """`mm`: rows of the left factor, columns of the right one, or a sum over rows."""
    left, right = axis_of(operand(node, 0), labels), axis_of(operand(node, 1), labels)
    if left and left.index == 0 and right is None:
        return left
    if right and right.index == 1 and left is None:
        return right
    if left and right and left.index == 1 and right.index == 0 and same_layout(left, right):
        return SUMMED
    raise MixedError("multiplies different rows")


def batched_product(node: Node, labels: dict[Node, Label]) -> Label:
    """`bmm`: each row has a matrix, or rows are lines or columns of shared ones, or a sum over rows."""
    left, right = axis_of(operand(node, 0), labels), axis_of(operand(node, 1), labels)
    if left and right:
        if left == right and left.index == 0:
            return left
        if left.index == 2 and right.index == 1 and same_layout(left, right):
            return SUMMED
    elif left and left.index in (0, 1):
        return left
    elif right and right.index in (0, 2):
        return right
    raise MixedError("multiplies different rows")


def matrix_times_vector(node: Node, labels: dict[Node, Label]) -> Label:
    """`mv`: lines of a matrix are rows, or a sum over rows."""
    matrix, vector = axis_of(operand(node, 0), labels), axis_of(operand(node, 1), labels)
    if matrix and matrix.index == 0 and vector is None:
        return matrix
    if matrix and matrix.index == 1 and vector and same_layout(matrix, vector):
        return SUMMED
    raise MixedError("multiplies different rows")


def images(node: Node, labels: dict[Node, Label]) -> Label:
    """Pools and their like: the first axis is the rows' in all they are given, and each image is worked on alone."""
    if any(value(each).dim() < 3 for each in node.all_input_nodes):
        raise MixedError("works across rows")
    return _in_front(labels, node.all_input_nodes)


def convolution(node: Node, labels: dict[Node, Label]) -> Label:
    """`convolution(images, filters, bias)`: the images are rows, and the filters are shared."""
    return _filtered(labels, [operand(node, 0)], operand(node, 1), argument(node, 2))


def convolution_backward(node: Node, labels: dict[Node, Label]) -> Label:
    """Gradients of images; those of filters are sums over rows, which `one_of_several` knows."""
    return _filtered(labels, [operand(node, 0), operand(node, 1)], operand(node, 2))


def _filtered(labels: dict[Node, Label], images: list[Node], filters: Node, bias: Node | None = None) -> Label:
    if axis_of(filters, labels) or (bias is not None and axis_of(bias, labels)):
        raise MixedError("multiplies different rows")
    # An image without an axis for several has its channels in front, which meet.
    if any(value(each).dim() != value(filters).dim() for each in images):
        raise MixedError("works across rows")
    return _in_front(labels, images)


def _in_front(labels: dict[Node, Label], images: list[Node]) -> Label:
    """The axis of images, in front of all that is given: a row may have several."""
    first, *others = (axis_of(each, labels) for each in images)
    if first is None or first.index != 0 or any(other != first for other in others):
        raise MixedError("works across rows")
    return first
