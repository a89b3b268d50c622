"""Merges products that are left in the loop: one large product a step is faster than several small ones."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Collection, Iterable

from torch import fx

from unspool.engine.trace.graph import (
    Node,
    ancestors,
    aten,
    calls,
    descendants,
    insert,
    invariants,
    is_call,
    number,
    operand,
    replace,
    sliced,
    terms_of,
    value,
)
from unspool.engine.trace.rewrites.hoist import hoist_invariants


def merge_products(
    graph: fx.Graph, weights: Collection[Node], carried: Collection[Node], new_carried: Iterable[Node | None]
) -> None:
    """`h @ a` and `h @ b` become `h @ concat([a, b])`, where the loop needs both."""
    shared, core = invariants(graph, weights), _core(graph, carried, new_carried)
    by_rows: dict[Node, list[Node]] = defaultdict(list)
    for product in calls(graph, aten.mm.default):
        if product in core and operand(product, 1) in shared:
            by_rows[operand(product, 0)].append(product)
    for products in by_rows.values():
        if len(products) == 1:
            continue
        first, rows = products[0], operand(products[0], 0)  # which may have been merged itself by now
        hoist_invariants(graph, weights)
        products = _as_they_lie(products)
        matrix = insert(first, aten.cat.default, [operand(each, 1) for each in products], 1)
        product = insert(first, aten.mm.default, rows, matrix)
        widths = [value(each).shape[1] for each in products]
        parts = insert(first, aten.split_with_sizes.default, product, widths, 1)
        for each, part in [(each, insert(first, operator.getitem, parts, k)) for k, each in enumerate(products)]:
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
        terms = terms_of(total)
        products = [
            each
            for each in terms
            if is_call(each, aten.mm.default) and each in core and operand(each, 1) in shared and len(each.users) == 1
        ]
        if len(products) < 2 or any(value(each).dtype != value(total).dtype for each in terms):
            continue
        hoist_invariants(graph, weights)
        joined = insert(total, aten.cat.default, [operand(each, 0) for each in products], 1)
        matrix = insert(total, aten.cat.default, [operand(each, 1) for each in products], 0)
        merged = insert(total, aten.mm.default, joined, matrix)
        for each in terms:
            if each not in products:
                merged = insert(total, aten.add.Tensor, merged, each)
        replace(total, merged)
    hoist_invariants(graph, weights)


def _as_they_lie(products: list[Node]) -> list[Node]:
    """`products`, those by slices of the columns of one matrix in its order: neighbours are then not copied."""
    places: dict[Node, tuple[int, int]] = {}
    bases: dict[Node, int] = {}
    for product in products:
        matrix, start = operand(product, 1), 0
        if is_call(matrix, aten.slice.Tensor) and len(matrix.args) == 4 and number(matrix, 1) == 1:
            whole = operand(matrix, 0)
            matrix, start = whole, sliced(matrix).indices(value(whole).shape[1])[0]
        places[product] = (bases.setdefault(matrix, len(bases)), start)
    return sorted(products, key=places.__getitem__)


def _core(graph: fx.Graph, carried: Collection[Node], new_carried: Iterable[Node | None]) -> set[Node]:
    return descendants(graph, carried) & ancestors(new_carried, stop=carried)
