"""Where an operation leaves the rows that it is given, for every operation that is known to keep them apart."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unspool.engine.reasons import Code
from unspool.engine.rows.labels import SUMMED, Axis, Label, MixedError
from unspool.engine.rows.linearity import is_zero
from unspool.engine.rows.op_axes import ALONG
from unspool.engine.trace.graph import Node, aten, is_pointwise, value


def apply_rule(node: Node, labels: dict[Node, Label]) -> Label:
    """Where the rows are in what a node computes from rows.

    Raises:
        MixedError: if rows meet each other in it, or if there is no rule for it.
    """
    if node.target is operator.getitem:
        return _of_getitem(node, labels)
    if is_pointwise(node) or node.target in ELEMENTWISE:
        return _aligned(node, labels)
    if node.target in ALONG:
        return _along(node, labels, ALONG[node.target](node))
    rule = RULES.get(node.target)
    if rule is None:
        raise MixedError("is an operation of which it is not known whether it keeps rows apart", Code.UNKNOWN_OPERATION)
    return rule(node, labels)


# -- shapes -----------------------------------------------------------------------------------------------------------


def has_rows(tensor: Any) -> bool:
    """Whether a size of a tensor, or of one of several, has the rows in it."""
    if isinstance(tensor, tuple | list):
        return any(has_rows(each) for each in tensor)  # pyright: ignore[reportUnknownVariableType]
    return isinstance(tensor, Tensor) and any(isinstance(size, torch.SymInt) for size in tensor.shape)


def axis_in(tensor: Any) -> Axis | None:
    """The axis of a tensor whose size has the rows in it."""
    found = [k for k, size in enumerate(tensor.shape) if isinstance(size, torch.SymInt)]
    if len(found) > 1:
        raise MixedError("has the rows in two of its axes")
    return Axis(found[0]) if found else None


def _result_axis(node: Node) -> int:
    result: Any = value(node)
    results: list[Any] = list(result) if isinstance(result, tuple | list) else [result]  # pyright: ignore[reportUnknownArgumentType]
    axes = {axis.index for each in results if (axis := axis_in(each))}
    if len(axes) != 1:
        raise MixedError("loses the axis of the rows")
    return axes.pop()


def _dims(dims: Any, rank: int) -> set[int]:
    if dims is None or dims == []:
        return set(range(rank))
    return {dim % max(rank, 1) for dim in ([dims] if isinstance(dims, int) else dims)}


def _row_inputs(node: Node, labels: dict[Node, Label]) -> list[tuple[Node, Axis]]:
    found: list[tuple[Node, Axis]] = []
    for each in node.all_input_nodes:
        label = labels.get(each)
        if isinstance(label, Axis):
            found.append((each, label))
    return found


def _axis(node: Any, labels: dict[Node, Label]) -> Axis | None:
    label = labels.get(node)
    return label if isinstance(label, Axis) else None


# -- rules ------------------------------------------------------------------------------------------------------------


def _aligned(node: Node, labels: dict[Node, Label]) -> Label:
    """Elements meet only elements in the same place, counted from the last axis."""
    result = value(node)[0] if isinstance(value(node), tuple | list) else value(node)
    places = {(value(each).dim() - axis.index, axis.outer, axis.inner) for each, axis in _row_inputs(node, labels)}
    if len(places) != 1:
        raise MixedError("lets different rows meet")
    ((from_the_end, outer, inner),) = places
    return Axis(result.dim() - from_the_end, outer, inner)


def _along(node: Node, labels: dict[Node, Label], dims: Any) -> Label:
    """Elements meet along some axes, which must not be the rows'; a sum over rows is allowed."""
    first, axis = _row_inputs(node, labels)[0]
    if any((other.outer, other.inner) != (axis.outer, axis.inner) for _, other in _row_inputs(node, labels)):
        raise MixedError("lets different rows meet")
    if any(other.index != axis.index for _, other in _row_inputs(node, labels)):
        raise MixedError("lets different rows meet")
    if axis.index in _dims(dims, value(first).dim()):
        if node.target in (aten.sum.dim_IntList, aten.sum.default):
            return SUMMED
        raise MixedError("works across rows")
    return Axis(_result_axis(node), axis.outer, axis.inner)


