"""Cells in which not all units change at every step, against their equations and the plain loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.comparison import BATCH, STEPS
from tests.gallery.cases import (
    Case,
    Weights,
    against_plain_loop,
    against_reference,
    each_of,
    made,
    normal,
    sigmoid,
    sizes_are_checked,
    softmax,
    vectors,
)
from unspool import dynamic_rnn
from unspool.gallery.ordered import ClockworkCell, ONLSTMCell, RIMCell, SkipRNNCell


def on_lstm(w: Weights, x: Any, state: Any) -> Any:
    c, h = state
    sums, units = w["of_input.weight"] @ x + w["of_input.bias"] + w["of_state.weight"] @ h, len(h)
    i, f, o, g = np.split(sums[: 4 * units], 4)
    a, b = np.split(sums[4 * units :], 2)
    chunk = units // len(a)
    erase, write = np.repeat(np.cumsum(softmax(a)), chunk), 1 - np.repeat(np.cumsum(softmax(b)), chunk)
    both = erase * write
    c = (sigmoid(f) * both + (erase - both)) * c + (sigmoid(i) * both + (write - both)) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return h, (c, h)


def clockwork(w: Weights, x: Any, state: Any) -> Any:
    h, time = state
    new = h.copy()
    for group, period in enumerate([1, 2, 3]):
        if time[0] % period == 0:
            own, slower = slice(2 * group, 2 * group + 2), slice(2 * group, 6)
            seen = w["of_state"][own, slower] @ h[slower]
            new[own] = np.tanh(w["of_input.weight"][own] @ x + w["of_input.bias"][own] + seen)
    return new, (new, (time + 1) % 6)


def skip_rnn(w: Weights, x: Any, state: Any) -> Any:
    h, u = state
    taken = np.round(u)
    if taken[0]:
        sums = w["of_input.weight"] @ x + w["of_input.bias"]
        r, z = np.split(sigmoid(sums[:8] + w["gates_of_state.weight"] @ h), 2)
        h = z * h + (1 - z) * np.tanh(sums[8:] + w["new_of_state.weight"] @ (r * h))
    d = sigmoid(w["update.weight"] @ h + w["update.bias"])
    return (h, taken), (h, d if taken[0] else u + np.minimum(d, 1 - u))


def rim(w: Weights, x: Any, state: Any) -> Any:
    h = state.reshape(4, 3)
    read, null = [], []
    both = np.stack([x, np.zeros(3)])  # the input and nothing
    for k in range(4):
        shares = softmax(both @ w["input_key.weight"].T @ (h[k] @ w["input_query"][k]) / np.sqrt(5))
        read.append(shares @ both @ w["input_value.weight"].T)
        null.append(shares[1])
    chosen = np.argsort(null, kind="stable")[:2]
    new = h.copy()
    for k in chosen:
        of_x, of_h = np.split(read[k] @ w["of_input"][k] + w["bias"][k], 3), np.split(h[k] @ w["of_state"][k], 3)
        r, z = sigmoid(of_x[0] + of_h[0]), sigmoid(of_x[1] + of_h[1])
        new[k] = z * h[k] + (1 - z) * np.tanh(of_x[2] + r * of_h[2])
    final = h.copy()
    for k in chosen:
        scores = np.array([(new[k] @ w["query"][k]) @ (new[j] @ w["key"][j]) for j in range(4)]) / np.sqrt(5)
        final[k] = new[k] + sum(share * (new[j] @ w["value"][j]) for j, share in enumerate(softmax(scores)))
    return final.ravel(), final.ravel()


CASES = {
    "on_lstm": Case(lambda: ONLSTMCell(3, 4), vectors(3), on_lstm),
    "on_lstm_in_chunks": Case(lambda: ONLSTMCell(3, 6, chunk=2), vectors(3), on_lstm),
    "clockwork": Case(lambda: ClockworkCell(3, 6, periods=[1, 2, 3]), vectors(3), clockwork),
    "skip_rnn": Case(lambda: SkipRNNCell(3, 4), vectors(3), skip_rnn, (np.zeros(4), np.ones(1))),
    "rim": Case(lambda: RIMCell(3, 12, mechanisms=4, active=2, key_width=5), vectors(3), rim),
}


test_computes_its_equations, test_equals_the_plain_loop, test_is_planned = each_of(CASES)


def test_slow_units_change_at_their_steps_alone() -> None:
    cell = ClockworkCell(3, 2, periods=[1, 4]).double()
    outputs, _ = dynamic_rnn(cell, torch.randn(2, 9, 3, dtype=torch.float64), dtype=torch.float64)
    changed = (outputs[:, 1:] != outputs[:, :-1]).all(0)
    assert changed[:, 0].all()
    assert changed[:, 1].tolist() == [False, False, False, True] * 2


class TestSkipping:
    @staticmethod
    def skipping() -> Case:
        """A cell that skips more steps than it takes."""

        def make() -> SkipRNNCell:
            cell = SkipRNNCell(3, 4)
            torch.nn.init.constant_(cell.update.bias, -1.5)
            return cell

        return CASES["skip_rnn"]._replace(make=make)

    def test_some_steps_are_taken_and_others_skipped(self) -> None:
        """Where they are skipped, the state stays; the cases that compare gradients have both."""
        cell = made(self.skipping())
        (outputs, taken), _ = dynamic_rnn(cell, normal(BATCH, STEPS, 3), dtype=torch.float64)
        assert set(taken.unique().tolist()) == {0.0, 1.0}
        stays = (outputs[:, 1:] == outputs[:, :-1]).all(2)
        assert torch.equal(stays, taken[:, 1:, 0] == 0)

    def test_equals_the_plain_loop_where_steps_are_skipped(self) -> None:
        against_plain_loop(self.skipping())
        against_reference(self.skipping())

    def test_the_number_of_steps_taken_has_a_gradient(self) -> None:
        cell = made(CASES["skip_rnn"])
        (_, taken), _ = dynamic_rnn(cell, normal(BATCH, STEPS, 3), dtype=torch.float64)
        taken.sum().backward()
        assert cell.update.bias.grad.abs() > 0


class TestArguments:
    test_sizes_must_be_positive = staticmethod(sizes_are_checked([ONLSTMCell, ClockworkCell, SkipRNNCell, RIMCell]))

    def test_chunks_divide_the_units(self) -> None:
        with pytest.raises(ValueError, match="chunk is 3, but must divide num_units, which is 4"):
            ONLSTMCell(3, 4, chunk=3)

    def test_groups_divide_the_units(self) -> None:
        with pytest.raises(ValueError, match="the number of periods is 3, but must divide num_units, which is 4"):
            ClockworkCell(3, 4, periods=[1, 2, 4])

    def test_periods_are_positive(self) -> None:
        with pytest.raises(ValueError, match="each of periods must be positive, but is 0"):
            ClockworkCell(3, 4, periods=[1, 0])

    def test_there_are_periods(self) -> None:
        with pytest.raises(ValueError, match="the number of periods must be positive, but is 0"):
            ClockworkCell(3, 4, periods=[])

    def test_mechanisms_divide_the_units(self) -> None:
        with pytest.raises(ValueError, match="mechanisms is 3, but must divide num_units, which is 4"):
            RIMCell(3, 4, mechanisms=3)

    def test_there_are_no_more_active_ones_than_mechanisms(self) -> None:
        with pytest.raises(ValueError, match="active is 5, but there are only 4 mechanisms"):
            RIMCell(3, 4, active=5)

    @pytest.mark.parametrize("name", ["active", "key_width"])
    def test_widths_are_positive(self, name: str) -> None:
        with pytest.raises(ValueError, match=f"{name} must be positive, but is 0"):
            RIMCell(3, 4, **{name: 0})
