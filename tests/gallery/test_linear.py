"""Cells whose units never mix, against their equations and the plain loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.gallery.references import against_plain_loop, against_reference, drawn, inputs_for, sigmoid, why_not_planned
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

CELLS: dict[str, Callable[[], Any]] = {
    "ind_rnn": lambda: IndRNNCell(3, 4),
    "min_gru": lambda: MinGRUCell(3, 4),
    "min_lstm": lambda: MinLSTMCell(3, 4),
    "sru": lambda: SRUCell(4, 4, highway_bias=-1),
    "sru_of_another_width": lambda: SRUCell(3, 4, highway_bias=-1),
    "qrnn_pooling": lambda: QRNNPoolingCell(3, 4, window=3),
    "lru": lambda: LRUCell(3, 4, r_min=0.5, r_max=0.9),
    "selective_state": lambda: SelectiveStateCell(3, 4, state_width=5, rank=2),
}


def of(w: Any, name: str, x: Any) -> Any:
    return w[f"{name}.weight"] @ x + w[f"{name}.bias"]


def ind_rnn(x: Any, h: Any, w: Any) -> Any:
    h = np.maximum(of(w, "of_input", x) + w["recurrent"] * h, 0)
    return h, h


def min_gru(x: Any, h: Any, w: Any) -> Any:
    z = sigmoid(of(w, "gate", x))
    h = (1 - z) * h + z * of(w, "new", x)
    return h, h


def min_lstm(x: Any, h: Any, w: Any) -> Any:
    f, i = sigmoid(of(w, "forget", x)), sigmoid(of(w, "admit", x))
    h = f / (f + i) * h + i / (f + i) * of(w, "new", x)
    return h, h


def sru(x: Any, c: Any, w: Any) -> Any:
    new, forget, reset, *skipped = w["of_input.weight"].reshape(-1, 4, len(x)) @ x
    f = sigmoid(forget + w["forget_of_state"] * c + w["forget_bias"])
    r = sigmoid(reset + w["reset_of_state"] * c + w["reset_bias"])
    c = f * c + (1 - f) * new
    return r * c + (1 - r) * np.sqrt(1 + 2 * np.exp(-1)) * (skipped[0] if skipped else x), c


def lru(x: Any, state: Any, w: Any) -> Any:
    s = state[0] + 1j * state[1]
    b, c = w["b_real"] + 1j * w["b_imaginary"], w["c_real"] + 1j * w["c_imaginary"]
    s = np.exp(-np.exp(w["nu"]) + 1j * np.exp(w["theta"])) * s + np.exp(w["gamma"]) * (b @ x)
    return (c @ s).real + w["d"] * x, (s.real, s.imag)


def selective_state(x: Any, state: Any, w: Any) -> Any:
    sums = w["of_input.weight"] @ x
    u, z = np.split(sums * sigmoid(sums), 2)
    low, b, c = np.split(w["select.weight"] @ u, [2, 7])
    delta = np.log1p(np.exp(w["delta.weight"] @ low + w["delta.bias"]))
    state = np.exp(-np.outer(delta, np.ones(5)) * np.exp(w["a"])) * state + np.outer(delta * u, b)
    return (state @ c + w["d"] * u) * z, state


REFERENCES = {
    "ind_rnn": ind_rnn,
    "min_gru": min_gru,
    "min_lstm": min_lstm,
    "sru": sru,
    "sru_of_another_width": sru,
    "lru": lru,
    "selective_state": selective_state,
}


@pytest.mark.parametrize("name", REFERENCES)
def test_computes_its_equations(name: str) -> None:
    cell = drawn(CELLS[name]())
    against_reference(cell, inputs_for(cell), REFERENCES[name])


def test_qrnn_pools_a_convolution_that_sees_the_past() -> None:
    cell = drawn(CELLS["qrnn_pooling"]())
    inputs = inputs_for(cell)
    outputs, (final, _) = dynamic_rnn(cell, inputs, dtype=torch.float64)
    lags, bias = cell.convolution.weight.detach().numpy().reshape(3, 12, 3), cell.bias.detach().numpy()
    for row, sequence in enumerate(inputs.numpy()):
        c = np.zeros(4)
        for t in range(len(sequence)):
            sums = bias + sum(lags[lag] @ sequence[t - lag] for lag in range(3) if lag <= t)
            z, f, o = np.split(sums, 3)
            c = sigmoid(f) * c + (1 - sigmoid(f)) * np.tanh(z)
            np.testing.assert_allclose(outputs[row, t].detach(), sigmoid(o) * c, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(final[row].detach(), c, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", CELLS)
def test_equals_the_plain_loop(name: str) -> None:
    cell = drawn(CELLS[name]())
    against_plain_loop(cell, inputs_for(cell))


@pytest.mark.parametrize("name", CELLS)
def test_is_planned(name: str) -> None:
    cell = drawn(CELLS[name]())
    assert why_not_planned(cell, inputs_for(cell)) is None


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
    @pytest.mark.parametrize("kind", [type(make()) for make in CELLS.values()])
    @pytest.mark.parametrize(("sizes", "name"), [((0, 4), "input_size"), ((3, -1), "num_units")])
    def test_sizes_must_be_positive(self, kind: Any, sizes: Any, name: str) -> None:
        with pytest.raises(ValueError, match=f"{name} must be positive, but is"):
            kind(*sizes)

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