def _of_getitem(node: Node, labels: dict[Node, Label]) -> Label:
    """One result of an operation with several."""
    source: Any = node.args[0]
    label = labels[source]
    if source.target is aten.convolution_backward.default and node.args[1] != 0:
        return SUMMED
    assert isinstance(label, Axis)
    return Axis(_result_axis(node), label.outer, label.inner)


def _reshaped(node: Node, labels: dict[Node, Label]) -> Label:
    """Finds the rows again after a reshape, by the number of elements in front of them."""
    source: Any = node.args[0]
    axis = _axis(source, labels)
    assert axis is not None
    index = _result_axis(node)
    in_front = math.prod(value(source).shape[: axis.index]) * axis.outer
    behind = math.prod(value(source).shape[axis.index + 1 :]) * axis.inner
    outer, rest = divmod(in_front, math.prod(value(node).shape[:index]))
    inner, rest_behind = divmod(behind, math.prod(value(node).shape[index + 1 :]))
    if rest or rest_behind or outer < 1 or inner < 1:
        raise MixedError("takes rows apart and puts them together differently")
    return Axis(index, int(outer), int(inner))


def _moved(node: Node, labels: dict[Node, Label]) -> Label:
    """Axes change places, appear or vanish, and elements stay together."""
    axis = _axis(node.args[0], labels)
    assert axis is not None
    return Axis(_result_axis(node), axis.outer, axis.inner)


def _squeezed(node: Node, labels: dict[Node, Label]) -> Label:
    """An axis of size 1 vanishes; that of the rows would, of one row alone."""
    axis = _axis(node.args[0], labels)
    assert axis is not None
    if axis.index in _dims(node.args[1], value(node.args[0]).dim()):
        raise MixedError("depends on the number of rows")
    return _moved(node, labels)


def _joined(node: Node, labels: dict[Node, Label]) -> Label:
    """`cat`: pieces without rows cannot stand beside pieces with rows, but along the axis that joins them."""
    pieces: Any = node.args[0]
    dim = (node.args[1] if len(node.args) > 1 else 0) % value(node).dim()
    axes = {_axis(piece, labels) for piece in pieces}
    if len(axes) != 1:
        raise MixedError("joins different rows")
    (axis,) = axes
    assert axis is not None
    if axis.index == dim:
        raise MixedError("appends rows to rows")
    return axis


def _stacked(node: Node, labels: dict[Node, Label]) -> Label:
    pieces: Any = node.args[0]
    axes = {_axis(piece, labels) for piece in pieces}
    if len(axes) != 1:
        raise MixedError("joins different rows")
    (axis,) = axes
    assert axis is not None
    return Axis(_result_axis(node), axis.outer, axis.inner)


def _matrix_product(node: Node, labels: dict[Node, Label]) -> Label:
    left, right = _axis(node.args[0], labels), _axis(node.args[1], labels)
    if left and left.index == 0 and right is None:
        return left
    if right and right.index == 1 and left is None:
        return right
    if left and right and left.index == 1 and right.index == 0 and _same_layout(left, right):
        return SUMMED
    raise MixedError("multiplies different rows")


def _batched_product(node: Node, labels: dict[Node, Label]) -> Label:
    left, right = _axis(node.args[0], labels), _axis(node.args[1], labels)
    if left and right:
        if left == right and left.index == 0:
            return left
        if left.index == 2 and right.index == 1 and _same_layout(left, right):
            return SUMMED
    elif left and left.index in (0, 1):
        return left
    elif right and right.index in (0, 2):
        return right
    raise MixedError("multiplies different rows")


def _matrix_times_vector(node: Node, labels: dict[Node, Label]) -> Label:
    matrix, vector = _axis(node.args[0], labels), _axis(node.args[1], labels)
    if matrix and matrix.index == 0 and vector is None:
        return matrix
    if matrix and matrix.index == 1 and vector and _same_layout(matrix, vector):
        return SUMMED
    raise MixedError("multiplies different rows")


