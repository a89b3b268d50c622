"""safetensors: weights in files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import nn

from tests.ecosystem.problem import DEPTH, Adder, built_adder, check_same_results, check_same_weights, train
from unspool import RNN, GRUCell, LSTMCell, Stack

X = torch.randn(3, 5, DEPTH)


def test_a_model_comes_back_into_one_whose_weights_are_not_made(tmp_path: Path) -> None:
    trained = built_adder()
    train(trained, 1)
    save_model(trained, str(tmp_path / "adder"))
    model = Adder()
    assert load_model(model, str(tmp_path / "adder")) == (set(), [])
    check_same_results(model, trained)
    check_same_weights(model, trained)


def test_a_state_dict_comes_back(tmp_path: Path) -> None:
    stack = Stack([LSTMCell(4), GRUCell(3)], bidirectional=True, initial_state="learned")
    expected, _ = stack(X)
    save_file(stack.state_dict(), tmp_path / "stack")
    again = Stack([LSTMCell(4), GRUCell(3)], bidirectional=True, initial_state="learned")
    again.load_state_dict(load_file(tmp_path / "stack"))
    torch.testing.assert_close(again(X)[0], expected, rtol=0, atol=0)


def test_a_cell_in_two_layers_is_saved_once(tmp_path: Path) -> None:
    def make() -> nn.ModuleList:
        cell = GRUCell(4)
        layers = nn.ModuleList([RNN(cell), RNN(cell)])
        RNN(cell).materialize(X)  # so that the two can be seen to share their weights
        return layers

    layers, again = make(), make()
    save_model(layers, str(tmp_path / "layers"))
    assert len(load_file(tmp_path / "layers")) == 4
    load_model(again, str(tmp_path / "layers"))
    torch.testing.assert_close(again[1](X)[0], layers[0](X)[0], rtol=0, atol=0)


def test_weights_that_are_not_made_say_what_to_do(tmp_path: Path) -> None:
    for save in (save_model, lambda model, path: save_file(model.state_dict(), path)):
        with pytest.raises(ValueError, match=r"of a weight that has no shape yet: .*RNN\(cell\)\.materialize\(x\)"):
            save(Adder(), str(tmp_path / "adder"))
    assert not (tmp_path / "adder").exists()
