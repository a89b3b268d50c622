"""Rewrites that clean a graph up: what each changes, what it must leave alone, and all rewrites together."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.rewriting import UNITS, in_core, targets, traced, unchanged
from unspool.engine.trace.graph import ancestors, aten, calls, invariants, value
from unspool.engine.trace.rewrites import canonicalize, cleanup, simplify
from unspool.engine.trace.rewrites.hoist import hoist_invariants
from unspool.engine.trace.trace import Trace


def test_the_number_of_rows_has_a_name() -> None:
    made = unchanged(
        traced(lambda cell, x, h: h + torch.zeros_like(h) + h.reshape(h.shape[0] * 2, 2).tanh().reshape(h.shape)),
        lambda made: canonicalize.name_sizes(made.graph, made.rows),
    )
    assert targets(made, aten.sym_size.int, aten.zeros_like.default) == 0
    assert targets(made, aten.full.default) == 1
    assert [node.args for node in calls(made.graph, operator.mul)] == [(made.rows, 2)]


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda h: torch.zeros_like(h), torch.float64),
        (lambda h: torch.ones_like(h, dtype=torch.int64), torch.int64),
        (lambda h: torch.full_like(h, 0.3), torch.float64),
        (lambda h: h.new_zeros(h.shape), torch.float64),
        (lambda h: h.new_ones(h.shape[0], 2 * UNITS)[:, UNITS:], torch.float64),
        (lambda h: h.new_full(h.shape, 7, dtype=torch.int64), torch.int64),
        (lambda h: torch.zeros(h.shape[0], UNITS), torch.float32),
        (lambda h: torch.empty(h.shape[0], UNITS, dtype=h.dtype).fill_(2), torch.float64),
    ],
)
def test_whatever_is_filled_is_made_from_its_shape(make: Any, dtype: torch.dtype) -> None:
    made = traced(lambda cell, x, h: h * make(h), adjoint=False)
    unchanged(made, lambda made: (canonicalize.name_sizes(made.graph, made.rows), cleanup.drop_dead(made.graph)))
    (full,) = calls(made.graph, aten.full.default)
    assert value(full).dtype == dtype
    assert not ancestors([full]) & {*made.state, *made.inputs}


def test_a_shape_without_rows_stays_a_shape_of_numbers() -> None:
    made = traced(lambda cell, x, h: h * torch.ones(UNITS), adjoint=False)
    unchanged(made, lambda made: canonicalize.name_sizes(made.graph, made.rows))
    (full,) = calls(made.graph, aten.full.default)
    assert full.args[0] == [UNITS]
    assert not made.rows.users


def test_a_mask_like_the_state_does_not_wait_for_it() -> None:
    made = traced(lambda cell, x, h: h * torch.rand_like(h))
    canonicalize.name_sizes(made.graph, made.rows)
    (drawn,) = calls(made.graph, aten.rand.default)
    assert not ancestors([drawn]) & set(made.state)


def test_a_size_that_is_no_multiple_of_the_rows_is_computed_from_them() -> None:
    made = traced(
        lambda cell, x, h: F.pad(h, (0, 0, 0, 3))[:-3] + torch.zeros(2 * h.shape[0] + 1, UNITS)[1 + h.shape[0] :],
        adjoint=False,
    )
    canonicalize.name_sizes(made.graph, made.rows)
    (filled,) = calls(made.graph, aten.full.default)
    more = filled.args[0][0]
    assert (more.target, more.args[1], more.args[0].target) == (operator.add, 1, operator.mul)
    assert more.args[0].args == (made.rows, 2)


def test_identities_go() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        h = torch.where(x[:, :1] > 0, h.detach(), h)
        return (((h * 1 + 0) / 1).clone().detach() + h.view(h.shape)).to(h.dtype).t().t()[:, :UNITS]

    made = unchanged(
        traced(step, adjoint=False), lambda made: (cleanup.drop_identities(made.graph), cleanup.drop_dead(made.graph))
    )
    assert {node.target for node in calls(made.graph)} <= {aten.add.Tensor}


@pytest.mark.parametrize(
    ("step", "target"),
    [
        (lambda cell, x, h: h * 2, aten.mul.Tensor),
        (lambda cell, x, h: h + 1, aten.add.Tensor),
        (lambda cell, x, h: h - h.float().double(), aten._to_copy.default),
        (lambda cell, x, h: h[:, 1:2] * h, aten.slice.Tensor),
        (lambda cell, x, h: h.reshape(-1, 2, 2).tanh().reshape(-1, UNITS), aten.view.default),
        (lambda cell, x, h: torch.add(h, h, alpha=0), aten.add.Tensor),
        (lambda cell, x, h: x[:, :1].expand(-1, UNITS) * h, aten.expand.default),
        (lambda cell, x, h: h * ((h > 0) * 1), aten.mul.Tensor),  # a number of another dtype
        (lambda cell, x, h: h + ((h > 0) + 0), aten.add.Tensor),
        (lambda cell, x, h: h * ((4 * h).long() / 1), aten.div.Tensor),
        (lambda cell, x, h: 1 / h, aten.reciprocal.default),
        (lambda cell, x, h: 0 - h, aten.sub.Tensor),
        (lambda cell, x, h: torch.add(h, 1, alpha=0.5), aten.add.Tensor),
        (lambda cell, x, h: torch.where(h > 0, x[:, :1], x[:, :1]), aten.where.self),  # it is wider than what is chosen
    ],
)
def test_what_is_no_identity_stays(step: Any, target: Any) -> None:
    made = unchanged(traced(step, adjoint=False), lambda made: cleanup.drop_identities(made.graph))
    assert targets(made, target) >= 1


def test_views_become_reshapes() -> None:
    made = unchanged(
        traced(lambda cell, x, h: h.view(-1, 2, 2).transpose(1, 2).reshape(-1, UNITS)),
        lambda made: canonicalize.use_one_name(made.graph),
    )
    assert targets(made, aten.view.default, aten._unsafe_view.default) == 0
    assert targets(made, aten.reshape.default) > 0


def test_a_view_as_another_dtype_is_no_reshape() -> None:
    made = traced(lambda cell, x, h: h.view(torch.int64).bitwise_and(-2).view(torch.float64), adjoint=False)
    unchanged(made, lambda made: canonicalize.use_one_name(made.graph))
    assert targets(made, aten.view.dtype) == 2


def test_splits_have_one_name() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        one, other = torch.unsafe_split(h, 2, 1)
        first, rest = torch.unsafe_split_with_sizes(h, [1, 3], 1)
        return torch.cat([one * other, first + rest[:, :2]], 1)

    made = unchanged(traced(step, adjoint=False), lambda made: canonicalize.use_one_name(made.graph))
    assert targets(made, aten.split.Tensor, aten.split_with_sizes.default) == 2
    assert targets(made, aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes.default) == 0


def test_what_is_repeated_is_computed_once() -> None:
    made = unchanged(
        traced(lambda cell, x, h: torch.tanh(h) + torch.tanh(h), adjoint=False),
        lambda made: cleanup.share_repeated(made.graph),
    )
    assert targets(made, aten.tanh.default) == 1


@pytest.mark.parametrize(
    "step",
    [
        lambda cell, x, h: h.softmax(0) + h.softmax(1),
        lambda cell, x, h: torch.add(h, cell.bias) * torch.add(h, cell.bias, alpha=2),
        lambda cell, x, h: h[:, :2].sum(1, keepdim=True) + h[:, 2:].sum(1, keepdim=True) + h,
        lambda cell, x, h: (h * 2) + (x[:, :1] * 2),
    ],
)
def test_what_differs_in_anything_is_not_shared(step: Any) -> None:
    made = traced(step, adjoint=False)
    cleanup.drop_identities(made.graph)
    before = targets(made)
    unchanged(made, lambda made: cleanup.share_repeated(made.graph))
    assert targets(made) == before


def test_dropouts_are_never_shared() -> None:
    made = traced(lambda cell, x, h: F.dropout(h, 0.5) + F.dropout(h, 0.5), adjoint=False)
    cleanup.share_repeated(made.graph)
    assert targets(made, aten.native_dropout.default) == 2


def test_draws_are_never_shared() -> None:
    made = traced(lambda cell, x, h: torch.rand_like(h) * h + torch.rand_like(h), adjoint=False)
    canonicalize.name_sizes(made.graph, made.rows)
    cleanup.share_repeated(made.graph)
    assert targets(made, aten.rand.default) == 2


def test_what_no_result_needs_goes() -> None:
    made = traced(lambda cell, x, h: h + 1, adjoint=False)
    with made.graph.inserting_before(made.graph.output_node()):
        made.graph.call_function(aten.tanh.default, (made.state[0],))
    unchanged(made, lambda made: cleanup.drop_dead(made.graph))
    assert targets(made, aten.tanh.default) == 0
    assert targets(made, aten.add.Tensor) == 1


def test_what_is_given_stays_even_if_nothing_needs_it() -> None:
    made = unchanged(traced(lambda cell, x, h: h + 1), lambda made: cleanup.drop_dead(made.graph))
    given = [node for node in made.graph.nodes if node.op == "placeholder"]
    assert given == [
        made.rows, *made.weights, *made.inputs, *made.state, *made.d_outputs, *made.d_new_state
    ]  # fmt: skip


def test_invariants_come_first() -> None:
    made = unchanged(
        traced(lambda cell, x, h: torch.tanh(h) @ (cell.square.t() * 2)),
        lambda made: hoist_invariants(made.graph, made.weights),
    )
    invariant = invariants(made.graph, made.weights)
    order = [node in invariant for node in calls(made.graph)]
    assert order == sorted(order, reverse=True)
    assert sum(order) >= 2


def test_draws_are_not_invariant() -> None:
    made = traced(lambda cell, x, h: h * torch.rand(UNITS, dtype=h.dtype), adjoint=False)
    (drawn,) = calls(made.graph, aten.rand.default)
    assert drawn not in invariants(made.graph, made.weights)


def join(made: Trace) -> None:
    """Needs what is left when slices of everything are gone."""
    cleanup.drop_identities(made.graph)
    canonicalize.join_slices(made.graph)
    cleanup.drop_dead(made.graph)


def test_slices_that_cover_are_joined() -> None:
    made = unchanged(
        traced(lambda cell, x, h: torch.cat([h[:, 2:].tanh(), h[:, :2].sigmoid()], 1)),
        lambda made: (
            cleanup.drop_identities(made.graph),
            canonicalize.join_slices(made.graph),
            cleanup.drop_dead(made.graph),
        ),
    )
    assert targets(made, aten.slice_backward.default) == 0


def test_three_slices_that_cover_in_any_order_are_joined() -> None:
    made = unchanged(traced(lambda cell, x, h: torch.cat([h[:, 1:3].tanh(), h[:, 3:].exp(), h[:, :1].sin()], 1)), join)
    assert targets(made, aten.slice_backward.default) == 0
    (joined,) = [node for node in calls(made.graph, aten.cat.default) if node in ancestors(made.d_state)]
    assert [value(piece).shape[1] for piece in joined.args[0]] == [1, 2, 1]


def test_slices_with_a_stride_are_not_joined() -> None:
    made = unchanged(traced(lambda cell, x, h: torch.cat([h[:, ::2].tanh(), h[:, 1::2]], 1)), join)
    assert targets(made, aten.slice_backward.default) == 2


def test_of_the_same_slice_twice_one_is_joined_and_the_other_added() -> None:
    made = unchanged(traced(lambda cell, x, h: torch.cat([h[:, :2].sin() + h[:, :2].cos(), h[:, 2:]], 1)), join)
    assert targets(made, aten.slice_backward.default) == 1


def test_slices_in_a_weighted_sum_are_not_joined() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        left, right = (aten.slice_backward(h[:, :2], list(h.shape), 1, *ends, 1) for ends in ((0, 2), (2, UNITS)))
        return torch.add(left, right, alpha=2)

    made = unchanged(traced(step, adjoint=False), join)
    assert targets(made, aten.slice_backward.default) == 2


@pytest.mark.parametrize(
    "step",
    [
        lambda cell, x, h: h[:, 1:].tanh().sum(1, keepdim=True) + h[:, :2].sum(1, keepdim=True) * x[:, :1],  # overlap
        lambda cell, x, h: torch.cat([h[:, 3:].tanh(), h[:, :2].sigmoid(), x[:, :1]], 1),  # a hole
    ],
)
def test_slices_that_overlap_or_leave_holes_are_not_joined(step: Any) -> None:
    made = traced(lambda cell, x, h: step(cell, x, h).expand(-1, UNITS) + 0 * h)
    made = unchanged(
        made,
        lambda made: (
            cleanup.drop_identities(made.graph),
            canonicalize.join_slices(made.graph),
            cleanup.drop_dead(made.graph),
        ),
    )
    assert targets(made, aten.slice_backward.default) >= 2


def flatten_concats(made: Trace) -> None:
    canonicalize.flatten_concats(made.graph)
    cleanup.drop_dead(made.graph)


def test_nested_concatenations_become_one() -> None:
    made = unchanged(
        traced(
            lambda cell, x, h: (
                torch.cat([torch.cat([x, torch.cat([h, x], 1)], 1), h], -1) @ torch.ones(14, UNITS).double()
            )
        ),
        flatten_concats,
    )
    joined = [node for node in calls(made.graph, aten.cat.default) if node in ancestors(made.outputs)]
    assert [len(node.args[0]) for node in joined] == [4]


def test_a_concatenation_along_another_axis_stays_inside() -> None:
    made = unchanged(
        traced(
            lambda cell, x, h: torch.cat([torch.stack([h, h]).sum(0), torch.cat([h[:, :2], h[:, 2:]], 1)], 0)[
                : h.shape[0]
            ],
            adjoint=False,
        ),
        flatten_concats,
    )
    assert targets(made, aten.cat.default) == 2


def test_a_concatenation_that_is_needed_itself_stays() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        both = torch.cat([x, h], 1)
        return torch.cat([both, h], 1)[:, :UNITS] + both[:, :UNITS]

    made = unchanged(traced(step, adjoint=False), flatten_concats)
    assert targets(made, aten.cat.default) == 2


def test_a_concatenation_that_rounds_stays_inside() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        inner = torch.cat([(2049 + 0 * h).long()[:, :1], h.half()[:, :1]], 1)
        return torch.cat([inner, h[:, :2].float()], 1).double()

    made = unchanged(traced(step, adjoint=False), flatten_concats)
    assert targets(made, aten.cat.default) == 2


def cut_once(made: Trace) -> None:
    cleanup.drop_identities(made.graph)
    canonicalize.cut_once(made.graph)
    cleanup.drop_dead(made.graph)


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        (lambda h: h[:, 1:][:, :2], (1, 3)),
        (lambda h: h[:, 1:4][:, 1:3], (2, 4)),
        (lambda h: h[:, :3][:, -2:], (1, 3)),
        (lambda h: h[:, 1:][:, 1:][:, 1:], (3, 4)),
    ],
    ids=["from the start", "inside", "from the end", "three"],
)
def test_a_cut_of_a_cut_is_one(cut: Any, expected: tuple[int, int]) -> None:
    made = unchanged(traced(lambda cell, x, h: h + cut(h).sum(1, keepdim=True), adjoint=False), cut_once)
    (found,) = calls(made.graph, aten.slice.Tensor)
    assert slice(*found.args[2:]).indices(UNITS)[:2] == expected


def test_cuts_along_different_axes_stay_two() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        return h * cell.square[1:3][:, 1:3].sum()

    made = unchanged(traced(step, adjoint=False), cut_once)
    assert targets(made, aten.slice.Tensor) == 2


def test_a_cut_that_skips_stays_by_itself() -> None:
    made = unchanged(traced(lambda cell, x, h: h + h[:, ::2][:, 1:].sum(1, keepdim=True), adjoint=False), cut_once)
    assert targets(made, aten.slice.Tensor) == 2


def test_cuts_to_the_end_and_from_the_end_are_whole() -> None:
    made = unchanged(
        traced(lambda cell, x, h: h @ torch.cat([cell.square[:, :-1], cell.square[:, -1:]], 1), adjoint=False),
        join_cuts,
    )
    assert targets(made, aten.cat.default, aten.slice.Tensor) == 0


def join_cuts(made: Trace) -> None:
    cleanup.drop_identities(made.graph)
    canonicalize.join_cuts(made.graph)
    cleanup.drop_dead(made.graph)


def test_a_weight_cut_and_put_together_again_is_whole() -> None:
    made = unchanged(
        traced(lambda cell, x, h: h @ torch.cat([cell.square[:, :1], cell.square[:, 1:UNITS]], 1), adjoint=False),
        join_cuts,
    )
    assert targets(made, aten.cat.default, aten.slice.Tensor) == 0


def test_neighbouring_cuts_become_one() -> None:
    made = unchanged(
        traced(
            lambda cell, x, h: (
                torch.cat(
                    [
                        h[:, 1:2],
                        h[:, 2:4],
                    ],
                    1,
                ).sum(1, keepdim=True)
                + h
            ),
            adjoint=False,
        ),
        join_cuts,
    )
    assert targets(made, aten.cat.default) == 0
    assert targets(made, aten.slice.Tensor) == 1


@pytest.mark.parametrize(
    "step",
    [
        lambda cell, x, h: torch.cat([h[:, 2:], h[:, :2]], 1),  # in another order
        lambda cell, x, h: torch.cat([h[:, :2], h[:, 1:3]], 1),  # overlapping
        lambda cell, x, h: torch.cat([h[:, :2], h.sin()[:, 2:]], 1),  # of two tensors
        lambda cell, x, h: torch.cat([h[:, ::2], h[:, 1::2]], 1),  # with strides
        lambda cell, x, h: torch.cat([h[:, 2:1], h[:, 1:3]], 1).sum(1, keepdim=True) + h,  # an empty one
    ],
)
def test_other_cuts_are_left_alone(step: Any) -> None:
    made = unchanged(traced(step, adjoint=False), join_cuts)
    assert targets(made, aten.cat.default) == 1


def test_all_rewrites_together() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        both = torch.cat([x, h], 1)
        gate = torch.sigmoid(both @ cell.kernel + cell.bias)
        return gate * torch.tanh(h @ cell.square + (gate * h) @ cell.other) + (1 - gate) * h[:, [1, 0, 2, 3]]

    made = traced(step)
    before = in_core(made, aten.mm.default, adjoint=True)
    unchanged(made, simplify)
    assert in_core(made, aten.mm.default) == 2
    assert in_core(made, aten.mm.default, adjoint=True) <= before
