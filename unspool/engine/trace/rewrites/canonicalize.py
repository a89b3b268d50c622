"""Canonical form: sizes, views, splits and joined slices said in one way, for other rewrites to match."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor, fx

from unspool.engine.trace.graph import (
    Node,
    argument,
    aten,
    calls,
    insert,
    is_call,
    number,
    operand,
    operands,
    replace,
    sliced,
    terms_of,
    value,
)
from unspool.engine.trace.shapes.symbolic_rows import size_of_rows


def name_sizes(graph: fx.Graph, rows: Node) -> None:
    """Lets tensors be made of a size that is computed from `rows`, so that no tensor is needed for its shape alone.

    Without it, a mask drawn like the state would have to wait for the state.
    """

    def named(size: Any) -> Any:
        return size_of_rows(size, rows) if isinstance(size, torch.SymInt) else size

    for node in calls(graph):
        if node.target in FILLED or node.target in FILLED_WITH or node.target in DRAWN:
            made: Tensor = value(node)
            arguments: list[Any] = [[named(size) for size in made.shape]]
            if node.target not in DRAWN:
                arguments.append(FILLED[node.target] if node.target in FILLED else node.args[FILLED_WITH[node.target]])
            target = DRAWN.get(node.target, aten.full.default)
            with graph.inserting_before(node):
                new = graph.call_function(target, tuple(arguments), {"dtype": made.dtype, "device": made.device})
            new.meta = dict(node.meta)
            replace(node, new)


def use_one_name(graph: fx.Graph) -> None:
    """Calls the same thing by the same name.

    Every view becomes a reshape, which works on any strides, so that copies made for it are not needed; for the same
    reason a cast says nothing of how its result lies, and two casts of a value are one.
    """
    names: dict[Any, Any] = {
        aten.view.default: aten.reshape.default,
        aten._unsafe_view.default: aten.reshape.default,
        aten.unsafe_split.Tensor: aten.split.Tensor,
        aten.unsafe_split_with_sizes.default: aten.split_with_sizes.default,
    }
    for node in calls(graph, *names):
        node.target = names[node.target]
    for node in calls(graph, aten._to_copy.default):
        node.kwargs = {name: each for name, each in node.kwargs.items() if name != "memory_format"}


def flatten_concats(graph: fx.Graph) -> None:
    """`concat([concat([a, b]), c])` along one axis becomes `concat([a, b, c])`."""
    for node in calls(graph, aten.cat.default):
        axis, given = _axis(node), operands(node, 0)
        pieces: list[Node] = []
        for piece in given:
            inner = (
                is_call(piece, aten.cat.default) and _axis(piece) == axis and value(piece).dtype == value(node).dtype
            )
            pieces += operands(piece, 0) if inner else [piece]
        if len(pieces) > len(given):
            replace(node, insert(node, aten.cat.default, pieces, axis))


def cut_once(graph: fx.Graph) -> None:
    """`x[a:b][c:d]` along one axis becomes one slice of `x`."""
    for node in calls(graph, aten.slice.Tensor):
        inner = operand(node, 0)
        if not is_call(inner, aten.slice.Tensor) or any(len(each.args) != 4 for each in (node, inner)):
            continue
        of, axis = operand(inner, 0), number(inner, 1) % value(inner).dim()
        size = value(of).shape[axis]
        if number(node, 1) % value(node).dim() != axis or not isinstance(size, int):
            continue
        kept = range(size)[sliced(inner)][sliced(node)]
        replace(node, insert(node, aten.slice.Tensor, of, axis, kept.start, kept.stop))


def join_cuts(graph: fx.Graph) -> None:
    """Neighbouring slices of a tensor, put together again, become one slice, or the tensor itself."""
    for node in calls(graph, aten.cat.default):
        pieces, axis = operands(node, 0), _axis(node)
        if not all(is_call(each, aten.slice.Tensor) and len(each.args) == 4 for each in pieces):
            continue
        of = operand(pieces[0], 0)
        size = value(of).shape[axis]
        if not isinstance(size, int) or any(operand(each, 0) is not of or number(each, 1) != axis for each in pieces):
            continue
        cuts = [sliced(each).indices(size)[:2] for each in pieces]
        if any(start > end for start, end in cuts) or any(one[1] != two[0] for one, two in itertools.pairwise(cuts)):
            continue
        start, end = cuts[0][0], cuts[-1][1]
        replace(node, of if (start, end) == (0, size) else insert(node, aten.slice.Tensor, of, axis, start, end))


def _axis(concat: Node) -> int:
    axis = argument(concat, 1, concat.kwargs.get("dim", 0))
    assert isinstance(axis, int)
    return axis % value(concat).dim()


def join_slices(graph: fx.Graph) -> None:
    """Replaces a sum of zero-padded pieces that do not overlap by their concatenation.

    This is what the gradient of `z[:, :n]`, `z[:, n:]` looks like.
    """
    for node in reversed(calls(graph, aten.add.Tensor)):
        if node.kwargs or not node.users:
            continue
        terms = terms_of(node)
        # Where rows themselves are cut, bounds are nodes; the proof will say so.
        if not all(is_call(each, aten.slice_backward.default) and _has_fixed_bounds(each) for each in terms):
            continue
        pieces = sorted((number(each, 3), number(each, 4), number(each, 2), each) for each in terms)
        ends = [0, *(end for _, end, *_ in pieces)]
        dims = {dim for _, _, dim, _ in pieces}
        whole: Tensor = value(node)
        if len(dims) == 1 and all(number(each, 5) == 1 for *_, each in pieces):
            (dim,) = dims
            starts = [start for start, *_ in pieces]
            if starts == ends[:-1] and ends[-1] >= whole.shape[dim]:
                replace(node, insert(node, aten.cat.default, [operand(each, 0) for *_, each in pieces], dim))


def _has_fixed_bounds(piece: Node) -> bool:
    return all(isinstance(each, int) for each in piece.args[2:5])


FILLED: dict[Any, Any] = {
    aten.zeros_like.default: 0,
    aten.ones_like.default: 1,
    aten.empty_like.default: 0,
    aten.new_zeros.default: 0,
    aten.new_ones.default: 1,
    aten.new_empty.default: 0,
    aten.new_empty_strided.default: 0,
    aten.zeros.default: 0,
    aten.ones.default: 1,
    aten.empty.memory_format: 0,
    aten.empty_strided.default: 0,
}
"""What makes a tensor like another, or of a shape, and what it fills it with; what is empty may hold anything."""

FILLED_WITH: dict[Any, int] = {aten.full_like.default: 1, aten.new_full.default: 2}
"""The same, where the number is an argument."""

DRAWN: dict[Any, Any] = {aten.rand_like.default: aten.rand.default, aten.randn_like.default: aten.randn.default}
"""What draws a tensor like another, and what draws it from the shape itself."""
