"""Sums with exponential weights, against their equations without the running maximum, and the plain loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.comparison import BATCH, STEPS
from tests.gallery.cases import Case, close, each_of, made, normal, sigmoid, sizes_are_checked
from unspool import dynamic_rnn
from unspool.gallery.exponential import MLSTMCell, SLSTMCell, TimeMixingCell

CASES = {
    "time_mixing": Case(lambda: TimeMixingCell(3, 4)),
    "slstm": Case(lambda: SLSTMCell(3, 4)),
    "slstm_of_two_heads": Case(lambda: SLSTMCell(3, 4, heads=2)),
    "mlstm": Case(lambda: MLSTMCell(3, 4)),
    "mlstm_of_two_heads": Case(lambda: MLSTMCell(3, 4, heads=2)),
}


def test_time_mixing_is_a_weighted_average_of_all_values_so_far() -> None:
    """The reference sums over all earlier steps anew, without a running maximum."""
    cell = made(CASES["time_mixing"])
    inputs = normal(BATCH, STEPS, 3)
    outputs, final = dynamic_rnn(cell, inputs, dtype=torch.float64)
    w = {name: value.detach().numpy() for name, value in cell.named_parameters()}
    for row, sequence in enumerate(inputs.numpy()):
        before = np.concatenate([np.zeros((1, 3)), sequence[:-1]])

        def mixed(layer: str, mix: str, now: Any = sequence, last: Any = before) -> Any:
            return (w[mix] * now + (1 - w[mix]) * last) @ w[f"{layer}.weight"].T

        r, k, v = mixed("receptance", "mix_r"), mixed("key", "mix_k"), mixed("value", "mix_v")
        for t in range(len(sequence)):
            age = np.arange(t - 1, -1, -1)[:, None]
            weights = np.concatenate([np.exp(k[:t] - age * np.exp(w["decay"])), np.exp(w["bonus"] + k[t])[None]])
            average = (weights * v[: t + 1]).sum(0) / weights.sum(0)
            expected = w["output.weight"] @ (sigmoid(r[t]) * average)
            close(outputs[row, t], expected)
        weights = np.exp(k - np.arange(len(k) - 1, -1, -1)[:, None] * np.exp(w["decay"]))
        scale = torch.exp(final.log_scale[row].detach())
        close(final.weighted[row] * scale, (weights * v).sum(0))
        close(final.weights[row] * scale, weights.sum(0))
        np.testing.assert_array_equal(final.last[row], sequence[-1])


@pytest.mark.parametrize("heads", [1, 2])
def test_slstm_computes_its_equations(heads: int) -> None:
    cell = made(Case(lambda: SLSTMCell(3, 4, heads=heads)))
    inputs, width = normal(BATCH, STEPS, 3), 4 // heads
    outputs, final = dynamic_rnn(cell, inputs, dtype=torch.float64)
    w, b = cell.of_input.weight.detach().numpy(), cell.of_input.bias.detach().numpy()
    for row, sequence in enumerate(inputs.numpy()):
        c, n, h = np.zeros((heads, width)), np.zeros((heads, width)), np.zeros((heads, width))
        for t, x in enumerate(sequence):
            sums = (w @ x + b).reshape(heads, 4, width)
            for k in range(heads):
                sums[k] += (h[k] @ cell.of_state[k].detach().numpy()).reshape(4, width)
            z, i, f, o = sums.swapaxes(0, 1)
            c = sigmoid(f) * c + np.exp(i) * np.tanh(z)
            n = sigmoid(f) * n + np.exp(i)
            h = sigmoid(o) * c / n
            close(outputs[row, t], h.ravel())
        scale = torch.exp(final.m[row])
        close(final.c[row] * scale, c.ravel())
        close(final.n[row] * scale, n.ravel())


@pytest.mark.parametrize("heads", [1, 2])
def test_mlstm_computes_its_equations(heads: int) -> None:
    cell = made(Case(lambda: MLSTMCell(3, 4, heads=heads)))
    inputs, width = normal(BATCH, STEPS, 3), 4 // heads
    outputs, final = dynamic_rnn(cell, inputs, dtype=torch.float64)
    w = {name: value.detach().numpy() for name, value in cell.named_parameters()}
    for row, sequence in enumerate(inputs.numpy()):
        c, n = np.zeros((heads, width, width)), np.zeros((heads, width))
        for t, x in enumerate(sequence):
            layers = ("query", "key", "value", "gate")
            q, k, v, o = ((w[f"{name}.weight"] @ x + w[f"{name}.bias"]).reshape(heads, width) for name in layers)
            i, f = (w[f"{name}.weight"] @ x + w[f"{name}.bias"] for name in ("admit", "forget"))
            h = np.zeros((heads, width))
            for each in range(heads):
                key = k[each] / np.sqrt(width)
                c[each] = sigmoid(f[each]) * c[each] + np.exp(i[each]) * np.outer(v[each], key)
                n[each] = sigmoid(f[each]) * n[each] + np.exp(i[each]) * key
                h[each] = c[each] @ q[each] / max(abs(n[each] @ q[each]), 1)
            close(outputs[row, t], (sigmoid(o) * h).ravel())
        scale = torch.exp(final.m[row])
        close(final.c[row] * scale[:, None, None], c)
        close(final.n[row] * scale[:, None], n)


_, test_equals_the_plain_loop, test_is_planned = each_of(CASES)


@pytest.mark.parametrize("name", CASES)
def test_large_gates_do_not_overflow(name: str) -> None:
    cell = made(CASES[name])
    outputs, _ = dynamic_rnn(cell, 1000 * normal(BATCH, STEPS, 3), dtype=torch.float64)
    assert outputs.isfinite().all()


class TestFirstWeights:
    def test_units_of_a_head_of_slstm_forget_at_different_rates(self) -> None:
        cell = SLSTMCell(3, 8, heads=2)
        z, i, f, o = cell.of_input.bias.detach().view(2, 4, 4).unbind(1)
        assert not torch.cat([z, i, o]).any()
        assert not cell.of_state.any()
        assert f[0, 0] == 5
        assert f[0, -1] == -7
        assert (f.diff() < 0).all()

    def test_gates_of_mlstm_do_not_see_the_input(self) -> None:
        cell = MLSTMCell(3, 8, heads=4)
        assert not cell.admit.weight.any()
        assert not cell.forget.weight.any()
        assert cell.forget.bias.tolist() == [3, 4, 5, 6]

    def test_time_mixing_starts_with_nothing_put_out(self) -> None:
        cell = TimeMixingCell(3, 4)
        assert not cell.output.weight.any()
        torch.testing.assert_close(cell.value.weight.T @ cell.value.weight, torch.eye(3))
        assert cell.decay[0] == -5
        assert cell.decay[-1] == 3


class TestArguments:
    test_sizes_must_be_positive = staticmethod(sizes_are_checked([TimeMixingCell, SLSTMCell, MLSTMCell]))

    @pytest.mark.parametrize("kind", [SLSTMCell, MLSTMCell])
    def test_heads_divide_the_units(self, kind: Any) -> None:
        with pytest.raises(ValueError, match="heads is 3, but must divide num_units, which is 4"):
            kind(3, 4, heads=3)
