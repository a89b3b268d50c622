"""Memories of polynomials against their equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.polynomial import legendre

from tests.gallery.cases import Case, Weights, arguments_are_checked, each_of, sigmoid, sizes_are_checked, vectors
from unspool.gallery.polynomial import HiPPOLegSCell, HiPPOLegTCell, LMUCell


def lmu(w: Weights, x: Any, state: Any) -> Any:
    h, memory = state
    u = w["encoder.weight"] @ np.concatenate([x, h, memory])
    memory = w["transition"] @ memory + w["drive"] * u
    h = np.tanh(w["of_x.weight"] @ x + w["of_h.weight"] @ h + w["of_memory.weight"] @ memory)
    return h, (h, memory)


def gated(w: Weights, x: Any, memory: Any, h: Any) -> Any:
    g, c = np.split(w["gates.weight"] @ np.concatenate([x, memory, h]) + w["gates.bias"], 2)
    h = h + sigmoid(g) * (np.tanh(c) - h)
    return h, w["signal.weight"] @ h + w["signal.bias"]


def legt(w: Weights, x: Any, state: Any) -> Any:
    h, memory = state
    h, f = gated(w, x, memory, h)
    return h, (h, w["transition"] @ memory + w["drive"] * f)


def legs_system(order: int) -> tuple[Any, Any]:
    a = np.zeros((order, order))
    for n in range(order):
        for k in range(n + 1):
            a[n, k] = n + 1 if n == k else np.sqrt((2 * n + 1) * (2 * k + 1))
    return a, np.sqrt(2 * np.arange(order) + 1)


def legs(w: Weights, x: Any, state: Any) -> Any:
    h, memory, count = state
    h, f = gated(w, x, memory, h)
    (a, b), eye, count = legs_system(len(memory)), np.eye(len(memory)), count + 1
    memory = np.linalg.solve(eye + a / (2 * count), (eye - a / (2 * count)) @ memory + b * f / count)
    return h, (h, memory, count)


def exact(cell: Any) -> Any:
    """Whose constants are in float64 from the start, so that they are those of the reference to all digits."""
    torch.set_default_dtype(torch.float64)
    try:
        return cell()
    finally:
        torch.set_default_dtype(torch.float32)


CASES = {
    "lmu": Case(lambda: LMUCell(3, 4, order=5, theta=6), vectors(3), lmu),
    "hippo_legt": Case(lambda: HiPPOLegTCell(3, 4, order=5, theta=6), vectors(3), legt),
    "hippo_legs": Case(lambda: exact(lambda: HiPPOLegSCell(3, 4, order=6)), vectors(3), legs),
    "hippo_legs_one": Case(lambda: exact(lambda: HiPPOLegSCell(3, 4, order=1)), vectors(3), legs),
}


test_equals_its_equations, test_equals_the_plain_loop, test_is_planned = each_of(CASES)


@pytest.mark.parametrize("kind", [LMUCell, HiPPOLegTCell])
def test_the_window_can_be_read_back(kind: Any) -> None:
    """Coefficient n belongs to the Legendre polynomial of degree n on the last theta steps, newest first."""
    cell = exact(lambda: kind(1, 1, order=12, theta=50))
    transition, drive, memory = cell.transition.numpy(), cell.drive.numpy(), np.zeros(12)
    signal = np.sin(np.arange(400) / 15)
    for value in signal:
        memory = transition @ memory + drive * value
    for back in (5, 25, 45):
        value = legendre.legval(2 * back / 50 - 1, memory)
        assert abs(value - np.interp(399 - back, np.arange(400), signal)) < 0.05


def test_the_whole_past_can_be_read_back() -> None:
    """Coefficient n belongs to the normalised Legendre polynomial of degree n on all steps, oldest first."""
    cell = exact(lambda: HiPPOLegSCell(1, 1, order=12))
    signal, memory = np.cos(np.arange(400) / 60), np.zeros(12)
    a, b = legs_system(12)
    for step, value in enumerate(signal, 1):
        memory = np.linalg.solve(np.eye(12) + a / (2 * step), (np.eye(12) - a / (2 * step)) @ memory + b * value / step)
    np.testing.assert_allclose(cell.matrix.numpy(), a)
    for place in (50, 200, 350):
        value = legendre.legval(2 * place / 400 - 1, memory * np.sqrt(2 * np.arange(12) + 1))
        assert abs(value - signal[place]) < 0.05


test_arguments_are_checked = arguments_are_checked(
    [
        (lambda: LMUCell(3, 4, order=0), "order must be positive, but is 0"),
        (lambda: LMUCell(3, 4, theta=0), "theta must be greater than 0, but is 0"),
        (lambda: HiPPOLegTCell(3, 4, order=0), "order must be positive, but is 0"),
        (lambda: HiPPOLegTCell(3, 4, theta=-1), "theta must be greater than 0, but is -1"),
        (lambda: HiPPOLegSCell(3, 4, order=0), "order must be positive, but is 0"),
    ]
)


test_sizes_are_checked = sizes_are_checked([LMUCell, HiPPOLegTCell, HiPPOLegSCell])
