"""Lightning: training, checkpoints, summaries, averages."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging
from lightning.pytorch.utilities.model_summary import ModelSummary
from torch import Tensor, nn

import unspool
from tests.ecosystem.problem import RATE, Adder, built_adder, check_same_results, check_same_weights, loader, train

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),  # Lightning's use of torch
    pytest.mark.filterwarnings("ignore:The .train_dataloader. does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches .* is smaller than the logging interval"),
]


class Lit(lightning.LightningModule):
    def __init__(self, model: Adder | None = None) -> None:
        super().__init__()
        self.model = Adder() if model is None else model
        x, lengths, _ = next(iter(loader()))
        self.example_input_array = x, lengths
        self.losses: list[float] = []

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.model(x, lengths)

    def training_step(self, batch: Any, _: int) -> Tensor:
        x, lengths, sums = batch
        with unspool.strict():
            loss = nn.functional.mse_loss(self.model(x, lengths), sums)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), RATE)


def trainer(path: Path, epochs: int, *callbacks: Any, **options: Any) -> lightning.Trainer:
    quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
    given = {**quiet, **options, "callbacks": list(callbacks)}
    return lightning.Trainer(max_epochs=epochs, accelerator="cpu", devices=1, default_root_dir=path, **given)


def test_it_trains_as_plain_torch_does(tmp_path: Path) -> None:
    lit, expected = Lit(built_adder()), built_adder()
    trainer(tmp_path, 3).fit(lit, loader())
    losses = train(expected, 3)
    check_same_weights(lit.model, expected)
    assert sum(lit.losses[-4:]) == pytest.approx(losses[-1])
    assert losses[-1] < 0.8 * losses[0]


def test_a_model_whose_weights_are_made_by_its_first_batch_trains(tmp_path: Path) -> None:
    torch.manual_seed(0)
    lit = Lit()
    trainer(tmp_path, 3).fit(lit, loader())
    assert sum(lit.losses[-4:]) < 0.8 * sum(lit.losses[:4])


def test_training_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    lit, expected = Lit(built_adder()), built_adder()
    first = trainer(tmp_path, 1)
    first.fit(lit, loader())
    first.save_checkpoint(tmp_path / "one.ckpt")
    train(expected, 2)
    again = Lit()  # its weights have no shapes yet: the checkpoint gives them
    trainer(tmp_path, 2).fit(again, loader(), ckpt_path=tmp_path / "one.ckpt", weights_only=True)
    check_same_weights(again.model, expected)
    loaded = Lit.load_from_checkpoint(tmp_path / "one.ckpt", weights_only=True)
    check_same_results(loaded.model, lit.model)


def test_the_summary_counts_weights_once_they_are_made() -> None:
    built = ModelSummary(Lit(built_adder()), max_depth=-1)
    assert built.total_parameters == sum(each.numel() for each in built_adder().parameters())
    with_example = ModelSummary(Lit(), max_depth=-1)  # which runs the example, and so makes them
    assert with_example.total_parameters == built.total_parameters
    unbuilt = Lit()
    unbuilt.example_input_array = None
    found = ModelSummary(unbuilt, max_depth=-1)
    with pytest.warns(UserWarning, match=r"may be inaccurate .*UninitializedParameter.*example_input_array"):
        count = found.total_parameters
    assert count < built.total_parameters


def test_weights_are_averaged_from_before_they_are_made(tmp_path: Path) -> None:
    torch.manual_seed(0)
    lit = Lit()
    seen: list[dict[str, Tensor]] = []

    class Watch(lightning.Callback):
        def on_train_batch_end(self, *_: Any) -> None:
            seen.append(copy.deepcopy(lit.model.state_dict()))

    trainer(tmp_path, 1, EMAWeightAveraging(decay=0.5), Watch()).fit(lit, loader())
    average = {name: each.clone() for name, each in seen[0].items()}
    for weights in seen[1:]:
        average = {name: 0.5 * each + 0.5 * weights[name] for name, each in average.items()}
    torch.testing.assert_close(dict(lit.model.state_dict()), average, rtol=1e-5, atol=1e-6)
