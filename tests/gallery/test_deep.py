"""Cells with a network inside, against their equations and the plain loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.gallery.cases import Case, Weights, each_of, layer_norm, sigmoid, sizes_are_checked, vectors
from unspool.gallery.deep import HyperLSTMCell, RHNCell


def rhn(w: Weights, x: Any, s: Any) -> Any:
    for k in range(3):
        sums = w[f"of_state.{k}.weight"] @ s + w[f"of_state.{k}.bias"]
        if k == 0:
            sums = sums + w["of_input.weight"] @ x
        n, t = np.tanh(sums[:4]), sigmoid(sums[4:])
        s = n * t + s * (1 - t)
    return s, s


def hyper_lstm(w: Weights, x: Any, state: Any) -> Any:
    c, h, d, e = state

    def norm(name: str, value: Any) -> Any:
        return layer_norm(value, w[f"{name}.weight"], w[f"{name}.bias"])

    sums = w["hyper_of_input.weight"] @ np.concatenate([h, x]) + w["hyper_of_state.weight"] @ e
    i, g, f, o = np.split(norm("hyper_norm", sums), 4)
    d = sigmoid(f) * d + sigmoid(i) * np.tanh(g)
    e = sigmoid(o) * np.tanh(norm("hyper_norm_memory", d))
    gates = []
    for y in range(4):
        z, u = slice(3 * y, 3 * y + 3), slice(4 * y, 4 * y + 4)  # the gate's embeddings, and its units
        z_h = w["embed_h.weight"][z] @ e + w["embed_h.bias"][z]
        z_x = w["embed_x.weight"][z] @ e + w["embed_x.bias"][z]
        z_b = w["embed_b.weight"][z] @ e
        value = (z_h @ w["scale_h"][y]) * (w["of_state.weight"][u] @ h)
        value = value + (z_x @ w["scale_x"][y]) * (w["of_input.weight"][u] @ x) + z_b @ w["shift"][y] + w["bias"][y]
        gates.append(layer_norm(value, w["norm_gain"][y], w["norm_bias"][y]))
    i, g, f, o = gates
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(norm("norm_memory", c))
    return h, (c, h, d, e)


CASES = {
    "rhn": Case(lambda: RHNCell(3, 4, depth=3), vectors(3), rhn),
    "hyper_lstm": Case(lambda: HyperLSTMCell(3, 4, hyper_units=2, embedding=3), vectors(3), hyper_lstm),
}


test_computes_its_equations, test_equals_the_plain_loop, test_is_planned = each_of(CASES)


def test_gates_of_highways_are_nearly_closed_at_first() -> None:
    for layer in RHNCell(3, 4, transform_bias=-3).of_state:
        assert layer.bias.tolist() == [0.0] * 4 + [-3.0] * 4


def test_every_scale_of_a_hyper_lstm_is_a_tenth_at_first() -> None:
    cell = HyperLSTMCell(3, 4, hyper_units=2)
    scales = torch.einsum("gz,gzn->gn", cell.embed_h(torch.randn(2)).view(4, 4), cell.scale_h)
    torch.testing.assert_close(scales, torch.full((4, 4), 0.1))


class TestArguments:
    test_sizes_must_be_positive = staticmethod(sizes_are_checked([RHNCell, HyperLSTMCell]))

    def test_depth_is_positive(self) -> None:
        with pytest.raises(ValueError, match="depth must be positive, but is 0"):
            RHNCell(3, 4, depth=0)

    def test_transform_bias_is_in_range(self) -> None:
        with pytest.raises(ValueError, match=r"transform_bias must be from -20 to 20, but is 50"):
            RHNCell(3, 4, transform_bias=50)

    @pytest.mark.parametrize("name", ["hyper_units", "embedding"])
    def test_widths_of_the_small_lstm_are_positive(self, name: str) -> None:
        with pytest.raises(ValueError, match=f"{name} must be positive, but is 0"):
            HyperLSTMCell(3, 4, **{name: 0})
