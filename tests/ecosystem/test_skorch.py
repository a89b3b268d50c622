"""skorch: a model as an estimator of scikit-learn's."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetRegressor
from skorch.helper import SliceDict

from tests.ecosystem.problem import (
    RATE,
    ROWS,
    Adder,
    built_adder,
    check_same_results,
    check_same_weights,
    collate,
    examples,
    train,
)

X, LENGTHS, SUMS = (each.numpy() for each in collate(examples()))
DATA = {"x": X, "lengths": LENGTHS}
"""What `forward` takes, by name: skorch cuts batches out of each."""


def net(module: Any = Adder, **options: Any) -> NeuralNetRegressor:
    given = dict(max_epochs=3, train_split=None, verbose=0, iterator_train__shuffle=False, **options)
    return NeuralNetRegressor(module, optimizer=torch.optim.Adam, lr=RATE, batch_size=ROWS, **given)


def test_it_trains_as_plain_torch_does() -> None:
    expected = built_adder()
    losses = train(expected, 3)
    found = net(built_adder()).fit(DATA, SUMS)
    # Batches are cut out of one padded array here, so that some have more steps, which change nothing.
    check_same_weights(found.module_, expected)
    assert [4 * each for each in found.history[:, "train_loss"]] == pytest.approx(losses)
    assert losses[-1] < 0.8 * losses[0]


def test_a_model_whose_weights_are_made_by_its_first_batch_trains() -> None:
    torch.manual_seed(0)
    losses = net().fit(DATA, SUMS).history[:, "train_loss"]
    assert losses[-1] < 0.8 * losses[0]


def test_predictions_are_the_models() -> None:
    found = net(built_adder()).fit(DATA, SUMS)
    x, lengths, _ = collate(examples())
    with torch.no_grad():
        np.testing.assert_allclose(found.predict(DATA), found.module_(x, lengths).numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("safe", [False, True], ids=["pickle", "safetensors"])
def test_parameters_are_saved_and_loaded_before_weights_are_made(safe: bool, tmp_path: Path) -> None:
    found = net().fit(DATA, SUMS)
    found.save_params(f_params=tmp_path / "adder", use_safetensors=safe)
    again = net().initialize()
    again.load_params(f_params=tmp_path / "adder", use_safetensors=safe)
    check_same_results(again.module_, found.module_)


def test_it_is_pickled_cloned_and_searched() -> None:
    found = net().fit(DATA, SUMS)
    check_same_results(pickle.loads(pickle.dumps(found)).module_, found.module_)
    assert not hasattr(clone(found), "module_")
    search = GridSearchCV(net(), {"module__units": [3, 5]}, cv=2, error_score="raise")
    search.fit(SliceDict(**DATA), SUMS)
    assert search.best_params_["module__units"] in (3, 5)
