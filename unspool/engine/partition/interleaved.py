"""Values whose rows are interleaved with another axis: they do not cross from one part of a split to another.

A layer on `[length, rows, depth]` reshapes it to `[length * rows, depth]`. There the rows of several steps could not be
told apart. So such a view is made where it is used, and undone where it was made: what crosses has its rows whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import fx

from unspool.engine.ops import VIEWS
from unspool.engine.rows.labels import Axis, Label
from unspool.engine.trace.graph import Node, aten, calls, is_several, value
from unspool.engine.trace.shapes.symbolic_rows import size_of_rows


def is_interleaved(node: Node, labels: dict[Node, Label]) -> bool:
    """Whether the entries of a row do not lie next to each other."""
    label = labels.get(node)
    return isinstance(label, Axis) and label.outer > 1


def make_whole(graph: fx.Graph, labels: dict[Node, Label], rows: fx.Node) -> None:
    """Lets the users of what is computed interleaved see it through a view whose rows are whole, which may cross."""
    for node in calls(graph):
        label = labels.get(node)
        if node.target in VIEWS or not isinstance(label, Axis) or label.outer == 1 or is_several(value(node)):
            continue
        if all(user.target in VIEWS and not is_interleaved(user, labels) for user in node.users):
            continue  # which are such views
        at, shape = label.index, list(value(node).shape)
        apart = [*shape[:at], label.outer, value(rows) * label.inner, *shape[at + 1 :]]
        users = list(node.users)
        whole = _reshaped(graph, node, node, apart, rows)
        again = _reshaped(graph, whole, whole, shape, rows)
        labels[whole], labels[again] = Axis(at + 1, 1, label.inner), label
        for user in users:
            user.replace_input_with(node, again)


def _reshaped(graph: fx.Graph, node: fx.Node, behind: fx.Node, shape: list[Any], rows: fx.Node) -> fx.Node:
    sizes = [size if size.__class__ is int else size_of_rows(size, rows) for size in shape]
    with graph.inserting_after(behind):
        made = graph.call_function(aten.reshape.default, (node, sizes))
    made.meta["val"] = value(node).reshape(shape)
    return made


def copy_views(graph: fx.Graph, labels: dict[Node, Label]) -> None:
    """Gives each user of an interleaved view its own."""
    for node in reversed(calls(graph, *VIEWS)):
        if is_interleaved(node, labels):
            for user in list(node.users)[1:]:
                with graph.inserting_after(node):
                    copy = graph.node_copy(node)
                user.replace_input_with(node, copy)
                labels[copy] = labels[node]


def moved_views(nodes: Iterable[Node], core: set[Node], labels: dict[Node, Label]) -> set[Node]:
    """Views outside of the core that belong to it: those that interleave what it uses, or undo that to its results."""
    found: set[Node] = set()
    views = [node for node in nodes if node.target in VIEWS and node not in core]
    for node in views:  # one after another, as they are computed
        given = [each for each in node.all_input_nodes if is_interleaved(each, labels)]
        if not is_interleaved(node, labels) and any(each in core or each in found for each in given):
            found.add(node)
    for node in reversed(views):
        if is_interleaved(node, labels) and any(user in core or user in found for user in node.users):
            found.add(node)
    return found
