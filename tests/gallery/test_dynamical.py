"""Cells that are dynamical systems against their equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.gallery.cases import Case, Weights, arguments_are_checked, each_of, sigmoid, sizes_are_checked, vectors
from unspool.gallery.dynamical import AntisymmetricRNNCell, CoRNNCell, LEMCell, LipschitzRNNCell


def lem(w: Weights, x: Any, state: Any) -> Any:
    y, z = state
    a, b, c, d = np.split(w["of_x.weight"] @ x + w["of_x.bias"], 4)
    ya, yb, yc = np.split(w["of_y.weight"] @ y, 3)
    step, other = 0.7 * sigmoid(a + ya), 0.7 * sigmoid(b + yb)
    z = (1 - step) * z + step * np.tanh(c + yc)
    y = (1 - other) * y + other * np.tanh(d + w["of_z.weight"] @ z)
    return y, (y, z)


def co_rnn(w: Weights, x: Any, state: Any) -> Any:
    y, z = state
    of_x, of_y, of_z = np.split(w["force.weight"], [3, 7], axis=1)
    z = z + 0.1 * (np.tanh(of_x @ x + of_y @ y + of_z @ z + w["force.bias"]) - 2 * y - 3 * z)
    return y + 0.1 * z, (y + 0.1 * z, z)


def lipschitz(w: Weights, x: Any, h: Any) -> Any:
    def stable(m: Any) -> Any:
        return 0.2 * (m + m.T) + 0.8 * (m - m.T) - 0.1 * np.eye(4)

    pushed = np.tanh(stable(w["recurrent"]) @ h + w["of_x.weight"] @ x + w["of_x.bias"])
    h = h + 0.3 * (stable(w["linear"]) @ h + pushed)
    return h, h


def antisymmetric(gated: bool) -> Any:
    def step(w: Weights, x: Any, h: Any) -> Any:
        turned = (w["recurrent"] - w["recurrent"].T - 0.02 * np.eye(4)) @ h
        forced = w["of_x.weight"] @ x + w["of_x.bias"]
        gate = sigmoid(turned + forced[4:]) if gated else 1
        h = h + 0.3 * gate * np.tanh(turned + forced[:4])
        return h, h

    return step


CASES = {
    "lem": Case(lambda: LEMCell(3, 4, dt=0.7), vectors(3), lem),
    "co_rnn": Case(lambda: CoRNNCell(3, 4, dt=0.1, gamma=2, epsilon=3), vectors(3), co_rnn),
    "lipschitz": Case(lambda: LipschitzRNNCell(3, 4, beta=0.8, gamma=0.1, dt=0.3), vectors(3), lipschitz),
    "antisymmetric": Case(
        lambda: AntisymmetricRNNCell(3, 4, gamma=0.02, dt=0.3), vectors(3), antisymmetric(gated=False)
    ),
    "antisymmetric_gated": Case(
        lambda: AntisymmetricRNNCell(3, 4, gated=True, gamma=0.02, dt=0.3), vectors(3), antisymmetric(gated=True)
    ),
}


test_equals_its_equations, test_equals_the_plain_loop, test_is_planned = each_of(CASES)


def test_antisymmetric_matrices_have_imaginary_eigenvalues() -> None:
    cell = AntisymmetricRNNCell(3, 4, gamma=0.0).double()
    jacobian: Any = torch.autograd.functional.jacobian(
        lambda h: cell(torch.zeros(1, 3, dtype=h.dtype), h)[1], torch.zeros(1, 4, dtype=torch.float64)
    )
    speeds = (np.linalg.eigvals(jacobian.squeeze().numpy()) - 1) / cell.dt
    np.testing.assert_allclose(speeds.real, 0, atol=1e-12)


test_arguments_are_checked = arguments_are_checked(
    [
        (lambda: LEMCell(3, 4, dt=-1), "dt must be greater than 0, but is -1"),
        (lambda: CoRNNCell(3, 4, dt=0), "dt must be greater than 0, but is 0"),
        (lambda: CoRNNCell(3, 4, gamma=0), "gamma must be greater than 0, but is 0"),
        (lambda: CoRNNCell(3, 4, epsilon=-2), "epsilon must be greater than 0, but is -2"),
        (lambda: LipschitzRNNCell(3, 4, beta=0.4), "beta must be from 0.5 to 1, but is 0.4"),
        (lambda: LipschitzRNNCell(3, 4, gamma=-1), "gamma must be from 0 to inf, but is -1"),
        (lambda: LipschitzRNNCell(3, 4, dt=0), "dt must be greater than 0, but is 0"),
        (lambda: AntisymmetricRNNCell(3, 4, gamma=-1), "gamma must be from 0 to inf, but is -1"),
        (lambda: AntisymmetricRNNCell(3, 4, dt=0), "dt must be greater than 0, but is 0"),
    ]
)


test_sizes_are_checked = sizes_are_checked([LEMCell, CoRNNCell, LipschitzRNNCell, AntisymmetricRNNCell])
