"""Rewrites that let work leave the loop: what each changes, and what it must leave alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.rewriting import UNITS, in_core, targets, traced, unchanged
from unspool.engine.trace.graph import ancestors, aten, calls, descendants, value
from unspool.engine.trace.rewrites import canonicalize, cleanup, convolutions, hoist, simplify
from unspool.engine.trace.trace import Trace


def test_the_mask_of_a_dropout_is_drawn_by_itself() -> None:
    made = unchanged(
        traced(lambda cell, x, h: F.dropout(torch.tanh(h), 0.4)), lambda made: hoist.take_dropout_apart(made.graph)
    )
    canonicalize.name_sizes(made.graph, made.rows)
    (drawn,) = calls(made.graph, aten.native_dropout.default)
    assert not ancestors([drawn]) & {*made.state, *made.inputs}


def test_a_dropout_that_drops_nothing_is_left_alone() -> None:
    made = traced(lambda cell, x, h: torch.native_dropout(h, 0.4, False)[0], adjoint=False)
    before = [node.name for node in made.graph.nodes]
    hoist.take_dropout_apart(made.graph)
    assert [node.name for node in made.graph.nodes] == before


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_dropout_of_nothing_or_everything_is_left_alone(rate: float) -> None:
    """The scale of what is kept would be 1/0 for the latter."""
    made = traced(lambda cell, x, h: torch.native_dropout(h, rate, True)[0], adjoint=False)
    before = [node.name for node in made.graph.nodes]
    unchanged(made, lambda made: hoist.take_dropout_apart(made.graph))
    assert [node.name for node in made.graph.nodes] == before


def test_the_gradients_of_a_convolution_come_apart() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        return F.conv1d(h.unsqueeze(1), cell.square[:, None, :3], padding=1).mean(1)

    made = unchanged(traced(step), lambda made: convolutions.take_convolutions_apart(made.graph))
    masks = [node.args[-1] for node in calls(made.graph, aten.convolution_backward.default)]
    assert masks == [[False, True, False]]
    assert [node.args[6] for node in calls(made.graph, aten.convolution.default)] == [False, True]


def test_one_gradient_of_a_convolution_stays_one() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        return F.conv1d(h.unsqueeze(1), torch.ones(2, 1, 3, dtype=h.dtype), padding=1).mean(1)

    made = unchanged(traced(step), lambda made: convolutions.take_convolutions_apart(made.graph))
    assert targets(made, aten.convolution_backward.default) == 0
    assert targets(made, aten.convolution.default) == 2


def joint(cell: Any, x: Tensor, h: Tensor, **options: Any) -> Tensor:
    """A convolution of images of x and h together: of 3 pixels with 1 channel, and of 1 pixel with 4 channels."""
    images = torch.cat([x.unsqueeze(1), h.unsqueeze(2).expand(-1, -1, 3)], 1)
    filters = cell.kernel[: 1 + UNITS].t().unsqueeze(2) * cell.bias[:3]
    return F.conv1d(images, filters, cell.bias, **options).mean(2)


def split_convolutions(made: Trace) -> None:
    convolutions.take_convolutions_apart(made.graph)
    convolutions.split_concat_convolutions(made.graph, made.weights, [*made.state, *made.d_new_state])


def test_a_concatenation_is_convolved_in_two_parts() -> None:
    made = unchanged(traced(lambda cell, x, h: joint(cell, x, h, padding=1)), split_convolutions)
    found = [node for node in calls(made.graph, aten.convolution.default) if node in ancestors(made.outputs)]
    dependent = descendants(made.graph, made.state)
    assert [node in dependent for node in found] == [False, True]
    assert [node.args[2] is not None for node in found] == [True, False]  # the bias is added once


def test_what_sees_only_some_channels_stays_whole() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        images = torch.cat([x[:, :2], h[:, :2]], 1).unsqueeze(2)
        return F.conv1d(images, cell.square[:, :2, None], groups=2).squeeze(2)

    made = traced(step, adjoint=False)
    unchanged(made, split_convolutions)
    assert targets(made, aten.convolution.default) == 1


def narrowed(made: Trace) -> None:
    split_convolutions(made)
    cleanup.drop_dead(made.graph)
    convolutions.narrow_convolutions(made.graph, made.weights, [*made.new_state, *made.d_state])


def test_the_gradient_of_a_convolved_concatenation_comes_apart() -> None:
    """The loop needs that of h, and that of x can wait."""
    made = unchanged(traced(lambda cell, x, h: joint(cell, x, h)), narrowed)
    found = [node for node in calls(made.graph, aten.convolution.default) if node.args[6]]
    assert [value(node).shape[1] for node in found] == [1, UNITS]
    (in_loop,) = [node for node in found if node in ancestors(made.d_state)]
    assert value(in_loop).shape[1] == UNITS


def test_gradients_that_the_loop_needs_stay_together() -> None:
    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        images = torch.cat([h, h.tanh()], 1).unsqueeze(2)
        return F.conv1d(images, torch.cat([cell.square, cell.other], 1).unsqueeze(2)).squeeze(2)

    made = unchanged(traced(step), narrowed)
    assert len([node for node in calls(made.graph, aten.convolution.default) if node.args[6]]) == 1


def test_a_concatenation_is_multiplied_in_two_parts() -> None:
    made = traced(lambda cell, x, h: torch.tanh(torch.cat([x, h], 1) @ cell.kernel))
    made = unchanged(made, lambda made: hoist.split_concat_products(made.graph, made.weights, made.state))
    products = [node for node in calls(made.graph, aten.mm.default) if node in ancestors(made.outputs)]
    dependent = descendants(made.graph, made.state)
    assert [node in dependent for node in products] == [False, True]


def test_neighbours_of_a_concatenation_stay_together() -> None:
    made = traced(
        lambda cell, x, h: torch.cat([x[:, :1], x[:, 1:2], h.tanh(), h[:, :1]], 1) @ cell.kernel, adjoint=False
    )
    unchanged(made, lambda made: hoist.split_concat_products(made.graph, made.weights, made.state))
    assert [value(node.args[0]).shape[1] for node in calls(made.graph, aten.mm.default)] == [2, UNITS + 1]


def test_a_concatenation_times_what_is_no_weight_stays_whole() -> None:
    made = traced(lambda cell, x, h: torch.cat([x, h], 1) @ (torch.cat([x, h], 1).t() @ h), adjoint=False)
    unchanged(made, lambda made: hoist.split_concat_products(made.graph, made.weights, made.state))
    assert targets(made, aten.mm.default) == 2


def test_a_concatenation_with_the_old_kind_of_nothing() -> None:
    """`cat` still takes an empty vector for nothing beside matrices."""
    made = traced(lambda cell, x, h: torch.cat([torch.empty(0, dtype=h.dtype), h], 1) @ cell.square, adjoint=False)
    unchanged(made, lambda made: hoist.split_concat_products(made.graph, made.weights, made.state))


def test_a_concatenation_of_states_alone_stays_whole() -> None:
    made = traced(lambda cell, x, h: torch.cat([h[:, :3], h], 1) @ cell.kernel)
    before = targets(made, aten.mm.default)
    unchanged(made, lambda made: hoist.split_concat_products(made.graph, made.weights, made.state))
    assert targets(made, aten.mm.default) == before


def test_a_concatenation_of_rows_is_no_concatenation_of_columns() -> None:
    made = traced(lambda cell, x, h: (torch.cat([x[:, :1].t(), h.t()], 0).t() @ cell.kernel[: UNITS + 1]).tanh())
    before = targets(made, aten.mm.default)
    unchanged(made, lambda made: hoist.split_concat_products(made.graph, made.weights, made.state))
    assert targets(made, aten.mm.default) == before


def test_a_slice_of_a_product_is_a_product_with_a_slice() -> None:
    made = traced(lambda cell, x, h: torch.tanh(torch.cat([x, h], 1) @ cell.kernel))
    assert in_core(made, aten.mm.default, adjoint=True) == 1

    def apply(made: Trace) -> None:
        cleanup.drop_identities(made.graph)
        hoist.narrow_products(made.graph, made.weights)

    unchanged(made, apply)
    (product,) = [
        node
        for node in calls(made.graph, aten.mm.default)
        if node in ancestors(made.d_state) and node in descendants(made.graph, made.d_new_state)
    ]
    assert value(product).shape[1] == UNITS  # and no longer the gradient of x beside it


def test_the_gradient_of_an_input_leaves_a_product_that_is_sliced_twice() -> None:
    """As where a cell around a cell joins the input with something, and the cell joins that with its state."""

    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(torch.cat([torch.cat([x, h[:, :2]], 1), h[:, 2:]], 1) @ cell.kernel)

    made = unchanged(traced(step), simplify, tolerance=1e-11)
    products = [
        node
        for node in calls(made.graph, aten.mm.default)
        if node in ancestors(made.d_state) and node in descendants(made.graph, made.d_new_state)
    ]
    assert sum(value(product).shape[1] for product in products) == UNITS


def test_slices_of_a_product_that_overlap_are_left_alone() -> None:
    made = traced(
        lambda cell, x, h: (lambda p: p[:, :3].sum(1, keepdim=True) + p[:, 1:4].sum(1, keepdim=True) + h)(
            h @ cell.square
        )
    )
    before = [value(node).shape[1] for node in calls(made.graph, aten.mm.default) if node in ancestors(made.outputs)]
    unchanged(made, lambda made: hoist.narrow_products(made.graph, made.weights))
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
    cleanup.drop_identities(made.graph)
    unchanged(made, lambda made: hoist.narrow_products(made.graph, made.weights))
    (product,) = calls(made.graph, aten.mm.default)
    assert value(product).shape[1] == UNITS


def test_a_product_of_rows_with_rows_is_left_alone() -> None:
    made = traced(lambda cell, x, h: (h.t() @ h)[:, :2].sum() + (h.t() @ h)[:, 2:].sum() + h, adjoint=False)
    cleanup.share_repeated(made.graph)
    before = targets(made, aten.mm.default)
    unchanged(made, lambda made: hoist.narrow_products(made.graph, made.weights))
    assert targets(made, aten.mm.default) == before == 1


def test_a_product_that_is_also_needed_whole_is_left_alone() -> None:
    made = traced(lambda cell, x, h: (lambda p: p + p[:, :1])(h @ cell.square), adjoint=False)
    unchanged(made, lambda made: hoist.narrow_products(made.graph, made.weights))
    assert targets(made, aten.mm.default) == 1


def test_factors_that_are_not_carried_are_multiplied_first() -> None:
    made = traced(lambda cell, x, h: torch.tanh(h) * torch.sigmoid(x[:, :1]) * x[:, 1:2])
    before = in_core(made, aten.mul.Tensor, adjoint=True)
    unchanged(made, lambda made: (hoist.reassociate(made.graph, made.d_new_state), cleanup.drop_dead(made.graph)))
    assert in_core(made, aten.mul.Tensor, adjoint=True) == 1 < before


def test_a_divisor_that_is_not_carried_divides_first() -> None:
    made = traced(lambda cell, x, h: (x[:, :1] * h) / (1 + x[:, 1:2] ** 2), adjoint=False)
    assert (in_core(made, aten.mul.Tensor), in_core(made, aten.div.Tensor)) == (1, 1)
    unchanged(made, lambda made: (hoist.reassociate(made.graph, made.state), cleanup.drop_dead(made.graph)))
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
    unchanged(made, lambda made: hoist.reassociate(made.graph, made.state))
    assert [str(node.args) for node in calls(made.graph)] == before


def test_a_factor_of_another_dtype_is_not_moved() -> None:
    """In float64 the product would not be rounded in between."""
    made = traced(lambda cell, x, h: (h.float() * x[:, :1].float()).double() * x[:, 1:2], adjoint=False)
    before = targets(made, aten.mul.Tensor)
    unchanged(made, lambda made: hoist.reassociate(made.graph, made.state))
    assert targets(made, aten.mul.Tensor) == before


def test_terms_that_are_not_carried_are_added_first() -> None:
    made = traced(lambda cell, x, h: (x[:, :1] + h) + cell.bias)
    assert in_core(made, aten.add.Tensor) == 2
    unchanged(made, lambda made: (hoist.sum_apart(made.graph, made.state), cleanup.drop_dead(made.graph)))
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
    unchanged(traced(step, adjoint=False), lambda made: hoist.sum_apart(made.graph, made.state))


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
    unchanged(made, lambda made: (hoist.sum_apart(made.graph, made.state), cleanup.drop_dead(made.graph)))
    assert in_core(made, aten.add.Tensor) == before


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_not_left_in_the_core(dtype: torch.dtype) -> None:
    made = traced(lambda cell, x, h: torch.sigmoid(h) * x[:, :1], dtype)
    assert in_core(made, aten._to_copy.default, adjoint=True) > 0
    # The factor is rounded instead of the product: one rounding of half precision, on numbers of size 1.
    unchanged(
        made,
        lambda made: (hoist.stay_in_half(made.graph, made.d_new_state), cleanup.drop_dead(made.graph)),
        tolerance=0.03,
    )
    assert in_core(made, aten._to_copy.default, adjoint=True) == 0


def test_float32_computed_on_purpose_stays() -> None:
    made = traced(lambda cell, x, h: (h.float() * h.float().exp()).to(h.dtype), torch.bfloat16, adjoint=False)
    before = targets(made, aten._to_copy.default)
    unchanged(made, lambda made: hoist.stay_in_half(made.graph, made.state), tolerance=0.03)
    assert targets(made, aten._to_copy.default) == before
