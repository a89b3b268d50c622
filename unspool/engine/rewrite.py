"""Rewrites that make the sequential part of a step small. Each goes once over the graph and changes it in place.

None changes what the graph computes, but for the order in which floating-point numbers are multiplied and summed.
`carried` are the nodes that a step takes over from the one before it: the state, and in the adjoint the gradient of
the new state. A node is *carried* if it depends on one of them; what is not can leave the loop.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, fx

from unspool.engine.graph import (
    Node,
    ancestors,
    aten,
    calls,
    descendants,
    hoist,
    insert,
    is_call,
    is_random,
    is_size,
    replace,
    value,
)
from unspool.engine.reasons import CannotPlanError

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


def name_sizes(graph: fx.Graph, rows: Node) -> None:
    """Lets every size be a number or computed from `rows`, so that no tensor is needed for its shape alone.

    Without it, a mask drawn like the state would have to wait for the state.
    """
    sizes: dict[str, Node] = {str(value(rows)): rows}

    def named(size: Any) -> Any:
        if not isinstance(size, torch.SymInt):
            return size
        if str(size) not in sizes:
            sizes[str(size)] = _size(size, rows)
        return sizes[str(size)]

    for node in calls(graph):
        if is_size(node) and not isinstance(value(node), torch.SymInt):
            continue
        if isinstance(value(node), torch.SymInt) and node not in sizes.values():
            replace(node, named(value(node)))
        elif node.target in FILLED or node.target in FILLED_WITH or node.target in DRAWN:
            made: Tensor = value(node)
            arguments: list[Any] = [[named(size) for size in made.shape]]
            if node.target not in DRAWN:
                arguments.append(FILLED[node.target] if node.target in FILLED else node.args[FILLED_WITH[node.target]])
            target = DRAWN.get(node.target, aten.full.default)
            with graph.inserting_before(node):
                new = graph.call_function(target, tuple(arguments), {"dtype": made.dtype, "device": made.device})
            new.meta = dict(node.meta)
            replace(node, new)


def _size(size: Any, rows: Node) -> Node:
    """A new node that computes a multiple of the rows."""
    expression: Any = size.node.expr
    row: Any = value(rows).node.expr
    times = int(expression.subs(row, 1))
    if expression != times * row:
        raise CannotPlanError(f"a size in the step is no multiple of the number of rows: {expression}")
    graph = rows.graph
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    with graph.inserting_after(last):
        node = graph.call_function(operator.mul, (rows, times))
    node.meta["val"] = size
    return node


def drop_identities(graph: fx.Graph) -> None:
    """Removes what gives back what it was given: `x * 1`, `x + 0`, copies, casts and views to the same."""
    for node in calls(graph):
        same = _unchanged(node)
        if same is not None:
            replace(node, same)


def _unchanged(node: Node) -> Node | None:
    copies = (
        aten.detach.default,
        aten.alias.default,
        aten.clone.default,
        aten.lift_fresh_copy.default,
        aten.lift_fresh.default,
    )
    if is_call(node, *copies):
        return node.args[0]
    if is_call(node, aten.t.default) and is_call(node.args[0], aten.t.default):
        return node.args[0].args[0]
    neutral = {
        aten.mul.Tensor: 1,
        aten.mul.Scalar: 1,
        aten.div.Tensor: 1,
        aten.div.Scalar: 1,
        aten.add.Tensor: 0,
        aten.sub.Tensor: 0,
    }
    shapes_only = (
        aten.view.default,
        aten._unsafe_view.default,
        aten.reshape.default,
        aten.expand.default,
        aten.slice.Tensor,
        aten.slice_backward.default,
        aten.slice_scatter.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten._to_copy.default,
    )
    given = node.args[1 if is_call(node, aten.slice_scatter.default) else 0] if node.args else None
    if not isinstance(given, fx.Node) or not isinstance(value(given), Tensor) or not isinstance(value(node), Tensor):
        return None
    does_nothing = is_call(node, *shapes_only) or (
        node.target in neutral
        and not node.kwargs
        and isinstance(node.args[1], int | float)
        and node.args[1] == neutral[node.target]
    )
    return given if does_nothing and _alike(value(given), value(node)) else None


def _alike(one: Tensor, other: Tensor) -> bool:
    return (str(one.shape), one.dtype, one.device) == (str(other.shape), other.dtype, other.device)


def use_one_name(graph: fx.Graph) -> None:
    """Calls the same thing by the same name.

    Every view becomes a reshape, which works on any strides, so that copies made for it are not needed.
    """
    names = {
        aten.view.default: aten.reshape.default,
        aten._unsafe_view.default: aten.reshape.default,
        aten.unsafe_split.Tensor: aten.split.Tensor,
        aten.unsafe_split_with_sizes.default: aten.split_with_sizes.default,
    }
    for node in calls(graph, *names):
        node.target = names[node.target]


def share_repeated(graph: fx.Graph) -> None:
    """Computes only once what is computed several times from the same."""
    seen: dict[Any, Node] = {}
    for node in calls(graph):
        if is_random(node):
            continue
        key = repr((str(node.target), node.args, sorted(node.kwargs.items())))
        if key in seen:
            replace(node, seen[key])
        else:
            seen[key] = node


def drop_dead(graph: fx.Graph) -> None:
    """Removes what no result needs."""
    needed = ancestors([graph.output_node()])
    for node in reversed(list(graph.nodes)):
        if node not in needed and node.op != "placeholder":
            graph.erase_node(node)


def hoist_invariants(graph: fx.Graph, weights: Collection[Node]) -> None:
    """Moves what depends on weights alone to the front."""
    hoist(graph, invariants(graph, weights))


def invariants(graph: fx.Graph, weights: Collection[Node]) -> set[Node]:
    """What depends on weights (or on nothing) alone: the same at every step, for every row."""
    found = set(weights)
    for node in graph.nodes:
        own = node.op == "get_attr" or (node.op == "call_function" and not is_random(node))
        if own and all(each in found for each in node.all_input_nodes):
            found.add(node)
    return found


def take_dropout_apart(graph: fx.Graph) -> None:
    """Draws a dropout's mask without looking at what it will be applied to."""
    for node in calls(graph, aten.native_dropout.default):
        given, rate, training = node.args
        if not training or rate in (0, 1):
            continue
        ones = insert(node, aten.full_like.default, given, 1)
        drawn = insert(node, aten.native_dropout.default, ones, rate, True)
        mask = insert(node, operator.getitem, drawn, 1)
        kept = insert(node, aten.mul.Tensor, given, mask)
        scaled = insert(node, aten.mul.Tensor, kept, 1 / (1 - rate))
        for user in list(node.users):
            replace(user, (scaled, mask)[user.args[1]])
        graph.erase_node(node)


