"""Axes that reductions, scans and slices act on, read from the arguments of a node: one, several, or None for all."""

from __future__ import annotations

from typing import Any

from unspool.engine.trace.graph import Node, argument, aten, operand, value


def second(node: Node) -> Any:
    """The second argument."""
    return argument(node, 1, node.kwargs.get("dim"))


def second_or_first_axis(node: Node) -> Any:
    """The second argument, else the first axis."""
    return argument(node, 1, node.kwargs.get("dim", 0))


def second_or_last_axis(node: Node) -> Any:
    """The second argument, else the last axis."""
    return argument(node, 1, node.kwargs.get("dim", -1))


def third_or_first_axis(node: Node) -> Any:
    """The third argument, else the first axis."""
    return argument(node, 2, node.kwargs.get("dim", 0))


def third_or_last_axis(node: Node) -> Any:
    """The third argument, else the last axis."""
    return argument(node, 2, node.kwargs.get("dim", -1))


def all_axes(node: Node) -> Any:
    """Every axis."""
    return None


def last_two(node: Node) -> Any:
    """Those of matrices."""
    return [-1, -2]


def rolled(node: Node) -> Any:
    """Those of `roll`, which rolls the flattened tensor if it is told none."""
    return argument(node, 2) or None


def padded(node: Node) -> Any:
    """Those that `constant_pad_nd` pads: two numbers for each, from the last one on."""
    rank = value(operand(node, 0)).dim()
    return [rank - 1 - k for k in range(len(argument(node, 1)) // 2)]


def replaced(node: Node) -> Any:
    """Those along which `select_scatter`, or `diagonal_scatter`, puts something into a place."""
    if node.target is aten.diagonal_scatter.default:
        return [argument(node, 3, 0), argument(node, 4, 1)]
    return argument(node, 2, node.kwargs.get("dim", 0))


def diagonal(node: Node) -> Any:
    """The two whose diagonal is taken."""
    return [argument(node, 2, node.kwargs.get("dim1", 0)), argument(node, 3, node.kwargs.get("dim2", 1))]
