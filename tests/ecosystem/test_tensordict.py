"""TensorDict: weights and states in one, functional calls, ensembles."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from tests.ecosystem.problem import DEPTH, RATE, Adder, built_adder, check_same_weights, loader, train
from unspool import RNN, LSTMCell, LSTMStateTuple

X = torch.randn(3, 6, DEPTH)


def test_it_trains_as_plain_torch_does() -> None:
    expected, model = built_adder(), built_adder()
    losses = train(expected, 3)
    adder = TensorDictModule(model, in_keys=["x", "lengths"], out_keys=["sum"])
    optimizer = torch.optim.Adam(adder.parameters(), RATE)
    found: list[float] = []
    for _ in range(3):
        found.append(0.0)
        for x, lengths, sums in loader():
            data = adder(TensorDict({"x": x, "lengths": lengths}, [len(x)]))
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(data["sum"], sums)
            loss.backward()
            optimizer.step()
            found[-1] += loss.item()
    check_same_weights(model, expected)
    assert found == pytest.approx(losses)
    assert found[-1] < 0.8 * found[0]


def test_other_weights_for_one_call_with_their_gradients() -> None:
    model, other = built_adder(), built_adder()
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(0.5)
    x, lengths, _ = next(iter(loader()))
    before = model(x, lengths)
    weights = TensorDict.from_module(other).data.clone().requires_grad_()
    with weights.to_module(model):
        found = model(x, lengths)
    found.sum().backward()
    expected = other(x, lengths)
    expected.sum().backward()
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    for name, weight in other.named_parameters():
        # The same plan, with the sums over rows in the same order.
        torch.testing.assert_close(weights[tuple(name.split("."))].grad, weight.grad, rtol=0, atol=0)
    torch.testing.assert_close(model(x, lengths), before, rtol=0, atol=0)
    assert all(weight.grad is None for weight in model.parameters())


def test_an_ensemble_by_vmap_is_each_of_its_models() -> None:
    models = [Adder() for _ in range(3)]
    x, lengths, _ = next(iter(loader()))
    expected = torch.stack([model(x, lengths) for model in models])
    weights, model = TensorDict.from_modules(*models), models[0]

    def run(each: TensorDict) -> torch.Tensor:
        with each.to_module(model):
            return model(x, lengths)

    # vmap multiplies all models' matrices at once, in another order.
    torch.testing.assert_close(torch.vmap(run)(weights), expected, rtol=1e-5, atol=1e-6)


def test_a_state_goes_into_one_and_comes_back() -> None:
    layer = RNN(LSTMCell(4))
    outputs, final = layer(X)
    _, state = layer(X[:, :3])
    kept = TensorDict.from_namedtuple(state, auto_batch_size=True)
    assert (kept.batch_size[0], sorted(kept.keys())) == (3, ["c", "h"])
    rest, again = layer(X[:, 3:], LSTMStateTuple(kept["c"], kept["h"]))
    torch.testing.assert_close((rest, again), (outputs[:, 3:], final))


def test_weights_that_are_not_made_say_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"of a weight that has no shape yet: .*RNN\(cell\)\.materialize\(x\)"):
        TensorDict.from_module(Adder()).clone()
