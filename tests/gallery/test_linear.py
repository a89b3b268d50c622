"""Cells whose units never mix, against their equations and the plain loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.comparison import BATCH, STEPS
from tests.gallery.cases import (
    Case,
    Weights,
    close,
    each_of,
    made,
    normal,
    sigmoid,
    sizes_are_checked,
    softplus,
    vectors,
)
from unspool import dynamic_rnn
from unspool.gallery.linear import (
    IndRNNCell,
    LRUCell,
    MinGRUCell,
    MinLSTMCell,
    QRNNPoolingCell,
    SelectiveStateCell,
    SRUCell,
)


def of(w: Any, name: str, x: Any) -> Any:
    return w[f"{name}.weight"] @ x + w[f"{name}.bias"]


def ind_rnn(w: Weights, x: Any, h: Any) -> Any:
    h = np.maximum(of(w, "of_input", x) + w["recurrent"] * h, 0)
    return h, h


def min_gru(w: Weights, x: Any, h: Any) -> Any:
    z = sigmoid(of(w, "gate", x))
    h = (1 - z) * h + z * of(w, "new", x)
    return h, h


def min_lstm(w: Weights, x: Any, h: Any) -> Any:
    f, i = sigmoid(of(w, "forget", x)), sigmoid(of(w, "admit", x))
    h = f / (f + i) * h + i / (f + i) * of(w, "new", x)
    return h, h


def sru(w: Weights, x: Any, c: Any) -> Any:
    new, forget, reset, *skipped = w["of_input.weight"].reshape(-1, 4, len(x)) @ x
    f = sigmoid(forget + w["forget_of_state"] * c + w["forget_bias"])
    r = sigmoid(reset + w["reset_of_state"] * c + w["reset_bias"])
    c = f * c + (1 - f) * new
    return r * c + (1 - r) * np.sqrt(1 + 2 * np.exp(-1)) * (skipped[0] if skipped else x), c


def lru(w: Weights, x: Any, state: Any) -> Any:
    s = state[0] + 1j * state[1]
    b, c = w["b_real"] + 1j * w["b_imaginary"], w["c_real"] + 1j * w["c_imaginary"]
    s = np.exp(-np.exp(w["nu"]) + 1j * np.exp(w["theta"])) * s + np.exp(w["gamma"]) * (b @ x)
    return (c @ s).real + w["d"] * x, (s.real, s.imag)


def selective_state(w: Weights, x: Any, state: Any) -> Any:
    sums = w["of_input.weight"] @ x
    u, z = np.split(sums * sigmoid(sums), 2)
    low, b, c = np.split(w["select.weight"] @ u, [2, 7])
    delta = softplus(w["delta.weight"] @ low + w["delta.bias"])
    state = np.exp(-np.outer(delta, np.ones(5)) * np.exp(w["a"])) * state + np.outer(delta * u, b)
    return (state @ c + w["d"] * u) * z, state


CASES = {
    "ind_rnn": Case(lambda: IndRNNCell(3, 4), vectors(3), ind_rnn),
    "min_gru": Case(lambda: MinGRUCell(3, 4), vectors(3), min_gru),
    "min_lstm": Case(lambda: MinLSTMCell(3, 4), vectors(3), min_lstm),
    "sru": Case(lambda: SRUCell(4, 4, highway_bias=-1), vectors(4), sru),
    "sru_of_another_width": Case(lambda: SRUCell(3, 4, highway_bias=-1), vectors(3), sru),
    "qrnn_pooling": Case(lambda: QRNNPoolingCell(3, 4, window=3)),
    "lru": Case(lambda: LRUCell(3, 4, r_min=0.5, r_max=0.9), vectors(3), lru),
    "selective_state": Case(lambda: SelectiveStateCell(3, 4, state_width=5, rank=2), vectors(3), selective_state),
}


test_computes_its_equations, test_equals_the_plain_loop, test_is_planned = each_of(CASES)


def test_qrnn_pools_a_convolution_that_sees_the_past() -> None:
    cell = made(CASES["qrnn_pooling"])
    inputs = normal(BATCH, STEPS, 3)
    outputs, (final, _) = dynamic_rnn(cell, inputs, dtype=torch.float64)
    lags, bias = cell.convolution.weight.detach().numpy().reshape(3, 12, 3), cell.bias.detach().numpy()
    for row, sequence in enumerate(inputs.numpy()):
        c = np.zeros(4)
        for t in range(len(sequence)):
            sums = bias + sum(lags[lag] @ sequence[t - lag] for lag in range(3) if lag <= t)
            z, f, o = np.split(sums, 3)
            c = sigmoid(f) * c + (1 - sigmoid(f)) * np.tanh(z)
            close(outputs[row, t], sigmoid(o) * c)
        close(final[row], c)


def test_lambda_of_lru_is_in_its_ring() -> None:
    cell = LRUCell(3, 500, r_min=0.6, r_max=0.8, max_phase=0.1)
    size, phase = torch.exp(-torch.exp(cell.nu)), torch.exp(cell.theta)
    assert 0.6 <= size.min() < 0.61
    assert 0.79 < size.max() <= 0.8
    assert phase.max() <= 0.1
    torch.testing.assert_close(torch.exp(cell.gamma), torch.sqrt(1 - size**2))


def test_steps_of_the_selective_state_are_small_at_first() -> None:
    steps = torch.nn.functional.softplus(SelectiveStateCell(3, 500).delta.bias)
    assert 0.00099 < steps.min() < 0.0015
    assert 0.08 < steps.max() < 0.101


class TestArguments:
    test_sizes_must_be_positive = staticmethod(sizes_are_checked([type(case.make()) for case in CASES.values()]))

    def test_recurrent_max_is_not_negative(self) -> None:
        with pytest.raises(ValueError, match=r"recurrent_max must be from 0 to 2, but is -1"):
            IndRNNCell(3, 4, recurrent_max=-1)

    def test_highway_bias_is_in_range(self) -> None:
        with pytest.raises(ValueError, match=r"highway_bias must be from -20 to 20, but is 30"):
            SRUCell(3, 4, highway_bias=30)

    def test_a_window_has_two_steps_or_more(self) -> None:
        with pytest.raises(ValueError, match="window is 1, but must be at least 2"):
            QRNNPoolingCell(3, 4, window=1)

    def test_radii_are_in_order(self) -> None:
        with pytest.raises(ValueError, match=r"r_max must be from 0 to 1, but is 2"):
            LRUCell(3, 4, r_max=2)
        with pytest.raises(ValueError, match=r"r_min must be from 0 to 0.5, but is 0.9"):
            LRUCell(3, 4, r_min=0.9, r_max=0.5)

    def test_max_phase_is_a_phase(self) -> None:
        with pytest.raises(ValueError, match=r"max_phase must be from 0 to 6\.28319, but is 7"):
            LRUCell(3, 4, max_phase=7)

    @pytest.mark.parametrize("name", ["state_width", "rank"])
    def test_widths_are_positive(self, name: str) -> None:
        with pytest.raises(ValueError, match=f"{name} must be positive, but is 0"):
            SelectiveStateCell(3, 4, **{name: 0})
