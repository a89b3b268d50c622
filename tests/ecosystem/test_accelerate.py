"""accelerate: training, its states, models without memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
from torch import nn

import unspool
from tests.ecosystem.problem import (
    DEPTH,
    RATE,
    UNITS,
    Adder,
    built_adder,
    check_same_results,
    check_same_weights,
    loader,
    train,
)


def train_with(
    accelerator: accelerate.Accelerator, model: Any, optimizer: Any, batches: Any, epochs: int
) -> list[float]:
    losses: list[float] = []
    for _ in range(epochs):
        losses.append(0.0)
        for x, lengths, sums in batches:
            with accelerator.accumulate(model):
                optimizer.zero_grad()
                with unspool.strict():
                    loss = nn.functional.mse_loss(model(x, lengths), sums)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1e9)
                optimizer.step()
            losses[-1] += loss.item()
    return losses


def prepared(model: nn.Module) -> tuple[Any, Any, Any, Any]:
    accelerator = accelerate.Accelerator(cpu=True)
    return accelerator, *accelerator.prepare(model, torch.optim.Adam(model.parameters(), RATE), loader())


def test_it_trains_as_plain_torch_does() -> None:
    accelerator, model, optimizer, batches = prepared(built_adder())
    expected = built_adder()
    losses = train_with(accelerator, model, optimizer, batches, 3)
    assert losses == pytest.approx(train(expected, 3))
    assert losses[-1] < 0.8 * losses[0]
    check_same_weights(accelerator.unwrap_model(model), expected)


def test_a_model_whose_weights_are_made_by_its_first_batch_trains() -> None:
    torch.manual_seed(0)
    losses = train_with(*prepared(Adder()), 3)
    assert losses[-1] < 0.8 * losses[0]


def test_training_goes_on_from_a_saved_state(tmp_path: Path) -> None:
    accelerator, model, optimizer, batches = prepared(built_adder())
    train_with(accelerator, model, optimizer, batches, 1)
    accelerator.save_state(str(tmp_path))
    expected = built_adder()
    train(expected, 2)
    accelerator, model, optimizer, batches = prepared(Adder())  # its weights have no shapes yet
    accelerator.load_state(str(tmp_path))
    train_with(accelerator, model, optimizer, batches, 1)
    check_same_weights(accelerator.unwrap_model(model), expected)


class Built(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = unspool.RNN(unspool.LSTMCell(UNITS, input_size=DEPTH), initial_state="learned")
        self.top = nn.Linear(UNITS, 1)

    forward = Adder.forward


def test_a_model_made_without_memory_is_loaded_from_a_file(tmp_path: Path) -> None:
    expected = built_adder()
    accelerate.Accelerator(cpu=True).save_model(expected, str(tmp_path))
    with accelerate.init_empty_weights():
        model = Built()
    assert all(weight.is_meta for weight in model.parameters())
    model = accelerate.load_checkpoint_and_dispatch(model, str(tmp_path), device_map={"": "cpu"})
    check_same_results(model, expected)


def test_a_model_without_memory_or_shapes_says_what_to_do(tmp_path: Path) -> None:
    accelerate.Accelerator(cpu=True).save_model(built_adder(), str(tmp_path))
    with accelerate.init_empty_weights():
        model = Adder()
    with pytest.raises(RuntimeError, match=r"a weight that has none yet: .*Give the cell its input_size"):
        accelerate.load_checkpoint_and_dispatch(model, str(tmp_path), device_map={"": "cpu"})
    with pytest.raises(ValueError, match=r"of a weight that has no shape yet: .*Give the cell its input_size"):
        accelerate.infer_auto_device_map(Adder())
