"""Spiking neurons against their equations, and their surrogate gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.gallery.cases import Case, Weights, arguments_are_checked, each_of, made, sizes_are_checked
from unspool import dynamic_rnn
from unspool.gallery.spiking import AdaptiveLIFCell, FastSigmoidSpike, LIFCell, TriangleSpike


def trains(batch: int, steps: int) -> Tensor:
    return (torch.rand(batch, steps, 3) < 0.7).double()


def lif(w: Weights, x: Any, state: Any) -> Any:
    current, potential, spikes = state
    after = 0.8 * current + w["of_x.weight"] @ x + w["of_spikes.weight"] @ spikes
    potential = 0.7 * potential + current - spikes
    return np.where(potential > 1, 1.0, 0.0), (after, potential, np.where(potential > 1, 1.0, 0.0))


def adaptive(w: Weights, x: Any, state: Any) -> Any:
    v, a, z = state
    weights = w["recurrent"].copy()
    np.fill_diagonal(weights, 0)
    v = v * math.exp(-1 / 5) + w["of_x.weight"] @ x + weights @ z - 0.5 * z
    a = a * math.exp(-1 / 50) + z
    z = (v > 0.5 + 0.2 * a).astype(float)
    return z, (v, a, z)


CASES = {
    "lif": Case(lambda: LIFCell(3, 16, beta=0.7), trains, lif),
    "adaptive_lif": Case(
        lambda: AdaptiveLIFCell(3, 16, tau=5, tau_adaptation=50, beta=0.2, threshold=0.5), trains, adaptive
    ),
}


test_equals_its_equations, test_equals_the_plain_loop, test_is_planned = each_of(CASES)


@pytest.mark.parametrize("name", CASES)
def test_neurons_spike_now_and_then_and_learn(name: str) -> None:
    """The tests above would pass for neurons that are always silent, too."""
    cell = made(CASES[name])
    outputs, _ = dynamic_rnn(cell, CASES[name].inputs(5, 7), dtype=torch.float64)
    assert outputs.unique().tolist() == [0.0, 1.0]
    outputs.sum().backward()
    assert all(weight.grad.norm() > 0 for weight in cell.parameters())


@pytest.mark.parametrize(
    ("spike", "surrogate"),
    [
        (lambda x: FastSigmoidSpike.apply(x, 5.0), lambda x: 1 / (1 + 5 * abs(x)) ** 2),
        (lambda x: TriangleSpike.apply(x, 0.3), lambda x: 0.3 * max(0.0, 1 - abs(x))),
    ],
)
def test_gradients_are_the_surrogates(spike: Any, surrogate: Any) -> None:
    x = torch.tensor([-3.0, -0.4, 0.0, 0.2, 2.0], dtype=torch.float64, requires_grad=True)
    spikes = spike(x)
    assert spikes.tolist() == [0, 0, 0, 1, 1]
    spikes.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [surrogate(value) for value in x.tolist()])


test_arguments_are_checked = arguments_are_checked(
    [
        (lambda: LIFCell(3, 4, alpha=2), "alpha must be from 0 to 1, but is 2"),
        (lambda: LIFCell(3, 4, beta=-1), "beta must be from 0 to 1, but is -1"),
        (lambda: LIFCell(3, 4, slope=0), "slope must be greater than 0, but is 0"),
        (lambda: AdaptiveLIFCell(3, 4, tau=0), "tau must be greater than 0, but is 0"),
        (lambda: AdaptiveLIFCell(3, 4, tau_adaptation=0), "tau_adaptation must be greater than 0, but is 0"),
        (lambda: AdaptiveLIFCell(3, 4, beta=-1), "beta must be from 0 to inf, but is -1"),
        (lambda: AdaptiveLIFCell(3, 4, threshold=0), "threshold must be greater than 0, but is 0"),
        (lambda: AdaptiveLIFCell(3, 4, height=0), "height must be greater than 0, but is 0"),
    ]
)


test_sizes_are_checked = sizes_are_checked([LIFCell, AdaptiveLIFCell])
