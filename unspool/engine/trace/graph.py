"""Queries and edits of fx graphs."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from unspool.engine.reasons import TORCH, Line

aten = torch.ops.aten

Node: TypeAlias = Any
"""An `fx.Node`, for code that looks into its arguments, which fx declares to be nearly anything."""


def value(node: fx.Node) -> Any:
    """What the tracer saw a node compute: a tensor without data, or a number."""
    return node.meta["val"]


def calls(graph: fx.Graph, *targets: Any) -> list[Node]:
    """The nodes of `graph` that call one of `targets`; without targets, all that call anything."""
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    return [node for node in nodes if node.target in targets] if targets else nodes


def is_call(node: Any, *targets: Any) -> bool:
    """Whether `node` calls one of `targets`."""
    return isinstance(node, fx.Node) and node.op == "call_function" and node.target in targets


def is_size(node: fx.Node) -> bool:
    """Whether a node computes no tensor but a number, such as a size."""
    return not isinstance(value(node), Tensor | tuple | list)


def is_random(node: fx.Node) -> bool:
    """Whether a node draws from a random number generator."""
    return isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def ancestors(nodes: Iterable[fx.Node | None], stop: Collection[fx.Node] = ()) -> set[fx.Node]:
    """`nodes` and everything they are computed from, not looking past `stop`."""
    found: set[fx.Node] = set()
    waiting = [node for node in nodes if node is not None]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            if node not in stop:
                waiting.extend(node.all_input_nodes)
    return found


def descendants(graph: fx.Graph, nodes: Iterable[fx.Node], stop: Collection[fx.Node] = ()) -> set[fx.Node]:
    """`nodes` and everything that is computed from them; the nodes in `stop` are not computed but given."""
    found = set(nodes)
    for node in graph.nodes:
        if node.op == "call_function" and node not in stop and not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


def invariants(graph: fx.Graph, weights: Collection[Node]) -> set[Node]:
    """What depends on weights (or on nothing) alone: the same at every step, for every row."""
    found = set(weights)
    for node in graph.nodes:
        own = node.op == "get_attr" or (node.op == "call_function" and not is_random(node))
        if own and all(each in found for each in node.all_input_nodes):
            found.add(node)
    return found


def terms_of(node: Node) -> list[Node]:
    """The terms of a sum of tensors, sums of sums included where nobody else needs them."""
    found: list[Node] = []
    for each in node.args[:2]:
        if is_call(each, aten.add.Tensor) and len(each.users) == 1 and not each.kwargs:
            found += terms_of(each)
        elif isinstance(each, fx.Node):
            found.append(each)
        else:
            return [node]
    return found


def insert(before: Node, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
    """A new node in front of `before`, with its value and the source line that `before` came from."""
    with before.graph.inserting_before(before):
        node = before.graph.call_function(target, args, kwargs)
    given, named = fx.map_arg((args, kwargs), value)  # pyright: ignore[reportArgumentType]
    if target is operator.getitem:
        node.meta["val"] = target(*given)
    else:
        tensor = next(value(each) for each in node.all_input_nodes if isinstance(value(each), Tensor))
        with tensor.fake_mode:
            node.meta["val"] = target(*given, **named)
    if "stack_trace" in before.meta:
        node.meta["stack_trace"] = before.meta["stack_trace"]
    return node


def replace(node: fx.Node, by: fx.Node) -> None:
    """Lets everything that used `node` use `by`, and removes `node`."""
    node.replace_all_uses_with(by)
    node.graph.erase_node(node)


def hoist_invariants(graph: fx.Graph, weights: Collection[fx.Node]) -> None:
    """Moves what depends on weights alone in front of everything else."""
    nodes = invariants(graph, weights)
    first = next((node for node in graph.nodes if node.op == "call_function" and node not in nodes), None)
    for node in [node for node in graph.nodes if node in nodes and node.op in ("call_function", "get_attr")]:
        if first is not None:
            first.prepend(node)


def source_of(node: fx.Node) -> str:
    """The text of the line of the user's code that a node came from."""
    line = line_of_node(node)
    return "" if line is None else line.text


def line_of_node(node: fx.Node) -> Line | None:
    """The line that a node came from: the innermost one outside of torch; None for a node of the adjoint.

    Its text is empty for code that was typed in, of which Python keeps none.
    """
    frames = re.findall(r'File "(.*)", line (\d+), in .*(?:\n {4}(.*))?', node.meta.get("stack_trace", ""))
    own = [Line(file, int(number), text) for file, number, text in frames if not file.startswith(TORCH)]
    return own[-1] if own else None