def take_convolutions_apart(graph: fx.Graph) -> None:
    """Computes the gradients of a convolution's input and of its weights by themselves: only the first is carried."""
    for node in calls(graph, aten.convolution_backward.default):
        for user in list(node.users):
            number = user.args[1]
            mask = [k == number for k in range(3)]
            alone = insert(node, node.target, *node.args[:-1], mask)
            replace(user, insert(node, operator.getitem, alone, number))
        graph.erase_node(node)


def join_slices(graph: fx.Graph) -> None:
    """Replaces a sum of zero-padded pieces that do not overlap by their concatenation.

    This is what the gradient of `z[:, :n]`, `z[:, n:]` looks like.
    """
    for node in reversed(calls(graph, aten.add.Tensor)):
        if node.kwargs or not node.users:
            continue
        terms = _terms(node)
        pieces = sorted(
            (each.args[3], each.args[4], each.args[2], each)
            for each in terms
            if is_call(each, aten.slice_backward.default)
        )
        if len(pieces) != len(terms):
            continue
        ends = [0, *(end for _, end, *_ in pieces)]
        dims = {dim for _, _, dim, _ in pieces}
        whole: Tensor = value(node)
        if len(dims) == 1 and all(each.args[5] == 1 for *_, each in pieces):
            (dim,) = dims
            starts = [start for start, *_ in pieces]
            if starts == ends[:-1] and ends[-1] >= whole.shape[dim]:
                replace(node, insert(node, aten.cat.default, [each.args[0] for *_, each in pieces], dim))


def _terms(node: Node) -> list[Node]:
    """The terms of a sum of tensors, sums of sums included where nobody else needs them."""
    found: list[Node] = []
    for each in node.args[:2]:
        if is_call(each, aten.add.Tensor) and len(each.users) == 1 and not each.kwargs:
            found += _terms(each)
        elif isinstance(each, fx.Node):
            found.append(each)
        else:
            return [node]
    return found


