"""Each rewrite alone: what it changes, what it must leave alone, and that the graph computes the same numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from unspool import RNNCell
from unspool.engine import rewrite
from unspool.engine.graph import ancestors, aten, calls, descendants, value
from unspool.engine.plan import simplify
from unspool.engine.reasons import CannotPlanError
from unspool.engine.trace import Leaf, Trace, trace

DEPTH, UNITS = 3, 4


class Step(RNNCell):
    """A cell of one function, with a few weights to use."""

    def __init__(self, step: Callable[..., Tensor]) -> None:
        super().__init__()
        self.state_size = self.output_size = UNITS
        self.kernel = nn.Parameter(torch.randn(DEPTH + UNITS, UNITS))
        self.square = nn.Parameter(torch.randn(UNITS, UNITS))
        self.other = nn.Parameter(torch.randn(UNITS, UNITS))
        self.bias = nn.Parameter(torch.randn(UNITS))
        self.step = step

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = self.step(self, x, h)
        return h, h


def traced(step: Callable[..., Tensor], dtype: torch.dtype = torch.float64, *, adjoint: bool = True) -> Trace:
    """A step as the tracer leaves it, but for what no result needs."""
    torch.manual_seed(0)
    cell = Step(step).to(dtype)
    weights = dict(cell.named_parameters())
    leaves = [Leaf((width,), dtype, torch.device("cpu"), wanted=True) for width in (DEPTH, UNITS)]
    made = trace(cell, weights, *leaves, dtype, same_containers=True, adjoint=adjoint)
    rewrite.drop_dead(made.graph)
    return made


def computes(made: Trace, rows: int) -> list[Tensor]:
    """What a graph computes for random numbers."""
    torch.manual_seed(rows)
    values: list[Any] = [rows]
    for node in made.graph.nodes:
        if node.op == "placeholder" and node is not made.rows:
            shape = [size if isinstance(size, int) else rows for size in value(node).shape]
            values.append(torch.randn(shape, dtype=value(node).dtype))
    module = fx.GraphModule(
        {node.target: tensor for node, tensor in {**made.literals, **made.constants}.items()}, made.graph
    )
    torch.manual_seed(1)
    results = fx.Interpreter(module).run(*values)
    return [each for group in results for each in group if each is not None]


def unchanged(made: Trace, apply: Callable[[Trace], None], tolerance: float = 1e-12) -> Trace:
    """Applies a rewrite, and checks that the graph is in order and computes the same."""
    expected = {rows: computes(made, rows) for rows in (1, 2, 7)}
    apply(made)
    made.graph.lint()
    for rows, results in expected.items():
        # Numbers of size 1, summed and multiplied in another order.
        torch.testing.assert_close(computes(made, rows), results, rtol=tolerance, atol=tolerance)
    return made


def targets(made: Trace, *kinds: Any) -> int:
    return len(calls(made.graph, *kinds))


def in_core(made: Trace, target: Any, *, adjoint: bool = False) -> int:
    """How many nodes of a kind the loop needs at every step."""
    carried, new = (made.d_new_state, made.d_state) if adjoint else (made.state, made.new_state)
    core = descendants(made.graph, carried) & ancestors(new, stop=carried)
    return sum(node.target is target for node in core)


def test_the_number_of_rows_has_a_name() -> None:
    made = unchanged(
        traced(lambda cell, x, h: h + torch.zeros_like(h) + h.reshape(h.shape[0] * 2, 2).tanh().reshape(h.shape)),
        lambda made: rewrite.name_sizes(made.graph, made.rows),
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
    unchanged(made, lambda made: (rewrite.name_sizes(made.graph, made.rows), rewrite.drop_dead(made.graph)))
    (full,) = calls(made.graph, aten.full.default)
    assert value(full).dtype == dtype
    assert not ancestors([full]) & {*made.state, *made.inputs}


def test_a_shape_without_rows_stays_a_shape_of_numbers() -> None:
    made = traced(lambda cell, x, h: h * torch.ones(UNITS), adjoint=False)
    unchanged(made, lambda made: rewrite.name_sizes(made.graph, made.rows))
    (full,) = calls(made.graph, aten.full.default)
    assert full.args[0] == [UNITS]
    assert not made.rows.users


def test_a_mask_like_the_state_does_not_wait_for_it() -> None:
    made = traced(lambda cell, x, h: h * torch.rand_like(h))
    rewrite.name_sizes(made.graph, made.rows)
    (drawn,) = calls(made.graph, aten.rand.default)
    assert not ancestors([drawn]) & set(made.state)


def test_a_size_that_is_no_multiple_of_the_rows_is_refused() -> None:
    made = traced(
        lambda cell, x, h: F.pad(h, (0, 0, 0, 3))[:-3] + torch.zeros(h.shape[0] + 1, UNITS)[1:], adjoint=False
    )
    with pytest.raises(CannotPlanError, match="no multiple of the number of rows"):
        rewrite.name_sizes(made.graph, made.rows)


def test_identities_go() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        return (((h * 1 + 0) / 1).clone().detach() + h.view(h.shape)).to(h.dtype).t().t()[:, :UNITS]

    made = unchanged(traced(step), lambda made: (rewrite.drop_identities(made.graph), rewrite.drop_dead(made.graph)))
    assert {node.target for node in calls(made.graph)} <= {aten.add.Tensor, aten.sym_size.int}


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
    ],
)
def test_what_is_no_identity_stays(step: Any, target: Any) -> None:
    made = unchanged(traced(step, adjoint=False), lambda made: rewrite.drop_identities(made.graph))
    assert targets(made, target) >= 1


def test_views_become_reshapes() -> None:
    made = unchanged(
        traced(lambda cell, x, h: h.view(-1, 2, 2).transpose(1, 2).reshape(-1, UNITS)),
        lambda made: rewrite.use_one_name(made.graph),
    )
    assert targets(made, aten.view.default, aten._unsafe_view.default) == 0
    assert targets(made, aten.reshape.default) > 0


def test_a_view_as_another_dtype_is_no_reshape() -> None:
    made = traced(lambda cell, x, h: h.view(torch.int64).bitwise_and(-2).view(torch.float64), adjoint=False)
    unchanged(made, lambda made: rewrite.use_one_name(made.graph))
    assert targets(made, aten.view.dtype) == 2


def test_splits_have_one_name() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        one, other = torch.unsafe_split(h, 2, 1)
        first, rest = torch.unsafe_split_with_sizes(h, [1, 3], 1)
        return torch.cat([one * other, first + rest[:, :2]], 1)

    made = unchanged(traced(step, adjoint=False), lambda made: rewrite.use_one_name(made.graph))
    assert targets(made, aten.split.Tensor, aten.split_with_sizes.default) == 2
    assert targets(made, aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes.default) == 0


def test_what_is_repeated_is_computed_once() -> None:
    made = unchanged(
        traced(lambda cell, x, h: torch.tanh(h) + torch.tanh(h), adjoint=False),
        lambda made: rewrite.share_repeated(made.graph),
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
    rewrite.drop_identities(made.graph)
    before = targets(made)
    unchanged(made, lambda made: rewrite.share_repeated(made.graph))
    assert targets(made) == before


def test_dropouts_are_never_shared() -> None:
    made = traced(lambda cell, x, h: F.dropout(h, 0.5) + F.dropout(h, 0.5), adjoint=False)
    rewrite.share_repeated(made.graph)
    assert targets(made, aten.native_dropout.default) == 2


def test_draws_are_never_shared() -> None:
    made = traced(lambda cell, x, h: torch.rand_like(h) * h + torch.rand_like(h), adjoint=False)
    rewrite.name_sizes(made.graph, made.rows)
    rewrite.share_repeated(made.graph)
    assert targets(made, aten.rand.default) == 2


def test_what_no_result_needs_goes() -> None:
    made = traced(lambda cell, x, h: h + 1, adjoint=False)
    with made.graph.inserting_before(made.graph.output_node()):
        made.graph.call_function(aten.tanh.default, (made.state[0],))
    unchanged(made, lambda made: rewrite.drop_dead(made.graph))
    assert targets(made, aten.tanh.default) == 0
    assert targets(made, aten.add.Tensor) == 1


def test_what_is_given_stays_even_if_nothing_needs_it() -> None:
    made = unchanged(traced(lambda cell, x, h: h + 1), lambda made: rewrite.drop_dead(made.graph))
    given = [node for node in made.graph.nodes if node.op == "placeholder"]
    assert given == [
        made.rows, *made.weights, *made.inputs, *made.state, *made.d_outputs, *made.d_new_state
    ]  # fmt: skip


def test_invariants_come_first() -> None:
    made = unchanged(
        traced(lambda cell, x, h: torch.tanh(h) @ (cell.square.t() * 2)),
        lambda made: rewrite.hoist_invariants(made.graph, made.weights),
    )
    invariant = rewrite.invariants(made.graph, made.weights)
    order = [node in invariant for node in calls(made.graph)]
    assert order == sorted(order, reverse=True)
    assert sum(order) >= 2


def test_draws_are_not_invariant() -> None:
    made = traced(lambda cell, x, h: h * torch.rand(UNITS, dtype=h.dtype), adjoint=False)
    (drawn,) = calls(made.graph, aten.rand.default)
    assert drawn not in rewrite.invariants(made.graph, made.weights)


def test_the_mask_of_a_dropout_is_drawn_by_itself() -> None:
    made = unchanged(
        traced(lambda cell, x, h: F.dropout(torch.tanh(h), 0.4)), lambda made: rewrite.take_dropout_apart(made.graph)
    )
    rewrite.name_sizes(made.graph, made.rows)
    (drawn,) = calls(made.graph, aten.native_dropout.default)
    assert not ancestors([drawn]) & {*made.state, *made.inputs}


def test_a_dropout_that_drops_nothing_is_left_alone() -> None:
    made = traced(lambda cell, x, h: torch.native_dropout(h, 0.4, False)[0], adjoint=False)
    before = [node.name for node in made.graph.nodes]
    rewrite.take_dropout_apart(made.graph)
    assert [node.name for node in made.graph.nodes] == before


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_dropout_of_nothing_or_everything_is_left_alone(rate: float) -> None:
    """The scale of what is kept would be 1/0 for the latter."""
    made = traced(lambda cell, x, h: torch.native_dropout(h, rate, True)[0], adjoint=False)
    before = [node.name for node in made.graph.nodes]
    unchanged(made, lambda made: rewrite.take_dropout_apart(made.graph))
    assert [node.name for node in made.graph.nodes] == before


def test_the_gradients_of_a_convolution_come_apart() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        return F.conv1d(h.unsqueeze(1), cell.square[:, None, :3], padding=1).mean(1)

    made = unchanged(traced(step), lambda made: rewrite.take_convolutions_apart(made.graph))
    masks = [node.args[-1] for node in calls(made.graph, aten.convolution_backward.default)]
    assert sorted(map(tuple, masks)) == [(False, True, False), (True, False, False)]


def test_one_gradient_of_a_convolution_stays_one() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        return F.conv1d(h.unsqueeze(1), torch.ones(2, 1, 3, dtype=h.dtype), padding=1).mean(1)

    made = unchanged(traced(step), lambda made: rewrite.take_convolutions_apart(made.graph))
    (gradient,) = calls(made.graph, aten.convolution_backward.default)
    assert gradient.args[-1] == [True, False, False]
    assert targets(made, aten.convolution.default) == 1


def join(made: Trace) -> None:
    """Needs what is left when slices of everything are gone."""
    rewrite.drop_identities(made.graph)
    rewrite.join_slices(made.graph)
    rewrite.drop_dead(made.graph)


def test_slices_that_cover_are_joined() -> None:
    made = unchanged(
        traced(lambda cell, x, h: torch.cat([h[:, 2:].tanh(), h[:, :2].sigmoid()], 1)),
        lambda made: (
            rewrite.drop_identities(made.graph),
            rewrite.join_slices(made.graph),
            rewrite.drop_dead(made.graph),
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
            rewrite.drop_identities(made.graph),
            rewrite.join_slices(made.graph),
            rewrite.drop_dead(made.graph),
        ),
    )
    assert targets(made, aten.slice_backward.default) >= 2


def test_a_concatenation_is_multiplied_in_two_parts() -> None:
    made = traced(lambda cell, x, h: torch.tanh(torch.cat([x, h], 1) @ cell.kernel))
    made = unchanged(made, lambda made: rewrite.split_concat_products(made.graph, made.weights, made.state))
    products = [node for node in calls(made.graph, aten.mm.default) if node in ancestors(made.outputs)]
    dependent = descendants(made.graph, made.state)
    assert [node in dependent for node in products] == [False, True]


def test_neighbours_of_a_concatenation_stay_together() -> None:
    made = traced(
        lambda cell, x, h: torch.cat([x[:, :1], x[:, 1:2], h.tanh(), h[:, :1]], 1) @ cell.kernel, adjoint=False
    )
    unchanged(made, lambda made: rewrite.split_concat_products(made.graph, made.weights, made.state))
    assert [value(node.args[0]).shape[1] for node in calls(made.graph, aten.mm.default)] == [2, UNITS + 1]


def test_a_concatenation_times_what_is_no_weight_stays_whole() -> None:
    made = traced(lambda cell, x, h: torch.cat([x, h], 1) @ (torch.cat([x, h], 1).t() @ h), adjoint=False)
    unchanged(made, lambda made: rewrite.split_concat_products(made.graph, made.weights, made.state))
    assert targets(made, aten.mm.default) == 2


def test_a_concatenation_with_the_old_kind_of_nothing() -> None:
    """`cat` still takes an empty vector for nothing beside matrices."""
    made = traced(lambda cell, x, h: torch.cat([torch.empty(0, dtype=h.dtype), h], 1) @ cell.square, adjoint=False)
    unchanged(made, lambda made: rewrite.split_concat_products(made.graph, made.weights, made.state))


def test_a_concatenation_of_states_alone_stays_whole() -> None:
    made = traced(lambda cell, x, h: torch.cat([h[:, :3], h], 1) @ cell.kernel)
    before = targets(made, aten.mm.default)
    unchanged(made, lambda made: rewrite.split_concat_products(made.graph, made.weights, made.state))
    assert targets(made, aten.mm.default) == before


def test_a_concatenation_of_rows_is_no_concatenation_of_columns() -> None:
    made = traced(lambda cell, x, h: (torch.cat([x[:, :1].t(), h.t()], 0).t() @ cell.kernel[: UNITS + 1]).tanh())
    before = targets(made, aten.mm.default)
    unchanged(made, lambda made: rewrite.split_concat_products(made.graph, made.weights, made.state))
    assert targets(made, aten.mm.default) == before


def test_a_slice_of_a_product_is_a_product_with_a_slice() -> None:
    made = traced(lambda cell, x, h: torch.tanh(torch.cat([x, h], 1) @ cell.kernel))
    assert in_core(made, aten.mm.default, adjoint=True) == 1

    def apply(made: Trace) -> None:
        rewrite.drop_identities(made.graph)
        rewrite.narrow_products(made.graph, made.weights)

    unchanged(made, apply)
    (product,) = [
        node
        for node in calls(made.graph, aten.mm.default)
        if node in ancestors(made.d_state) and node in descendants(made.graph, made.d_new_state)
    ]
    assert value(product).shape[1] == UNITS  # and no longer the gradient of x beside it


def test_slices_of_a_product_that_overlap_are_left_alone() -> None:
    made = traced(
        lambda cell, x, h: (lambda p: p[:, :3].sum(1, keepdim=True) + p[:, 1:4].sum(1, keepdim=True) + h)(
            h @ cell.square
        )
    )
    before = [value(node).shape[1] for node in calls(made.graph, aten.mm.default) if node in ancestors(made.outputs)]
    unchanged(made, lambda made: rewrite.narrow_products(made.graph, made.weights))
    after = [value(node).shape[1] for node in calls(made.graph, aten.mm.default) if node in ancestors(made.outputs)]
    assert after == before == [UNITS]


@pytest.mark.parametrize(
    "pick",
    [
        lambda p: p[:, ::2].sum(1, keepdim=True),  # strided
        lambda p: p[:1],  # rows, not columns
    ],
)
def test_other_parts_of_a_product_are_left_alone(pick: Any) -> None:
    made = traced(lambda cell, x, h: pick(h @ cell.square) + h, adjoint=False)
    rewrite.drop_identities(made.graph)
    unchanged(made, lambda made: rewrite.narrow_products(made.graph, made.weights))
    (product,) = calls(made.graph, aten.mm.default)
    assert value(product).shape[1] == UNITS


def test_a_product_of_rows_with_rows_is_left_alone() -> None:
    made = traced(lambda cell, x, h: (h.t() @ h)[:, :2].sum() + (h.t() @ h)[:, 2:].sum() + h, adjoint=False)
    rewrite.share_repeated(made.graph)
    before = targets(made, aten.mm.default)
    unchanged(made, lambda made: rewrite.narrow_products(made.graph, made.weights))
    assert targets(made, aten.mm.default) == before == 1


def test_a_product_that_is_also_needed_whole_is_left_alone() -> None:
    made = traced(lambda cell, x, h: (lambda p: p + p[:, :1])(h @ cell.square), adjoint=False)
    unchanged(made, lambda made: rewrite.narrow_products(made.graph, made.weights))
    assert targets(made, aten.mm.default) == 1


def test_factors_that_are_not_carried_are_multiplied_first() -> None:
    made = traced(lambda cell, x, h: torch.tanh(h) * torch.sigmoid(x[:, :1]) * x[:, 1:2])
    before = in_core(made, aten.mul.Tensor, adjoint=True)
    unchanged(made, lambda made: (rewrite.reassociate(made.graph, made.d_new_state), rewrite.drop_dead(made.graph)))
    assert in_core(made, aten.mul.Tensor, adjoint=True) == 1 < before


def test_a_divisor_that_is_not_carried_divides_first() -> None:
    made = traced(lambda cell, x, h: (x[:, :1] * h) / (1 + x[:, 1:2] ** 2), adjoint=False)
    assert (in_core(made, aten.mul.Tensor), in_core(made, aten.div.Tensor)) == (1, 1)
    unchanged(made, lambda made: (rewrite.reassociate(made.graph, made.state), rewrite.drop_dead(made.graph)))
    assert (in_core(made, aten.mul.Tensor), in_core(made, aten.div.Tensor)) == (1, 0)


@pytest.mark.parametrize(
    "step",
    [
        lambda cell, x, h: h * h * h,
        lambda cell, x, h: (h * 2) * 3,
        lambda cell, x, h: x[:, :1] / (h * x[:, 1:2]),
        lambda cell, x, h: (h / x[:, :1]) * x[:, 1:2],
        lambda cell, x, h: (h * (4 * x[:, :1]).char()) * (4 * x[:, 1:2]).char(),  # their product would overflow
        lambda cell, x, h: (h * x[:, :1].float()) * x[:, 1:2].float(),  # and here be rounded
    ],
)
def test_factors_that_are_carried_are_not_moved(step: Any) -> None:
    made = traced(step, adjoint=False)
    before = [str(node.args) for node in calls(made.graph)]
    unchanged(made, lambda made: rewrite.reassociate(made.graph, made.state))
    assert [str(node.args) for node in calls(made.graph)] == before


def test_a_factor_of_another_dtype_is_not_moved() -> None:
    """In float64 the product would not be rounded in between."""
    made = traced(lambda cell, x, h: (h.float() * x[:, :1].float()).double() * x[:, 1:2], adjoint=False)
    before = targets(made, aten.mul.Tensor)
    unchanged(made, lambda made: rewrite.reassociate(made.graph, made.state))
    assert targets(made, aten.mul.Tensor) == before


def test_terms_that_are_not_carried_are_added_first() -> None:
    made = traced(lambda cell, x, h: (x[:, :1] + h) + cell.bias)
    assert in_core(made, aten.add.Tensor) == 2
    unchanged(made, lambda made: (rewrite.sum_apart(made.graph, made.state), rewrite.drop_dead(made.graph)))
    assert in_core(made, aten.add.Tensor) == 1


@pytest.mark.parametrize(
    "step",
    [
        lambda cell, x, h: (h + (x[:, :1] > -9)) + (x[:, 1:2] > -9),  # True + True is True, but 1 + 1 is 2
        lambda cell, x, h: (h + (x[:, :1] * 0 + 100).char()) + (x[:, 1:2] * 0 + 100).char(),  # 200 is no int8
        lambda cell, x, h: (h + x[:, :1].float()) + x[:, 1:2].float(),  # a float32 sum is rounded
        lambda cell, x, h: (h + x[:, :1]) + (((x[:, :1] > -9) + (x[:, 1:2] > -9)) + cell.bias),  # True + True again
    ],
    ids=["bool", "int8", "float32", "a sum of bools inside"],
)
def test_terms_of_another_dtype_are_not_added_first(step: Any) -> None:
    unchanged(traced(step, adjoint=False), lambda made: rewrite.sum_apart(made.graph, made.state))


@pytest.mark.parametrize(
    "step",
    [
        lambda cell, x, h: (x[:, :1] + h) + h.tanh(),
        lambda cell, x, h: torch.add(x[:, :1], h, alpha=2) + cell.bias,
        lambda cell, x, h: (lambda s: s + cell.bias + s.tanh())(x[:, :1] + h),
    ],
)
def test_sums_that_gain_nothing_are_left_alone(step: Any) -> None:
    made = traced(step, adjoint=False)
    before = in_core(made, aten.add.Tensor)
    unchanged(made, lambda made: (rewrite.sum_apart(made.graph, made.state), rewrite.drop_dead(made.graph)))
    assert in_core(made, aten.add.Tensor) == before


def test_products_of_the_same_rows_become_one() -> None:
    made = traced(lambda cell, x, h: torch.tanh(h @ cell.square) * torch.sigmoid(h @ cell.other))
    assert in_core(made, aten.mm.default) == 2
    unchanged(made, lambda made: rewrite.merge_products(made.graph, made.weights, made.state, made.new_state))
    assert in_core(made, aten.mm.default) == 1


def test_products_of_a_product_become_one_too() -> None:
    """A matrix of low rank, and another beside it."""

    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        low = h @ cell.square
        return torch.tanh(h @ cell.other + (low @ cell.square) * torch.sigmoid(low @ cell.other))

    made = traced(step, adjoint=False)
    assert in_core(made, aten.mm.default) == 4
    unchanged(made, lambda made: rewrite.merge_products(made.graph, made.weights, made.state, made.new_state))
    assert in_core(made, aten.mm.default) == 2


@pytest.mark.parametrize(
    "step",
    [
        lambda cell, x, h: torch.tanh(h @ cell.square) * torch.sigmoid(h.tanh() @ cell.other),  # of other rows
        lambda cell, x, h: torch.tanh(h @ cell.square) * (h @ (h.t() @ h)).sum(1, keepdim=True),  # no weight
        lambda cell, x, h: torch.tanh(h @ cell.square) + (x @ cell.kernel[:DEPTH]) * (x @ cell.kernel[4:]),  # before
    ],
)
def test_other_products_are_left_alone(step: Any) -> None:
    made = traced(step, adjoint=False)
    before = targets(made, aten.mm.default)
    unchanged(made, lambda made: rewrite.merge_products(made.graph, made.weights, made.state, made.new_state))
    assert targets(made, aten.mm.default) == before


def test_a_product_that_no_later_step_needs_is_not_merged_into_the_core() -> None:
    made = traced(lambda cell, x, h: torch.tanh(h @ cell.square), adjoint=False)
    output = made.graph.output_node()
    with made.graph.inserting_before(output):
        extra = made.graph.call_function(aten.mm.default, (made.state[0], made.weights[2]))
    extra.meta["val"] = value(calls(made.graph, aten.mm.default)[0])
    groups: Any = output.args[0]
    output.args = (([extra], *groups[1:]),)
    unchanged(made, lambda made: rewrite.merge_products(made.graph, made.weights, made.state, made.new_state))
    assert in_core(made, aten.mm.default) == 1
    assert extra in made.graph.nodes


def test_a_sum_of_products_becomes_one() -> None:
    made = traced(lambda cell, x, h: torch.tanh(h.tanh() @ cell.square + x[:, :1] + h.sigmoid() @ cell.other))
    assert in_core(made, aten.mm.default) == 2
    unchanged(
        made,
        lambda made: (
            rewrite.merge_sums(made.graph, made.weights, made.state, made.new_state),
            rewrite.drop_dead(made.graph),
        ),
    )
    assert in_core(made, aten.mm.default) == 1


def test_a_sum_of_three_products_and_more_becomes_one() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        return h.tanh() @ cell.square + (h.sin() @ cell.other + cell.bias) + h.cos() @ (cell.square * 2) + h

    made = traced(step, adjoint=False)

    def apply(made: Trace) -> None:
        rewrite.merge_sums(made.graph, made.weights, made.state, made.new_state)
        rewrite.drop_dead(made.graph)

    unchanged(made, apply)
    assert in_core(made, aten.mm.default) == 1


@pytest.mark.parametrize(
    "step",
    [
        lambda cell, x, h: (lambda p: (p + h @ cell.other) * p)(h.tanh() @ cell.square),  # one is needed by itself
        lambda cell, x, h: h.tanh() @ cell.square + x @ cell.kernel[:DEPTH],  # one is not carried
        lambda cell, x, h: torch.add(h.tanh() @ cell.square, h @ cell.other, alpha=3),
    ],
)
def test_other_sums_of_products_are_left_alone(step: Any) -> None:
    made = traced(step, adjoint=False)
    before = in_core(made, aten.mm.default)
    unchanged(
        made,
        lambda made: (
            rewrite.merge_sums(made.graph, made.weights, made.state, made.new_state),
            rewrite.drop_dead(made.graph),
        ),
    )
    assert in_core(made, aten.mm.default) == before


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_not_left_in_the_core(dtype: torch.dtype) -> None:
    made = traced(lambda cell, x, h: torch.sigmoid(h) * x[:, :1], dtype)
    assert in_core(made, aten._to_copy.default, adjoint=True) > 0
    # The factor is rounded instead of the product: one rounding of half precision, on numbers of size 1.
    unchanged(
        made,
        lambda made: (rewrite.stay_in_half(made.graph, made.d_new_state), rewrite.drop_dead(made.graph)),
        tolerance=0.03,
    )
    assert in_core(made, aten._to_copy.default, adjoint=True) == 0


def test_float32_computed_on_purpose_stays() -> None:
    made = traced(lambda cell, x, h: (h.float() * h.float().exp()).to(h.dtype), torch.bfloat16, adjoint=False)
    before = targets(made, aten._to_copy.default)
    unchanged(made, lambda made: rewrite.stay_in_half(made.graph, made.state), tolerance=0.03)
    assert targets(made, aten._to_copy.default) == before


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
