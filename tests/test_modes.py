"""Gradients wanted or not, dtypes, layouts and options of a call: none changes what a loop computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import unspool
from tests.cells import Plus1
from tests.comparison import total
from tests.zoo import ZOO, inputs_for
from unspool import GRUCell, dynamic_rnn, static_rnn
from unspool.structure import flatten


def test_inputs_that_do_not_require_grad() -> None:
    cell, inputs = GRUCell(4), torch.randn(2, 5, 3)
    total(dynamic_rnn(cell, inputs, [5, 2], dtype=torch.float32)).backward()
    assert inputs.grad is None
    assert all(weight.grad is not None for weight in cell.parameters())


def test_frozen_weights() -> None:
    cell, inputs = GRUCell(4).requires_grad_(False), torch.randn(2, 5, 3, requires_grad=True)
    total(dynamic_rnn(cell, inputs, [5, 2], dtype=torch.float32)).backward()
    assert inputs.grad is not None
    assert all(weight.grad is None for weight in cell.parameters())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode: Any) -> None:
    cell = GRUCell(4, input_size=3)
    inputs = torch.randn(2, 5, 3)
    with mode():
        outputs, state = dynamic_rnn(cell, inputs, [5, 2], dtype=torch.float32)
    assert not outputs.requires_grad
    assert not state.requires_grad
    with_gradients, _ = dynamic_rnn(cell, inputs, [5, 2], dtype=torch.float32)
    assert torch.equal(outputs, with_gradients)


@pytest.mark.parametrize("name", ZOO)
def test_a_first_call_in_inference_mode_is_planned_as_others_are(name: str) -> None:
    inputs = inputs_for(name, 2, 3, torch.float32)
    torch.manual_seed(0)
    own = ZOO[name]()
    with torch.inference_mode():  # a fallback would warn, which is an error
        first, _ = dynamic_rnn(own, inputs, dtype=torch.float32)
    torch.manual_seed(0)
    own = ZOO[name]()
    with torch.no_grad():
        second, _ = dynamic_rnn(own, inputs, dtype=torch.float32)
    for one, other in zip(flatten(first), flatten(second), strict=True):
        assert one.is_inference()
        assert torch.equal(one, other)


def test_a_cell_built_without_gradients_can_be_trained() -> None:
    cell, inputs = GRUCell(4), torch.randn(2, 5, 3)
    with torch.no_grad():
        dynamic_rnn(cell, inputs, dtype=torch.float32)
    total(dynamic_rnn(cell, inputs, dtype=torch.float32)).backward()
    assert all(weight.grad is not None for weight in cell.parameters())


def test_inputs_that_are_not_contiguous() -> None:
    torch.manual_seed(0)
    cell, base = GRUCell(4, input_size=3), torch.randn(3, 10, 4)
    strided = base.transpose(0, 2)[::2, ::2]  # [2, 5, 3]
    assert not strided.is_contiguous()
    one = dynamic_rnn(cell, strided, [5, 2], dtype=torch.float32)
    other = dynamic_rnn(cell, strided.contiguous(), [5, 2], dtype=torch.float32)
    torch.testing.assert_close(one, other, rtol=0, atol=0)
    expanded = torch.randn(2, 1, 3).expand(2, 5, 3)
    dynamic_rnn(cell, expanded, [5, 2], dtype=torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", [name for name in ZOO if name != "gru-initializers"])  # no orthogonal_ in half
def test_half_precision(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    cell = ZOO[name]()
    inputs = inputs_for(name, 3, 5, dtype=torch.float32)
    exact, _ = dynamic_rnn(cell, inputs, [5, 0, 2], dtype=torch.float32)
    low = torch.utils._pytree.tree_map(lambda leaf: leaf.to(dtype) if leaf.is_floating_point() else leaf, inputs)
    outputs, state = dynamic_rnn(cell.to(dtype), low, [5, 0, 2], dtype=dtype)
    total(outputs).backward()
    assert all(leaf.dtype == dtype for leaf in [*flatten(outputs), *flatten(state)])
    assert all(weight.grad.dtype == dtype for weight in cell.parameters() if weight.grad is not None)
    # A few steps of rounding, each to half a unit in the last place: eps is 1e-3 in float16, 8e-3 in bfloat16.
    bound = 16 * torch.finfo(dtype).eps
    for leaf, right in zip(flatten(outputs), flatten(exact), strict=True):
        torch.testing.assert_close(leaf.float(), right, rtol=bound, atol=bound)


@pytest.mark.parametrize("name", ["basic_rnn", "gru", "lstm", "lstm-projection", "stack"])
def test_autocast_computes_low_and_carries_high(name: str) -> None:
    torch.manual_seed(0)
    cell = ZOO[name]()
    inputs = inputs_for(name, 3, 5, dtype=torch.float32)
    exact, _ = dynamic_rnn(cell, inputs, [5, 0, 2], dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        outputs, state = dynamic_rnn(cell, inputs, [5, 0, 2], dtype=torch.float32)
    assert all(leaf.dtype == torch.float32 for leaf in [*flatten(outputs), *flatten(state)])
    assert not torch.equal(outputs, exact)
    torch.testing.assert_close(outputs, exact, rtol=0.1, atol=0.1)  # products rounded to 8 bits at every step


def test_complex_numbers_run() -> None:
    inputs = torch.randn(2, 3, 3, dtype=torch.complex64)
    outputs, _ = dynamic_rnn(unspool.BasicRNNCell(4), inputs, [3, 1], dtype=torch.complex64)
    assert outputs.dtype == torch.complex64
    assert not outputs[1, 1:].any()


def test_results_do_not_depend_on_parallel_iterations_or_swap_memory() -> None:
    cell, inputs = GRUCell(4), torch.randn(2, 5, 3)
    expected, _ = dynamic_rnn(cell, inputs, [5, 2], dtype=torch.float32)
    for iterations in (None, 0, 1, 2, 1000):
        outputs, _ = dynamic_rnn(cell, inputs, [5, 2], None, torch.float32, iterations, swap_memory=True)
        assert torch.equal(outputs, expected)


def test_the_scope_names_a_profiler_range() -> None:
    with torch.profiler.profile(acc_events=True) as profile:
        dynamic_rnn(Plus1(3), torch.zeros(2, 2, 3), dtype=torch.float32, scope="encoder")
        dynamic_rnn(Plus1(3), torch.zeros(2, 2, 3), dtype=torch.float32)
    names = {event.name for event in profile.events() or []}
    assert {"encoder", "rnn"} <= names


@pytest.mark.parametrize("lengths", [None, [4, 2]], ids=["full", "lengths"])
def test_one_tensor_in_several_places_of_a_state(lengths: Any) -> None:
    """A cell may return the same tensor twice, and its old state or its inputs as they are."""

    class Twice(unspool.RNNCell):
        def __init__(self) -> None:
            super().__init__()
            self.state_size, self.output_size = (3, 3, 3, 3), (3, 3)

        def forward(self, x: Tensor, state: Any) -> Any:
            h = torch.tanh(x + state[0] * state[3])
            return (h, state[1]), (h, h, state[2], x)

    inputs = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    state = tuple(torch.randn(2, 3, dtype=torch.float64, requires_grad=True) for _ in range(4))

    def gradients(outputs: Any, final: Any) -> tuple[Tensor, ...]:
        leaves = [*outputs, *final]
        loss = torch.stack([(leaf * (k + 1)).sin().sum() for k, leaf in enumerate(leaves)]).sum()
        return torch.autograd.grad(loss, [inputs, *state])

    found = dynamic_rnn(Twice(), inputs, lengths, state)
    listed, final = static_rnn(Twice(), list(inputs.unbind(1)), state, sequence_length=lengths)
    expected = (tuple(torch.stack(column, 1) for column in zip(*listed, strict=True)), final)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradients(*found), gradients(*expected), rtol=0, atol=1e-12)


def test_a_weight_whose_gradient_is_zero() -> None:
    """`sign` has the gradient zero everywhere, which is no sum over rows but a constant."""

    class Signs(unspool.RNNCell):
        def __init__(self) -> None:
            super().__init__()
            self.state_size = self.output_size = 3
            self.weight = torch.nn.Parameter(torch.randn(3, 3))
            self.scale = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor, h: Tensor) -> Any:
            h = torch.tanh(x + h @ self.weight.sign()) * self.scale
            return h, h

    cell = Signs()
    dynamic_rnn(cell, torch.randn(2, 4, 3), dtype=torch.float32)[0].sum().backward()
    assert cell.weight.grad is not None
    assert cell.scale.grad is not None
    assert not cell.weight.grad.any()
    assert cell.scale.grad.any()
