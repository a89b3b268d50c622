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


def test_what_is_repeated_is_computed_once() -> None:
    made = unchanged(
        traced(lambda cell, x, h: torch.tanh(h) + torch.tanh(h), adjoint=False),
        lambda made: rewrite.share_repeated(made.graph),
    )
    assert targets(made, aten.tanh.default) == 1


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


def test_the_gradients_of_a_convolution_come_apart() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        return F.conv1d(h.unsqueeze(1), cell.square[:, None, :3], padding=1).mean(1)

    made = unchanged(traced(step), lambda made: rewrite.take_convolutions_apart(made.graph))
    masks = [node.args[-1] for node in calls(made.graph, aten.convolution_backward.default)]
    assert sorted(map(tuple, masks)) == [(False, True, False), (True, False, False)]


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


def test_a_product_that_is_also_needed_whole_is_left_alone() -> None:
    made = traced(lambda cell, x, h: (lambda p: p + p[:, :1])(h @ cell.square), adjoint=False)
    unchanged(made, lambda made: rewrite.narrow_products(made.graph, made.weights))
    assert targets(made, aten.mm.default) == 1


def test_factors_that_are_not_carried_are_multiplied_first() -> None:
    made = traced(lambda cell, x, h: torch.tanh(h) * torch.sigmoid(x[:, :1]) * x[:, 1:2])
    before = in_core(made, aten.mul.Tensor, adjoint=True)
    unchanged(made, lambda made: (rewrite.reassociate(made.graph, made.d_new_state), rewrite.drop_dead(made.graph)))
    assert in_core(made, aten.mul.Tensor, adjoint=True) == 1 < before


@pytest.mark.parametrize(
    "step",
    [lambda cell, x, h: h * h * h, lambda cell, x, h: (h * 2) * 3, lambda cell, x, h: x[:, :1] / (h * x[:, 1:2])],
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