def split_concat_products(graph: fx.Graph, weights: Collection[Node], carried: Iterable[Node]) -> None:
    """`concat([x, h]) @ kernel` becomes `x @ kernel[:n] + h @ kernel[n:]` where `h` is carried and `x` is not."""
    shared, dependent = invariants(graph, weights), descendants(graph, carried)
    for product in calls(graph, aten.mm.default):
        joined, matrix = product.args
        if not is_call(joined, aten.cat.default) or matrix not in shared or not _is_last_axis(joined):
            continue
        if any(value(piece).dim() != 2 for piece in joined.args[0]):
            continue
        groups: list[list[Node]] = []
        for piece in joined.args[0]:
            if groups and (groups[-1][-1] in dependent) == (piece in dependent):
                groups[-1].append(piece)
            else:
                groups.append([piece])
        if len(groups) == 1:
            continue
        start, sums = 0, list[Node]()
        for group in groups:
            rows = insert(product, aten.cat.default, group, 1) if len(group) > 1 else group[0]
            end = start + value(rows).shape[1]
            part = insert(product, aten.slice.Tensor, matrix, 0, start, end)
            sums.append(insert(product, aten.mm.default, rows, part))
            start = end
        total = sums[0]
        for each in sums[1:]:
            total = insert(product, aten.add.Tensor, total, each)
        replace(product, total)
    hoist_invariants(graph, weights)


def _is_last_axis(joined: Any) -> bool:
    axis = joined.args[1] if len(joined.args) > 1 else 0
    return axis in (1, -1) and value(joined).dim() == 2


def narrow_products(graph: fx.Graph, weights: Collection[Node]) -> None:
    """`(d @ m)[:, a:b]` becomes `d @ m[:, a:b]`, so that parts of a product can run at different times.

    This is how the gradient of `concat([x, h]) @ kernel` lets go of the gradient of `x`.
    """
    shared = invariants(graph, weights)
    for product in calls(graph, aten.mm.default):
        users = list(product.users)
        sliced = all(is_call(user, aten.slice.Tensor) and user.args[1] in (1, -1) for user in users)
        if product.args[1] not in shared or not sliced or any(len(user.args) > 4 for user in users):
            continue
        ranges = sorted((user.args[2], user.args[3]) for user in users)
        if any(end > start for (_, end), (start, _) in pairwise(ranges)):
            continue  # they overlap: that would be more work
        for user in users:
            part = insert(user, aten.slice.Tensor, product.args[1], 1, *user.args[2:4])
            replace(user, insert(user, aten.mm.default, product.args[0], part))
        graph.erase_node(product)
    hoist_invariants(graph, weights)


def stay_in_half(graph: fx.Graph, carried: Iterable[Node]) -> None:
    """`half(float(d) * a)` becomes `d * half(a)` where only `d` is carried.

    torch's derivatives compute in float32 and round once; the factor that leaves the loop still does.
    """
    dependent = descendants(graph, carried)
    for rounded in calls(graph, aten._to_copy.default):
        product = rounded.args[0]
        if not is_call(product, aten.mul.Tensor) or len(product.users) != 1 or product.kwargs:
            continue
        found = _carried_factor(product, dependent)
        if found is None or not isinstance(found[1], fx.Node) or not is_call(found[0], aten._to_copy.default):
            continue
        d, half = found[0].args[0], value(rounded).dtype
        if d in dependent and value(d).dtype == half and half in (torch.bfloat16, torch.float16):
            factor = insert(rounded, aten._to_copy.default, found[1], dtype=half)
            replace(rounded, insert(rounded, aten.mul.Tensor, d, factor))


def reassociate(graph: fx.Graph, carried: Iterable[Node]) -> None:
    """`(d * a) * b` becomes `d * (a * b)` where only `d` is carried: one product of two is left in the loop."""
    dependent = descendants(graph, carried)
    for node in calls(graph, aten.mul.Tensor, aten.div.Tensor):
        outer = _carried_factor(node, dependent)
        if outer is None:
            continue
        product, b = outer
        inner = _carried_factor(product, dependent)
        if inner is None or not is_call(product, aten.mul.Tensor):
            continue
        d, a = inner
        if not isinstance(a, fx.Node) and not isinstance(b, fx.Node):
            continue  # numbers alone do not cost a pass
        if _result_dtype(a, b, node) != value(node).dtype:
            continue
        first, second = (a, b) if isinstance(a, fx.Node) else (b, a)
        if node.target is aten.div.Tensor:
            first, second = a, b
            if not isinstance(a, fx.Node):
                continue
        factor = insert(node, node.target, first, second)
        node.args = (d, factor)
        node.target = aten.mul.Tensor


