"""Cells in continuous time against their equations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.gallery.cases import (
    Case,
    Weights,
    arguments_are_checked,
    each_of,
    made,
    normal,
    sigmoid,
    sizes_are_checked,
    softplus,
    vectors,
    with_gaps,
)
from unspool import dynamic_rnn
from unspool.gallery.continuous import CfCCell, GRUDCell, LTCCell, ODERNNCell, PhasedLSTMCell, TLSTMCell


def lstm_gates(w: Weights, x: Any, h: Any) -> Any:
    return np.split(w["of_x.weight"] @ x + w["of_x.bias"] + w["of_h.weight"] @ h, 4)


def phased(leak: float) -> Any:
    def step(w: Weights, inputs: Any, state: Any) -> Any:
        (x, time), (c, h) = inputs, state
        i, f, g, o = lstm_gates(w, x, h)
        proposed = sigmoid(f + w["peepholes"][1] * c) * c + sigmoid(i + w["peepholes"][0] * c) * np.tanh(g)
        shown = sigmoid(o + w["peepholes"][2] * proposed) * np.tanh(proposed)
        k = np.zeros_like(c)
        for unit, (period, shift, on) in enumerate(zip(w["period"], w["shift"], w["open"], strict=True)):
            phi = ((time[0] - shift) % period) / period
            k[unit] = 2 * phi / on if phi < on / 2 else 2 - 2 * phi / on if phi < on else leak * phi
        c, h = k * proposed + (1 - k) * c, k * shown + (1 - k) * h
        return h, (c, h)

    return step


def t_lstm(decay: Any) -> Any:
    def step(w: Weights, inputs: Any, state: Any) -> Any:
        (x, gap), (c, h) = inputs, state
        short = np.tanh(w["of_c.weight"] @ c + w["of_c.bias"])
        i, f, g, o = lstm_gates(w, x, h)
        c = sigmoid(f) * ((c - short) + short * decay(gap[0])) + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return h, (c, h)

    return step


MEANS = [0.5, -1.0, 2.0]


def gru_d(w: Weights, inputs: Any, state: Any) -> Any:
    (x, mask, gap), (h, last, waited) = inputs, state
    since = gap[0] + waited
    decay = np.exp(-np.maximum(0, w["decay_x"] * since + w["decay_x_bias"]))
    guesses = decay * last + (1 - decay) * np.array(MEANS)
    filled = np.array([value if seen else guess for value, seen, guess in zip(x, mask, guesses, strict=True)])
    h = np.exp(-np.maximum(0, w["decay_h.weight"] @ since + w["decay_h.bias"])) * h
    r, z, g = np.split(w["of_x.weight"] @ filled + w["of_x.bias"] + w["of_mask.weight"] @ mask, 3)
    ur, uz = np.split(w["of_h.weight"] @ h, 2)
    r, z = sigmoid(r + ur), sigmoid(z + uz)
    h = (1 - z) * h + z * np.tanh(g + w["of_reset.weight"] @ (r * h))
    return h, (h, np.where(mask, x, last), np.where(mask, 0, since))


def series(batch: int, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    mask = (torch.rand(batch, steps, 3) < 0.5).double()
    return normal(batch, steps, 3), mask, normal(batch, steps, 1).abs()


def ode_rnn(order: int, substeps: int) -> Any:
    def step(w: Weights, inputs: Any, state: Any) -> Any:
        (x, gap), h = inputs, state

        def f(h: Any) -> Any:
            return w["slope.weight"] @ np.tanh(w["hidden.weight"] @ h + w["hidden.bias"]) + w["slope.bias"]

        dt = gap[0] / substeps
        for _ in range(substeps):
            slopes = [f(h)]
            for part in (0.5, 0.5, 1.0)[: order - 1]:
                slopes.append(f(h + dt * part * slopes[-1]))
            h = h + dt * np.average(slopes, axis=0, weights=[1, 2, 2, 1][:order] if order == 4 else None)
        both = np.concatenate([x, h])
        r, u = np.split(sigmoid(both @ w["update.gates_kernel"] + w["update.gates_bias"]), 2)
        reset = np.concatenate([x, r * h])
        h = u * h + (1 - u) * np.tanh(reset @ w["update.candidate_kernel"] + w["update.candidate_bias"])
        return h, h

    return step


def ltc(w: Weights, x: Any, h: Any) -> Any:
    for _ in range(3):
        f = sigmoid(w["of_x.weight"] @ x + w["of_x.bias"] + w["of_h.weight"] @ h)
        h = (h + 0.5 * f * w["reversal"]) / (1 + 0.5 * (softplus(w["rate"]) + f))
    return h, h


def cfc(w: Weights, inputs: Any, h: Any) -> Any:
    x, gap = inputs
    z = 1.7159 * np.tanh(2 / 3 * (w["backbone.weight"] @ np.concatenate([x, h]) + w["backbone.bias"]))
    f, g, k = np.split(w["heads.weight"] @ z + w["heads.bias"], 3)
    h = sigmoid(-f * gap) * np.tanh(g) + (1 - sigmoid(-f * gap)) * np.tanh(k)
    return h, h


def clock(batch: int, steps: int) -> tuple[Tensor, Tensor]:
    return normal(batch, steps, 3), normal(batch, steps, 1).abs().cumsum(1)


CASES = {
    "phased_lstm": Case(lambda: PhasedLSTMCell(3, 6, on=0.5), clock, phased(0.001)),
    "phased_lstm_eval": Case(lambda: PhasedLSTMCell(3, 6, on=0.5).eval(), clock, phased(0.0)),
    "t_lstm": Case(lambda: TLSTMCell(3, 4), with_gaps(3), t_lstm(lambda gap: 1 / math.log(math.e + gap))),
    "t_lstm_short": Case(lambda: TLSTMCell(3, 4, decay="reciprocal"), with_gaps(3), t_lstm(lambda gap: 1 / gap)),
    "gru_d": Case(lambda: GRUDCell(3, 4, mean=MEANS), series, gru_d, (np.zeros(4), np.array(MEANS), np.zeros(3))),
    "ode_rnn_euler": Case(lambda: ODERNNCell(3, 4, hidden_size=5), with_gaps(3), ode_rnn(1, 1)),
    "ode_rnn_rk4": Case(lambda: ODERNNCell(3, 4, solver="rk4", substeps=2), with_gaps(3), ode_rnn(4, 2)),
    "ltc": Case(lambda: LTCCell(3, 4, unfolds=3, step=1.5), vectors(3), ltc),
    "cfc": Case(lambda: CfCCell(3, 4, backbone_size=5), with_gaps(3), cfc),
}


test_equals_its_equations, test_equals_the_plain_loop, test_is_planned = each_of(CASES)


def test_missing_values_are_not_read() -> None:
    case = CASES["gru_d"]
    x, mask, gap = case.inputs(5, 7)
    cell = made(case)
    outputs, _ = dynamic_rnn(cell, (x, mask, gap), dtype=torch.float64)
    unread, _ = dynamic_rnn(cell, (x.masked_fill(mask == 0, math.nan), mask, gap), dtype=torch.float64)
    assert torch.equal(outputs, unread)


def test_the_fourth_order_is_one() -> None:
    """Halving the step of Runge and Kutta's method takes 16 times off the error, of Euler's twice."""
    x, gap = torch.zeros(1, 3, dtype=torch.float64), torch.full((1, 1), 2.0, dtype=torch.float64)
    state = normal(1, 4)

    def solved(solver: str, substeps: int) -> Tensor:
        torch.manual_seed(0)
        cell = ODERNNCell(3, 4, solver=solver, substeps=substeps).double()
        cell.load_state_dict({key: value * 3 for key, value in cell.state_dict().items()})
        return cell((x, gap), state)[0].detach()

    exact = solved("rk4", 64)
    for solver, gain in [("euler", 2), ("rk4", 16)]:
        coarse, fine = ((solved(solver, n) - exact).norm().item() for n in (4, 8))
        assert 0.7 * gain < coarse / fine < 1.5 * gain


test_arguments_are_checked = arguments_are_checked(
    [
        (lambda: PhasedLSTMCell(3, 4, on=0), "on must be from 1e-06 to 1, but is 0"),
        (lambda: PhasedLSTMCell(3, 4, leak=2), "leak must be from 0 to 1, but is 2"),
        (lambda: PhasedLSTMCell(3, 4, leak="x"), "leak must be a number from 0 to 1, but is 'x'"),
        (lambda: TLSTMCell(3, 4, decay="exp"), "decay must be one of 'log', 'reciprocal', but is 'exp'"),
        (lambda: GRUDCell(3, 4, mean=[1.0]), r"mean must have shape \[3\], like x, but has \[1\]"),
        (lambda: ODERNNCell(3, 4, solver="heun"), "solver must be one of 'euler', 'rk4', but is 'heun'"),
        (lambda: ODERNNCell(3, 4, substeps=0), "substeps must be positive, but is 0"),
        (lambda: ODERNNCell(3, 4, hidden_size=0), "hidden_size must be positive, but is 0"),
        (lambda: LTCCell(3, 4, unfolds=0), "unfolds must be positive, but is 0"),
        (lambda: LTCCell(3, 4, step=0), "step must be greater than 0, but is 0"),
        (lambda: LTCCell(3, 4, step=None), "step must be a number greater than 0, but is None"),
        (lambda: CfCCell(3, 4, backbone_size=-1), "backbone_size must be positive, but is -1"),
    ]
)


test_sizes_are_checked = sizes_are_checked([PhasedLSTMCell, TLSTMCell, GRUDCell, ODERNNCell, LTCCell, CfCCell])
