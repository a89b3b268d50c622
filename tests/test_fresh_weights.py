"""`reset_parameters`: weights drawn anew, in place, as they were drawn when they were made."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import unspool
from tests.zoo import DEPTH, ZOO, inputs_for
from unspool import GRUCell, LSTMCell, gallery

LAZY = [name for name in ZOO if name != "nested"]  # the one cell of the zoo that is built by its constructor
GALLERY = {"LayerNormLSTMCell": (3, 4), "LMUCell": (3, 4), "IndRNNCell": (3, 4), "ConvLSTMCell": (2, 3, (4, 4))}


def built(name: str) -> Any:
    cell = ZOO[name]()
    cell.build(inputs_for(name, 1, 1).shape[2], dtype=torch.float64)
    return cell


@pytest.mark.parametrize("name", LAZY)
def test_every_built_in_cell_draws_its_weights_again(name: str) -> None:
    cell = built(name)
    weights = dict(cell.named_parameters())
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    constant = {name for name, weight in weights.items() if weight.unique().numel() == 1}
    cell.reset_parameters()
    for name, weight in cell.named_parameters():
        assert weight is weights[name]
        assert weight.dtype == torch.float64
        assert torch.equal(weight, before[name]) == (name in constant)


@pytest.mark.parametrize("name", [name for name in ZOO if name.startswith(("basic_rnn", "gru", "basic_lstm", "lstm"))])
def test_they_are_drawn_as_those_of_a_new_cell_are(name: str) -> None:
    cell = built(name)
    torch.manual_seed(3)
    expected = ZOO[name]()
    expected.build(DEPTH, dtype=torch.float64)
    torch.manual_seed(3)
    cell.reset_parameters()
    for one, other in zip(cell.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("name", GALLERY)
def test_cells_that_keep_their_arguments_are_made_again(name: str) -> None:
    make = getattr(gallery, name)
    cell = make(*GALLERY[name])
    torch.manual_seed(3)
    expected = make(*GALLERY[name])
    torch.manual_seed(3)
    cell.reset_parameters()
    for one, other in zip(cell.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_weights_that_are_not_made_yet_are_left_to_be_drawn() -> None:
    cell = LSTMCell(4)
    cell.reset_parameters()
    assert not cell.built


def test_steps_of_modules_draw_as_torchs_modules_do() -> None:
    for cell in (unspool.cell(nn.GRUCell(3, 4)), unspool.cell(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4)))):
        before = [weight.detach().clone() for weight in cell.parameters()]
        cell.reset_parameters()
        assert not any(torch.equal(one, other) for one, other in zip(before, cell.parameters(), strict=True))


def test_a_cell_that_nobody_can_make_again_says_what_to_do() -> None:
    class Secret(unspool.RNNCell):
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.full((2,), scale))

    with pytest.raises(NotImplementedError, match=r"Secret does not say how its weights are drawn: .*'scale'"):
        Secret(2.0).reset_parameters()


def test_a_model_made_without_memory_is_filled_where_it_will_be() -> None:
    with torch.device("meta"):
        cell = GRUCell(4, input_size=3)
        stack = unspool.MultiRNNCell([LSTMCell(2, input_size=3), GRUCell(2, input_size=2)])
    assert all(weight.is_meta for weight in (*cell.parameters(), *stack.parameters()))
    for each in (cell, stack):
        each.to_empty(device="cpu")
        each.reset_parameters()
        assert all(bool(weight.isfinite().all()) and not weight.is_meta for weight in each.parameters())
    torch.testing.assert_close(cell.gates_bias.detach(), torch.ones(8))
    outputs, _ = unspool.dynamic_rnn(stack, torch.randn(2, 3, 3))
    assert outputs.device.type == "cpu"
