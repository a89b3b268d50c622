"""LSTMs and GRUs with another wiring, against their equations and the plain loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.comparison import BATCH, STEPS
from tests.gallery.cases import (
    Case,
    Weights,
    each_of,
    layer_norm,
    made,
    normal,
    sigmoid,
    sizes_are_checked,
    vectors,
    why_not_planned,
)
from unspool import LSTMStateTuple, dynamic_rnn
from unspool.gallery.gated import (
    LayerNormGRUCell,
    LayerNormLSTMCell,
    MGUCell,
    MogrifierLSTMCell,
    NestedLSTMCell,
    PeepholeLSTMCell,
    ZoneoutLSTMCell,
)


def lstm(sums: Any, c: Any) -> tuple[Any, Any]:
    i, f, o, g = np.split(sums, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def peephole_lstm(w: Weights, x: Any, state: Any) -> Any:
    c, h = state
    i, f, o, g = np.split(w["of_input.weight"] @ x + w["of_input.bias"] + w["of_state.weight"] @ h, 4)
    new = sigmoid(f + w["peephole_f"] * c) * c + sigmoid(i + w["peephole_i"] * c) * np.tanh(g)
    h = sigmoid(o + w["peephole_o"] * new) * np.tanh(new)
    return h, (new, h)


def layer_norm_lstm(w: Weights, x: Any, state: Any) -> Any:
    c, h = state

    def norm(what: str, value: Any) -> Any:
        return layer_norm(value, w[f"norm_{what}.weight"], w[f"norm_{what}.bias"])

    sums = norm("input", w["of_input.weight"] @ x) + norm("state", w["of_state.weight"] @ h)
    i, f, o, g = np.split(sums, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(norm("memory", c))
    return h, (c, h)


def layer_norm_gru(w: Weights, x: Any, h: Any) -> Any:
    def norm(what: str, value: Any) -> Any:
        product = w[f"{what}.weight"] @ value
        name = "norm_" + what.replace("of_", "")
        return layer_norm(product, w[f"{name}.weight"], w[f"{name}.bias"])

    z, r = np.split(sigmoid(norm("gates_of_input", x) + norm("gates_of_state", h)), 2)
    new = np.tanh(norm("new_of_input", x) + r * norm("new_of_state", h))
    h = (1 - z) * h + z * new
    return h, h


def zoneout_lstm(w: Weights, x: Any, state: Any) -> Any:
    c, h = state
    new_h, new_c = lstm(w["of_input.weight"] @ x + w["of_input.bias"] + w["of_state.weight"] @ h, c)
    c, h = 0.4 * c + 0.6 * new_c, 0.2 * h + 0.8 * new_h
    return h, (c, h)


def mgu(w: Weights, x: Any, h: Any) -> Any:
    gate, new = np.split(w["of_input.weight"] @ x + w["of_input.bias"], 2)
    f = sigmoid(gate + w["gate_of_state.weight"] @ h)
    h = (1 - f) * h + f * np.tanh(new + w["new_of_state.weight"] @ (f * h))
    return h, h


def mogrifier_lstm(w: Weights, x: Any, state: Any) -> Any:
    c, h = state
    low_rank = "gating.0.0.weight" in w
    for k in range(4 if low_rank else 5):
        q = w[f"gating.{k}.1.weight"] @ w[f"gating.{k}.0.weight"] if low_rank else w[f"gating.{k}.weight"]
        if k % 2 == 0:
            x = 2 * sigmoid(q @ h) * x
        else:
            h = 2 * sigmoid(q @ x) * h
    h, c = lstm(w["of_input.weight"] @ x + w["of_input.bias"] + w["of_state.weight"] @ h, c)
    return h, (c, h)


def nested_lstm(w: Weights, x: Any, state: Any) -> Any:
    e, c, h = state
    i, f, o, g = np.split(w["of_input.weight"] @ x + w["of_input.bias"] + w["of_state.weight"] @ h, 4)
    inner = w["inner_of_input.weight"] @ (sigmoid(i) * np.tanh(g)) + w["inner_of_input.bias"]
    c, e = lstm(inner + w["inner_of_state.weight"] @ (sigmoid(f) * c), e)
    h = sigmoid(o) * np.tanh(c)
    return h, (e, c, h)


CASES = {
    "peephole_lstm": Case(lambda: PeepholeLSTMCell(3, 4), vectors(3), peephole_lstm),
    "layer_norm_lstm": Case(lambda: LayerNormLSTMCell(3, 4), vectors(3), layer_norm_lstm),
    "layer_norm_gru": Case(lambda: LayerNormGRUCell(3, 4), vectors(3), layer_norm_gru),
    "zoneout_lstm": Case(lambda: ZoneoutLSTMCell(3, 4, zoneout_c=0.4, zoneout_h=0.2).eval(), vectors(3), zoneout_lstm),
    "mgu": Case(lambda: MGUCell(3, 4), vectors(3), mgu),
    "mogrifier_lstm": Case(lambda: MogrifierLSTMCell(3, 4), vectors(3), mogrifier_lstm),
    "mogrifier_lstm_of_rank_2": Case(lambda: MogrifierLSTMCell(3, 4, rounds=4, rank=2), vectors(3), mogrifier_lstm),
    "nested_lstm": Case(lambda: NestedLSTMCell(3, 4), vectors(3), nested_lstm),
}


test_computes_its_equations, test_equals_the_plain_loop, test_is_planned = each_of(CASES)


class TestZoneoutInTraining:
    def test_a_unit_stays_or_is_new(self) -> None:
        """In each step every unit is one of the two, as often as was asked for."""
        torch.manual_seed(0)
        cell = ZoneoutLSTMCell(3, 50, zoneout_c=0.7, zoneout_h=0.0).double()
        x, c, h = (torch.randn(*shape, dtype=torch.float64) for shape in [(40, 1, 3), (40, 50), (40, 50)])
        start = LSTMStateTuple(c, h)
        _, found = dynamic_rnn(cell, x, initial_state=start)
        cell.zoneout_c = 0.0
        _, new = dynamic_rnn(cell, x, initial_state=start)
        stayed = found.c == c
        assert torch.equal(torch.where(stayed, c, new.c), found.c)
        assert torch.equal(new.h, found.h)
        assert abs(stayed.double().mean() - 0.7) < 0.05  # 2,000 draws have a deviation of 0.01

    def test_is_planned_and_equals_the_plain_loop(self) -> None:
        case = Case(lambda: ZoneoutLSTMCell(3, 4, zoneout_c=0.5, zoneout_h=0.5))
        assert why_not_planned(case) is None
        cell, inputs = made(case), normal(BATCH, STEPS, 3)
        torch.manual_seed(9)
        outputs, _ = dynamic_rnn(cell, inputs, dtype=torch.float64)
        torch.manual_seed(9)
        state: Any = cell.zero_state(BATCH, torch.float64)
        for t in range(inputs.shape[1]):
            output, state = cell(inputs[:, t], state)
            torch.testing.assert_close(outputs[:, t], output, rtol=1e-10, atol=1e-12)


class TestArguments:
    test_sizes_must_be_positive = staticmethod(sizes_are_checked([type(case.make()) for case in CASES.values()]))

    @pytest.mark.parametrize("name", ["zoneout_c", "zoneout_h"])
    def test_zoneout_is_a_probability(self, name: str) -> None:
        with pytest.raises(ValueError, match=rf"{name} must be from 0 to 1, but is 1.5"):
            ZoneoutLSTMCell(3, 4, **{name: 1.5})

    @pytest.mark.parametrize("kind", [LayerNormLSTMCell, LayerNormGRUCell])
    def test_epsilon_is_not_negative(self, kind: Any) -> None:
        with pytest.raises(ValueError, match=r"epsilon must be from 0 to 1, but is -1"):
            kind(3, 4, epsilon=-1)

    @pytest.mark.parametrize("name", ["rounds", "rank"])
    def test_rounds_and_rank_are_positive(self, name: str) -> None:
        with pytest.raises(ValueError, match=f"{name} must be positive, but is 0"):
            MogrifierLSTMCell(3, 4, **{name: 0})