def sum_apart(graph: fx.Graph, carried: Iterable[Node]) -> None:
    """`(x + h) + b` becomes `(x + b) + h` where only `h` is carried: one sum of two is left in the loop."""
    dependent = descendants(graph, carried)
    for total in reversed(calls(graph, aten.add.Tensor)):
        if total.kwargs or not total.users:
            continue
        terms = _terms(total)
        outside = [each for each in terms if each not in dependent]
        inside = [each for each in terms if each in dependent]
        if len(outside) < 2 or not inside or any(value(each).dtype != value(total).dtype for each in terms):
            continue  # True + True is not 2, and a sum in float32 is rounded
        result = outside[0]
        for each in [*outside[1:], *inside]:
            result = insert(total, aten.add.Tensor, result, each)
        replace(total, result)


def _result_dtype(a: Any, b: Any, node: Node) -> torch.dtype:
    tensors = [value(each) for each in (a, b) if isinstance(each, fx.Node)]
    return torch.result_type(tensors[0], tensors[1] if len(tensors) > 1 else (b if isinstance(a, fx.Node) else a))


def _carried_factor(node: Any, dependent: set[Node]) -> tuple[Node, Any] | None:
    """The factor of a product that is carried and the one that is not, if there is one of each."""
    if not is_call(node, aten.mul.Tensor, aten.div.Tensor) or node.kwargs:
        return None
    a, b = node.args
    if a in dependent and b not in dependent:
        return a, b
    if b in dependent and a not in dependent and node.target is aten.mul.Tensor:
        return b, a
    return None


def merge_products(
    graph: fx.Graph, weights: Collection[Node], carried: Collection[Node], new_carried: Iterable[Node | None]
) -> None:
    """`h @ a` and `h @ b` become `h @ concat([a, b])`, where the loop needs both."""
    shared, core = invariants(graph, weights), _core(graph, carried, new_carried)
    by_rows: dict[Node, list[Node]] = defaultdict(list)
    for product in calls(graph, aten.mm.default):
        if product in core and product.args[1] in shared:
            by_rows[product.args[0]].append(product)
    for products in by_rows.values():
        if len(products) == 1:
            continue
        rows = products[0].args[0]  # which may have been merged itself by now
        hoist_invariants(graph, weights)
        matrix = insert(products[0], aten.cat.default, [each.args[1] for each in products], 1)
        product = insert(products[0], aten.mm.default, rows, matrix)
        widths = [value(each).shape[1] for each in products]
        parts = insert(products[0], aten.split_with_sizes.default, product, widths, 1)
        for each, part in [(each, insert(products[0], operator.getitem, parts, k)) for k, each in enumerate(products)]:
            replace(each, part)
    hoist_invariants(graph, weights)


def merge_sums(
    graph: fx.Graph, weights: Collection[Node], carried: Collection[Node], new_carried: Iterable[Node | None]
) -> None:
    """`a @ m + b @ n` becomes `concat([a, b]) @ concat([m, n])`, where the loop needs it and both are carried."""
    shared, core = invariants(graph, weights), _core(graph, carried, new_carried)
    for total in reversed(calls(graph, aten.add.Tensor)):
        if total not in core or not total.users or total.kwargs:
            continue
        terms = _terms(total)
        products = [
            each
            for each in terms
            if is_call(each, aten.mm.default) and each in core and each.args[1] in shared and len(each.users) == 1
        ]
        if len(products) < 2 or any(value(each).dtype != value(total).dtype for each in terms):
            continue
        hoist_invariants(graph, weights)
        joined = insert(total, aten.cat.default, [each.args[0] for each in products], 1)
        matrix = insert(total, aten.cat.default, [each.args[1] for each in products], 0)
        merged = insert(total, aten.mm.default, joined, matrix)
        for each in terms:
            if each not in products:
                merged = insert(total, aten.add.Tensor, merged, each)
        replace(total, merged)
    hoist_invariants(graph, weights)


def _core(graph: fx.Graph, carried: Collection[Node], new_carried: Iterable[Node | None]) -> set[Node]:
    return descendants(graph, carried) & ancestors(new_carried, stop=carried)
