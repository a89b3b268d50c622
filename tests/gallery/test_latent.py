"""Cells that draw a latent variable against their equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.comparison import BATCH, LENGTHS, STEPS
from tests.gallery.cases import (
    Case,
    Weights,
    against_plain_loop,
    against_reference,
    arguments_are_checked,
    normal,
    sigmoid,
    softplus,
    vectors,
    why_not_planned,
)
from unspool.gallery.latent import RSSMCell, VRNNCell


def relu_layer(w: Weights, name: str, x: Any) -> Any:
    return np.maximum(w[f"{name}.weight"] @ x + w[f"{name}.bias"], 0)


def gaussian(w: Weights, name: str, x: Any) -> Any:
    linear = w[f"{name}.2.weight"] @ relu_layer(w, f"{name}.0", x) + w[f"{name}.2.bias"]
    mean, deviation = np.split(linear, 2)
    return mean, softplus(deviation)


def vrnn(w: Weights, x: Any, state: Any, noise: Any) -> Any:
    c, h = state
    fx = relu_layer(w, "of_x", x)
    prior, posterior = gaussian(w, "prior", h), gaussian(w, "posterior", np.concatenate([fx, h]))
    fz = relu_layer(w, "of_z", posterior[0] + posterior[1] * noise)
    decoded = gaussian(w, "decoder", np.concatenate([fz, h]))
    i, j, f, o = np.split(np.concatenate([fx, fz, h]) @ w["recurrence.kernel"] + w["recurrence.bias"], 4)
    c = c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
    return (*decoded, *prior, *posterior), (c, sigmoid(o) * np.tanh(c))


def rssm(w: Weights, inputs: Any, state: Any, noise: Any) -> Any:
    (x, action), (h, z) = inputs, state
    moved = relu_layer(w, "of_action", np.concatenate([z, action]))
    gates = np.concatenate([moved, h]) @ w["recurrence.gates_kernel"] + w["recurrence.gates_bias"]
    r, u = np.split(sigmoid(gates), 2)
    candidate = np.concatenate([moved, r * h]) @ w["recurrence.candidate_kernel"] + w["recurrence.candidate_bias"]
    h = u * h + (1 - u) * np.tanh(candidate)
    (mean, deviation), (seen, sure) = gaussian(w, "prior", h), gaussian(w, "posterior", np.concatenate([h, x]))
    z = seen + (sure + 0.1) * noise
    return (h, z, mean, deviation + 0.1, seen, sure + 0.1), (h, z)


def played(batch: int, steps: int) -> tuple[Tensor, Tensor]:
    return normal(batch, steps, 3), normal(batch, steps, 2)


CELLS: dict[str, tuple[Callable[[float], Any], Any, Any]] = {
    "vrnn": (lambda noise: VRNNCell(3, 4, latent_size=2, hidden_size=5, noise=noise), vectors(3), vrnn),
    "rssm": (
        lambda noise: RSSMCell(3, 4, action_size=2, latent_size=2, hidden_size=5, noise=noise),
        played,
        rssm,
    ),
}


def case(name: str, noise: float) -> Case:
    """The cell, with a reference that is given what torch draws after the seed, row by row."""
    make, inputs, step = CELLS[name]
    torch.manual_seed(5)
    draws = torch.stack([normal(BATCH, 2) for _ in range(STEPS)], 1).reshape(-1, 2).numpy()
    drawn = iter(noise * draws)
    return Case(lambda: make(noise), inputs, lambda w, here, state: step(w, here, state, next(drawn)))


@pytest.mark.parametrize("noise", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("name", CELLS)
def test_equals_its_equations(name: str, noise: float) -> None:
    against_reference(case(name, noise))


@pytest.mark.parametrize("name", CELLS)
def test_equals_the_plain_loop(name: str) -> None:
    """How much is drawn for rows that have ended is nobody's promise, so lengths are compared without noise."""
    against_plain_loop(case(name, 1.0), lengths=[None])
    against_plain_loop(case(name, 0.0), lengths=[None, LENGTHS])


@pytest.mark.parametrize("name", CELLS)
def test_is_planned(name: str) -> None:
    assert why_not_planned(case(name, 1.0)) is None


test_arguments_are_checked = arguments_are_checked(
    [
        (lambda: VRNNCell(0, 4), "input_size must be positive, but is 0"),
        (lambda: VRNNCell(3, 0), "num_units must be positive, but is 0"),
        (lambda: VRNNCell(3, 4, latent_size=0), "latent_size must be positive, but is 0"),
        (lambda: VRNNCell(3, 4, hidden_size=0), "hidden_size must be positive, but is 0"),
        (lambda: VRNNCell(3, 4, noise=-1), "noise must be from 0 to inf, but is -1"),
        (lambda: RSSMCell(0, 4, action_size=2), "input_size must be positive, but is 0"),
        (lambda: RSSMCell(3, 0, action_size=2), "num_units must be positive, but is 0"),
        (lambda: RSSMCell(3, 4, action_size=0), "action_size must be positive, but is 0"),
        (lambda: RSSMCell(3, 4, action_size=2, latent_size=0), "latent_size must be positive, but is 0"),
        (lambda: RSSMCell(3, 4, action_size=2, hidden_size=0), "hidden_size must be positive, but is 0"),
        (lambda: RSSMCell(3, 4, action_size=2, noise=-1), "noise must be from 0 to inf, but is -1"),
    ]
)