def _same_layout(one: Axis, other: Axis) -> bool:
    return (one.outer, one.inner) == (other.outer, other.inner)


def _looked_up(node: Node, labels: dict[Node, Label]) -> Label:
    """`embedding(table, ids)`: the table is shared, the ids are rows."""
    table, ids = _axis(node.args[0], labels), _axis(node.args[1], labels)
    if table is not None or ids is None:
        raise MixedError("looks up rows in each other")
    return ids


def _summed_look_up(node: Node, labels: dict[Node, Label]) -> Label:
    """The gradient of a table, a sum over what was looked up: every id has a line of its own in what is added."""
    added, ids = _axis(node.args[0], labels), _axis(node.args[1], labels)
    if ids is None or added != ids:
        raise MixedError("adds up different rows")
    if len(node.args) > 4 and node.args[4]:
        raise MixedError("divides by how often an id occurs in the batch")
    return SUMMED


def _addressed(node: Node, labels: dict[Node, Label]) -> Label:
    """`gather` and `scatter`: every row has its own indices, and nothing reaches into another row."""
    tensors = [each for each in node.all_input_nodes if each in labels]
    if any(_axis(each, labels) is None for each in tensors):
        raise MixedError("does not have indices for every row")
    return _along(node, labels, node.args[1])


def _index_added(node: Node, labels: dict[Node, Label]) -> Label:
    """`index_add` along another axis than the rows', by shared indices."""
    source, dim, index, added = node.args[:4]
    if _axis(index, labels) or _axis(source, labels) != _axis(added, labels):
        raise MixedError("adds to indexed rows")
    return _along(node, labels, dim)


def _indexed(node: Node, labels: dict[Node, Label]) -> Label:
    """`x[index]`: rows of indices into something shared, or shared indices into other axes than the rows'."""
    source, indices = node.args[:2]
    axis = _axis(source, labels)
    by_rows = [each for each in indices if _axis(each, labels)]
    if axis is None and by_rows:
        axes = {_axis(each, labels) for each in by_rows}
        if len(axes) == 1 and all(each is None or each in by_rows for each in indices):
            (found,) = axes
            assert found is not None
            return Axis(_result_axis(node), found.outer, found.inner)
    if axis and not by_rows and (axis.index >= len(indices) or indices[axis.index] is None):
        return Axis(_result_axis(node), axis.outer, axis.inner)
    raise MixedError("indexes rows")


def _put(node: Node, labels: dict[Node, Label]) -> Label:
    """`x[index] += v`: into something shared it is a sum over rows; else the axis of the rows must not be indexed."""
    source, indices, put = node.args[:3]
    accumulates = len(node.args) > 3 and bool(node.args[3])
    axis, placed = _axis(source, labels), _axis(put, labels)
    by_rows = [each for each in indices if _axis(each, labels)]
    indexed = [k for k, each in enumerate(indices) if each is not None]
    # What is found stands where the indices stand, if they are side by side, else in front.
    side_by_side = indexed == list(range(indexed[0], indexed[-1] + 1))
    rank = value(source).dim()
    if axis is None and by_rows and accumulates and is_zero(source):
        behind = rank - 1 - indexed[-1] if side_by_side else rank - len(indexed)
        places = {(_from_the_end(each, labels), _axis(each, labels)) for each in by_rows}
        ((from_the_end, axis),) = places if len(places) == 1 else {(0, None)}
        if axis and _fits(put, placed, from_the_end + behind, axis):
            return SUMMED
    elif axis and not by_rows and (axis.index >= len(indices) or indices[axis.index] is None):
        after = [k for k in indexed if k > axis.index]
        found = max(value(indices[k]).dim() for k in after) if after and side_by_side else 0
        if _fits(put, placed, rank - axis.index - len(after) + found, axis):
            return axis
    raise MixedError("writes to indexed rows")


def _from_the_end(node: Node, labels: dict[Node, Label]) -> int:
    axis = _axis(node, labels)
    return 0 if axis is None else value(node).dim() - axis.index


