"""Gradients: of every cell with every option, numerically, and loop against loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import unspool
from tests.zoo import ZOO, inputs_for
from unspool import bidirectional_dynamic_rnn, dynamic_rnn, static_rnn
from unspool.structure import flatten, map_structure, unflatten_as


@pytest.mark.parametrize("lengths", [None, [3, 0, 1]], ids=["full", "lengths"])
@pytest.mark.parametrize("name", ZOO)
def test_gradcheck(name: str, lengths: Any) -> None:
    """Inputs, initial states and every weight, against finite differences in float64; lengths include 0 and T."""
    torch.manual_seed(0)
    cell, inputs = ZOO[name]().double(), inputs_for(name, 3, 3)
    state = map_structure(torch.randn_like, cell.zero_state(3, torch.float64))
    cell(map_structure(lambda leaf: leaf[:, 0], inputs), state)  # builds the cell
    weights = dict(cell.named_parameters())

    values = [*flatten(inputs), *flatten(state), *weights.values()]
    variables = [value.detach().clone().requires_grad_(value.is_floating_point()) for value in values]

    def run(*variables: Tensor) -> tuple[Tensor, ...]:
        rest = list(variables)
        x = unflatten_as(inputs, [rest.pop(0) for _ in flatten(inputs)])
        start = unflatten_as(state, [rest.pop(0) for _ in flatten(state)])
        outputs, final = torch.func.functional_call(_Loop(cell, lengths), _below_cell(weights, rest), (x, start))
        return (*flatten(outputs), *flatten(final))

    # Central differences with eps 1e-6 on functions of size 1 are good to about 1e-9; the default atol leaves room.
    assert torch.autograd.gradcheck(run, variables)


class _Loop(torch.nn.Module):
    def __init__(self, cell: Any, lengths: Any) -> None:
        super().__init__()
        self.cell, self.lengths = cell, lengths

    def forward(self, inputs: Any, state: Any) -> Any:
        return dynamic_rnn(self.cell, inputs, self.lengths, state)


def _below_cell(weights: dict[str, Tensor], values: list[Tensor]) -> dict[str, Tensor]:
    return {f"cell.{name}": value for name, value in zip(weights, values, strict=True)}


@pytest.mark.parametrize("name", ZOO)
def test_dynamic_rnn_equals_static_rnn_with_every_gradient(name: str) -> None:
    torch.manual_seed(1)
    cell, lengths = ZOO[name]().double(), [4, 0, 2, 1]
    inputs = inputs_for(name, 4, 4)
    for leaf in flatten(inputs):
        leaf.requires_grad_(leaf.is_floating_point())
    state = map_structure(lambda leaf: torch.randn_like(leaf).requires_grad_(), cell.zero_state(4, torch.float64))
    dynamic_rnn(cell, inputs, lengths, state)

    def gradients(outputs: Any, final: Any) -> list[Tensor]:
        loss = sum((leaf * leaf.detach().cos()).sum() for leaf in [*flatten(outputs), *flatten(final)])
        sources = [leaf for leaf in [*flatten(inputs), *flatten(state), *cell.parameters()] if leaf.requires_grad]
        assert isinstance(loss, Tensor)
        return list(torch.autograd.grad(loss, sources))

    outputs, final = dynamic_rnn(cell, inputs, lengths, state)
    steps = [map_structure(lambda leaf, t=t: leaf[:, t], inputs) for t in range(4)]
    listed, static_final = static_rnn(cell, steps, state, sequence_length=lengths)
    columns = zip(*map(flatten, listed), strict=True)
    stacked = unflatten_as(outputs, [torch.stack(column, 1) for column in columns])
    # The two loops call the same cell on the same rows; only summation order may differ.
    torch.testing.assert_close(outputs, stacked, rtol=0, atol=1e-12)
    torch.testing.assert_close(final, static_final, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradients(outputs, final), gradients(stacked, static_final), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ZOO)
def test_padding_has_no_influence_and_gets_no_gradient(name: str) -> None:
    """Not even NaN: a finished row is not computed, so gradients past its length are exactly zero."""
    torch.manual_seed(2)
    cell, lengths = ZOO[name]().double(), [4, 0, 2, 1]
    clean = inputs_for(name, 4, 4)
    dynamic_rnn(cell, clean, lengths, dtype=torch.float64)
    padding = torch.arange(4) >= torch.tensor(lengths)[:, None]

    def run(inputs: Any) -> tuple[Any, Any, list[Tensor], list[Tensor]]:
        leaves = [leaf.requires_grad_() for leaf in flatten(inputs) if leaf.is_floating_point()]
        outputs, state = dynamic_rnn(cell, inputs, lengths, dtype=torch.float64)
        total = [leaf.sin().sum() for leaf in [*flatten(outputs), *flatten(state)]]
        gradients = torch.autograd.grad(sum(total[1:], total[0]), [*leaves, *cell.parameters()])
        return outputs, state, list(gradients[: len(leaves)]), list(gradients[len(leaves) :])

    def poisoned(leaf: Tensor) -> Tensor:
        if not leaf.is_floating_point():
            return leaf.masked_fill(padding[..., None], 10**6)  # an id that would fail if it were looked up
        mask = padding.reshape(4, 4, *[1] * (leaf.dim() - 2))
        return (
            leaf.detach()
            .masked_fill(mask, float("nan"))
            .masked_fill(mask & (torch.rand_like(leaf) < 0.5), float("inf"))
        )

    outputs, state, dx, dw = run(map_structure(lambda leaf: leaf.clone(), clean))
    bad_outputs, bad_state, bad_dx, bad_dw = run(map_structure(poisoned, clean))
    torch.testing.assert_close((bad_outputs, bad_state, bad_dx, bad_dw), (outputs, state, dx, dw), rtol=0, atol=0)
    for leaf in flatten(outputs):
        assert not leaf[padding].any()
    for gradient in bad_dx:
        assert not gradient[padding].any()


def test_a_row_of_length_zero_passes_the_gradient_of_its_state_through() -> None:
    cell = ZOO["lstm"]().double()
    state = map_structure(lambda leaf: torch.randn_like(leaf).requires_grad_(), cell.zero_state(2, torch.float64))
    outputs, final = dynamic_rnn(cell, inputs_for("lstm", 2, 3), [0, 3], state)
    of_state = torch.autograd.grad(final.c[0].sum() + final.h[0].sum(), list(state), retain_graph=True)
    of_outputs = torch.autograd.grad(outputs[0].sum(), list(state))
    for through, none in zip(of_state, of_outputs, strict=True):
        assert torch.equal(through[0], torch.ones(4, dtype=torch.float64))
        assert not none.any()
    assert torch.equal(final.c[0], state.c[0])


def test_the_gradient_of_a_final_state_goes_to_the_last_step_of_its_row() -> None:
    cell, inputs = ZOO["gru"]().double(), inputs_for("gru", 2, 4).requires_grad_()
    _, state = dynamic_rnn(cell, inputs, [2, 4], dtype=torch.float64)
    (gradient,) = torch.autograd.grad(state[0].sum(), inputs)
    assert gradient[0, 1].all()
    assert not gradient[0, 2:].any()
    assert not gradient[1].any()


def test_gradients_through_the_backward_cell_of_a_bidirectional_loop_stay_out_of_the_padding() -> None:
    torch.manual_seed(3)
    fw, bw = ZOO["gru"]().double(), ZOO["lstm"]().double()
    inputs = inputs_for("gru", 2, 4)
    inputs[0, 2:] = float("nan")
    inputs.requires_grad_()
    outputs, states = bidirectional_dynamic_rnn(fw, bw, inputs, [2, 4], dtype=torch.float64)
    loss = sum(leaf.sum() for leaf in flatten((outputs, states)))
    gradients = torch.autograd.grad(loss, [inputs, *fw.parameters(), *bw.parameters()])  # pyright: ignore[reportArgumentType]
    assert not gradients[0][0, 2:].any()
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_double_backward() -> None:
    torch.manual_seed(4)
    cell = ZOO["lstm-projection"]().double()
    inputs = inputs_for("lstm-projection", 2, 3).requires_grad_()

    def run(inputs: Tensor) -> Tensor:
        return dynamic_rnn(cell, inputs, [3, 1], dtype=torch.float64)[0]

    run(inputs)
    assert torch.autograd.gradgradcheck(run, (inputs,))


def test_gradients_of_gradients_refuse_a_cell_that_has_changed_since() -> None:
    """They run the step again: with another number in it, they would be those of another loop."""

    class Scaled(unspool.RNNCell):
        state_size = output_size = 3

        def __init__(self) -> None:
            super().__init__()
            self.scale = 0.5

        def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = torch.tanh(x + self.scale * h)
            return h, h

    cell, inputs = Scaled(), torch.randn(2, 4, 3, requires_grad=True)
    outputs, _ = unspool.dynamic_rnn(cell, inputs, dtype=torch.float32)
    cell.scale = 0.7
    with pytest.raises(RuntimeError, match=r"Scaled has changed since the loop ran \(scale\), .*create_graph"):
        torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
    cell.scale = 0.5
    outputs, _ = unspool.dynamic_rnn(cell, inputs, dtype=torch.float32)
    cell.note = "read by nobody"
    (gradient,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
    assert gradient.requires_grad
