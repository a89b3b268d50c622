"""State spaces with a diagonal transition, and time mixing, against their equations and the plain loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.gallery.checks import against_plain_loop, against_reference, drawn, inputs_for, sigmoid, why_not_planned
from unspool import dynamic_rnn
from unspool.gallery.diagonal import LRUCell, SelectiveStateCell, TimeMixingCell

CELLS: dict[str, Callable[[], Any]] = {
    "lru": lambda: LRUCell(3, 4, r_min=0.5, r_max=0.9),
    "selective_state": lambda: SelectiveStateCell(3, 4, state_width=5, rank=2),
    "time_mixing": lambda: TimeMixingCell(3, 4),
}


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


@pytest.mark.parametrize(("name", "reference"), [("lru", lru), ("selective_state", selective_state)])
def test_computes_its_equations(name: str, reference: Any) -> None:
    cell = drawn(CELLS[name]())
    against_reference(cell, inputs_for(cell), reference)


def test_time_mixing_is_a_weighted_average_of_all_values_so_far() -> None:
    """The reference sums over all earlier steps anew, without a running maximum."""
    cell = drawn(CELLS["time_mixing"]())
    inputs = inputs_for(cell)
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
            np.testing.assert_allclose(outputs[row, t].detach(), expected, rtol=1e-10, atol=1e-10)
        weights = np.exp(k - np.arange(len(k) - 1, -1, -1)[:, None] * np.exp(w["decay"]))
        scale = torch.exp(final.log_scale[row].detach())
        np.testing.assert_allclose(final.weighted[row].detach() * scale, (weights * v).sum(0), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(final.weights[row].detach() * scale, weights.sum(0), rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(final.last[row], sequence[-1])


@pytest.mark.parametrize("name", CELLS)
def test_equals_the_plain_loop(name: str) -> None:
    cell = drawn(CELLS[name]())
    against_plain_loop(cell, inputs_for(cell))


@pytest.mark.parametrize("name", CELLS)
def test_is_planned(name: str) -> None:
    cell = drawn(CELLS[name]())
    assert why_not_planned(cell, inputs_for(cell)) is None


def test_large_keys_do_not_overflow() -> None:
    cell = drawn(CELLS["time_mixing"]())
    outputs, _ = dynamic_rnn(cell, 1000 * inputs_for(cell), dtype=torch.float64)
    assert outputs.isfinite().all()


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
    @pytest.mark.parametrize("kind", [LRUCell, SelectiveStateCell, TimeMixingCell])
    @pytest.mark.parametrize(("sizes", "name"), [((0, 4), "input_size"), ((3, -1), "num_units")])
    def test_sizes_must_be_positive(self, kind: Any, sizes: Any, name: str) -> None:
        with pytest.raises(ValueError, match=f"{name} must be positive, but is"):
            kind(*sizes)

    def test_radii_are_in_order(self) -> None:
        with pytest.raises(ValueError, match=r"r_max is 2, but must be in \[0, 1\]"):
            LRUCell(3, 4, r_max=2)
        with pytest.raises(ValueError, match=r"r_min is 0.9, but must be in \[0, 0.5\]"):
            LRUCell(3, 4, r_min=0.9, r_max=0.5)

    def test_max_phase_is_a_phase(self) -> None:
        with pytest.raises(ValueError, match="max_phase is 7, but must be in"):
            LRUCell(3, 4, max_phase=7)

    @pytest.mark.parametrize("name", ["state_width", "rank"])
    def test_widths_are_positive(self, name: str) -> None:
        with pytest.raises(ValueError, match=f"{name} must be positive, but is 0"):
            SelectiveStateCell(3, 4, **{name: 0})