def _fits(put: Node, placed: Axis | None, from_the_end: int, axis: Axis) -> bool:
    """Whether a tensor is the same for all rows, or has those of `axis` that far from its last axis."""
    return placed is None or (value(put).dim() - placed.index == from_the_end and _same_layout(placed, axis))


def _images(node: Node, labels: dict[Node, Label]) -> Label:
    """Pools and their like: the first axis is the rows' in all they are given, and each image is worked on alone."""
    if any(_axis(each, labels) != Axis(0) or value(each).dim() < 3 for each in node.all_input_nodes):
        raise MixedError("works across rows")
    return Axis(0)


def _convolution(node: Node, labels: dict[Node, Label]) -> Label:
    """`convolution(images, filters, bias)`: the images are rows, and the filters are shared."""
    return _filtered(node, labels, node.args[:1], node.args[1:3])


def _convolution_backward(node: Node, labels: dict[Node, Label]) -> Label:
    """Gradients of images; those of filters are sums over rows, which `_of_getitem` knows."""
    return _filtered(node, labels, node.args[:2], node.args[2:3])


def _filtered(node: Node, labels: dict[Node, Label], images: Any, shared: Any) -> Label:
    if any(_axis(each, labels) for each in shared):
        raise MixedError("multiplies different rows")
    # An image without an axis for several has its channels in front, which meet.
    if any(_axis(each, labels) != Axis(0) or value(each).dim() != value(shared[0]).dim() for each in images):
        raise MixedError("works across rows")
    return Axis(0)


# -- tables -----------------------------------------------------------------------------------------------------------

MAKERS = {aten.full.default, aten.rand.default, aten.randn.default}
"""What makes rows from a shape alone."""

SIZED: set[Any] = {
    aten.reshape.default,
    aten.view.default,
    aten._unsafe_view.default,
    aten.expand.default,
    aten.slice_backward.default,
}
"""What takes a shape after a tensor."""

ELEMENTWISE: set[Any] = {
    aten._to_copy.default,
    aten.clone.default,
    aten.copy.default,
    aten.fill.Scalar,
    aten.fill.Tensor,
    aten.bernoulli.p,
    aten.bernoulli.default,
    aten.native_dropout.default,
    aten.uniform.default,
    aten.normal_functional.default,
    aten.exponential.default,
    aten.masked_fill.Scalar,
    aten.masked_fill.Tensor,
    aten.where.self,
}
"""Pointwise operations that are not marked as such."""

RULES: dict[Any, Callable[[Node, dict[Node, Label]], Label]] = {
    aten.mm.default: _matrix_product,
    aten.bmm.default: _batched_product,
    aten.mv.default: _matrix_times_vector,
    aten.cat.default: _joined,
    aten.stack.default: _stacked,
    aten.embedding.default: _looked_up,
    aten.embedding_dense_backward.default: _summed_look_up,
    aten.index_add.default: _index_added,
    **dict.fromkeys([aten.gather.default, aten.scatter.src, aten.scatter.value, aten.scatter_add.default], _addressed),
    aten.index.Tensor: _indexed,
    aten.convolution.default: _convolution,
    aten.convolution_backward.default: _convolution_backward,
    **dict.fromkeys([aten.index_put.default, aten._unsafe_index_put.default], _put),
    **dict.fromkeys([aten.view.default, aten._unsafe_view.default, aten.reshape.default], _reshaped),
    **dict.fromkeys(
        [
            aten.t.default,
            aten.transpose.int,
            aten.permute.default,
            aten.unsqueeze.default,
            aten.expand.default,
        ],
        _moved,
    ),
    **dict.fromkeys([aten.squeeze.dim, aten.squeeze.dims], _squeezed),
    **dict.fromkeys(
        [
            aten.avg_pool2d.default,
            aten.avg_pool2d_backward.default,
            aten.max_pool2d_with_indices.default,
            aten.max_pool2d_with_indices_backward.default,
            aten._adaptive_avg_pool2d.default,
            aten._adaptive_avg_pool2d_backward.default,
            aten.upsample_nearest2d.vec,
        ],
        _images,
    ),
}
"""What is known of all other operations."""
