"""Helpers for fx graphs: ancestors, descendants, invariants, insert, replace."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeAlias, TypeGuard, cast

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from unspool.engine.reasons import Line
from unspool.engine.trace.shapes.by_hand import SHAPES
from unspool.engine.trace.user_lines import line_at

aten = torch.ops.aten

Node: TypeAlias = fx.Node
"""One operation, input or result. fx declares its arguments to be nearly anything: say below what one should be."""


def value(node: Node) -> Any:
    """What the tracer saw a node compute: a number, or one or several tensors without data, with symbols for sizes."""
    return node.meta["val"]


def mapped(arguments: Any, of: Callable[[Node], Any]) -> Any:
    """Arguments of a node, with something else for every node among them; `fx.map_arg` is declared for nodes alone."""
    return fx.map_arg(arguments, of)


def operand(node: Node, k: int) -> Node:
    """The k-th argument of a node, which is a node."""
    found = node.args[k]
    assert isinstance(found, fx.Node), f"argument {k} of {node.target} is no node: {found}"
    return found


def operands(node: Node, k: int) -> list[Node]:
    """The k-th argument of a node, which is a list of nodes."""
    found = argument(node, k)
    assert is_several(found), f"argument {k} of {node.target} is no list: {found}"
    assert all(isinstance(each, fx.Node) for each in found), f"argument {k} of {node.target} has others than nodes"
    return list(found)


def number(node: Node, k: int) -> int:
    """The k-th argument of a node, which is a whole number: an axis, say."""
    found = node.args[k]
    assert isinstance(found, int), f"argument {k} of {node.target} is no number: {found}"
    return found


def argument(node: Node, k: int, otherwise: Any = None) -> Any:
    """The k-th argument of a node, which may be anything; `otherwise` if it was not given."""
    return node.args[k] if len(node.args) > k else otherwise


def sliced(node: Node) -> slice[Any, Any, Any]:
    """What a `slice` takes of its axis."""
    return slice(*node.args[2:])


def is_several(argument: Any) -> TypeGuard[Sequence[Any]]:
    """Whether an argument, or what a node computes, is a list or tuple of others."""
    return isinstance(argument, tuple | list)


def calls(graph: fx.Graph, *targets: Any) -> list[Node]:
    """The nodes of `graph` that call one of `targets`; without targets, all that call anything."""
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    return [node for node in nodes if node.target in targets] if targets else nodes


def is_call(node: Any, *targets: Any) -> TypeGuard[Node]:
    """Whether `node` calls one of `targets`."""
    return isinstance(node, fx.Node) and node.op == "call_function" and node.target in targets


def is_size(node: Node) -> bool:
    """Whether a node computes no tensor but a number, such as a size."""
    return not isinstance(value(node), Tensor | tuple | list)


def is_random(node: Node) -> bool:
    """Whether a node draws from a random number generator."""
    return isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def is_derived(node: Node) -> bool:
    """Whether a node is a part of a derivative of torch's own, all of which are linear in what they are given."""
    return node.meta.get("derived", False)


def memory_of(node: Node) -> Node:
    """The node that made the memory of a tensor, of which there may be views."""
    target: Any = node.target
    while target is operator.getitem or (
        isinstance(target, OpOverload) and any(each.alias_info for each in cast(Any, target)._schema.returns)
    ):
        node = node.all_input_nodes[0]
        target = node.target
    return node


def ancestors(nodes: Iterable[Node | None], stop: Collection[Node] = ()) -> set[Node]:
    """`nodes` and everything they are computed from, not looking past `stop`."""
    found: set[Node] = set()
    waiting = [node for node in nodes if node is not None]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            if node not in stop:
                waiting.extend(node.all_input_nodes)
    return found


def descendants(graph: fx.Graph, nodes: Iterable[Node], stop: Collection[Node] = ()) -> set[Node]:
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
    given, named = mapped(node.args, value), mapped(node.kwargs, value)
    if target is operator.getitem:
        node.meta["val"] = target(*given)
    else:
        tensor = next(value(each) for each in node.all_input_nodes if isinstance(value(each), Tensor))
        with tensor.fake_mode:
            node.meta["val"] = SHAPES.get(target, target)(*given, **named)
    node.meta |= {name: before.meta[name] for name in ("place", "derived") if name in before.meta}
    return node


def replace(node: Node, by: Node) -> None:
    """Lets everything that used `node` use `by`, and removes `node`."""
    node.replace_all_uses_with(by)
    node.graph.erase_node(node)


def source_of(node: Node) -> str:
    """The text of the line of the user's code that a node came from."""
    line = line_of_node(node)
    return "" if line is None else line.text


def line_of_node(node: Node) -> Line | None:
    """The line of the user's code that a node came from; for a node of the adjoint, what it is the derivative of."""
    return line_at(node.meta.get("place"))
