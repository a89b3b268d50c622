"""Rewrites that make the sequential part of a step small. Each goes once over the graph and changes it in place.

None changes what the graph computes, but for the order in which floating-point numbers are multiplied and summed.
`carried` are the nodes that a step takes over from the one before it: the state, and in the adjoint the gradient of
the new state. A node is *carried* if it depends on one of them; what is not can leave the loop.
"""

from __future__ import annotations

from unspool.engine.trace.rewrites.canonicalize import (
    cut_once,
    flatten_concats,
    join_cuts,
    join_slices,
    name_sizes,
    use_one_name,
)
from unspool.engine.trace.rewrites.cleanup import drop_dead, drop_identities, share_repeated
from unspool.engine.trace.rewrites.convolutions import (
    narrow_convolutions,
    split_concat_convolutions,
    take_convolutions_apart,
)
from unspool.engine.trace.rewrites.hoist import (
    hoist_invariants,
    narrow_products,
    reassociate,
    split_concat_products,
    stay_in_half,
    sum_apart,
    sum_rows_last,
    take_dropout_apart,
)
from unspool.engine.trace.rewrites.merging import merge_products, merge_sums
from unspool.engine.trace.trace import Trace


def simplify(traced: Trace) -> None:
    """Every rewrite, in an order in which each finds what the ones before it have laid open."""
    graph, weights = traced.graph, traced.weights
    drop_dead(graph)
    take_dropout_apart(graph)
    take_convolutions_apart(graph)
    use_one_name(graph)
    name_sizes(graph, traced.rows)
    drop_identities(graph)
    share_repeated(graph)
    join_slices(graph)
    flatten_concats(graph)
    cut_once(graph)
    drop_dead(graph)
    hoist_invariants(graph, weights)
    split_concat_products(graph, weights, traced.state)
    narrow_products(graph, weights)
    split_concat_convolutions(graph, weights, [*traced.state, *traced.d_new_state])
    narrow_convolutions(graph, weights, [*traced.new_state, *traced.d_state])
    sum_rows_last(graph)
    stay_in_half(graph, traced.d_new_state)
    reassociate(graph, traced.d_new_state)
    for carried, new_carried in [(traced.state, traced.new_state), (traced.d_new_state, traced.d_state)]:
        sum_apart(graph, carried)
        drop_dead(graph)
        merge_products(graph, weights, carried, new_carried)
        merge_sums(graph, weights, carried, new_carried)
    join_cuts(graph)
    share_repeated(graph)
    drop_dead(graph)
