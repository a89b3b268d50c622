"""Problems on a GPU: made there, since its host is slow; and what a plan says about who runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.cells import LayerNormLSTM, UserLSTM
from benchmarks.harness import as_float, difference
from benchmarks.problem import CELLS, Problem, Shape
from tests.user_cells.gated import PeepholeProjection
from tests.user_cells.steps import NASLike
from unspool import LSTMCell, explain


def with_small_peepholes(cell: PeepholeProjection) -> PeepholeProjection:
    """The cell with a fifth of its peepholes.

    As they are, a unit may be unstable: over 256 steps in bfloat16, gradients are 0.4 to 6 % from float64, and the
    Python loop's 0.7 to 4 %, by the draw of the inputs. With these it is 0.4 % and 0.7 % at every draw.
    """
    with torch.no_grad():
        for each in (cell.peep_i, cell.peep_f, cell.peep_o):
            each.mul_(0.2)
    return cell


MAKE: dict[str, Callable[[int], Any]] = {
    "LSTM": lambda units: LSTMCell(units, input_size=units),
    "GRU": lambda units: CELLS["GRU"](units, units),
    "RNN": lambda units: CELLS["RNN"](units, units),
    "LSTM by a user": lambda units: UserLSTM(units, units),
    "searched cell": lambda units: NASLike(units, units),
    "peepholes and projection": lambda units: LSTMCell(
        units, input_size=units, use_peepholes=True, num_proj=units // 2
    ),
    "peepholes and projection by a user": lambda units: with_small_peepholes(
        PeepholeProjection(units, units, units // 2)
    ),
    "LayerNorm LSTM": lambda units: LayerNormLSTM(units, units),
}
"""Cells by their names, as wide as their inputs."""


def problem_of(
    kind: str, shape: tuple[int, int, int], dtype: str, device: str, *, ragged: bool = False, tf32: bool = False
) -> Problem:
    """A random problem in training; lengths, if there are any, are uniform in 1..T, one of them T."""
    rows, steps, units = shape
    torch.manual_seed(0)
    cell, kept = MAKE[kind](units), getattr(torch, dtype)
    with torch.no_grad():
        for weight in cell.parameters():
            if weight.dim() == 1:  # biases of 0 and scales of 1 would hide that a peer leaves them out
                weight.add_(0.1 * torch.randn_like(weight))
    lengths = torch.randint(1, steps + 1, (rows,))
    lengths[0] = steps
    inputs = torch.randn(steps, rows, units, device=device).to(kept).requires_grad_()
    gradient = torch.randn(steps, rows, cell.output_size, device=device).to(kept)
    cell = cell.to(device, kept)
    whole = Shape(rows, steps, units, units)
    return Problem(kind, whole, cell, inputs, gradient, lengths if ragged else None, True, tf32)


def planned(problem: Problem, lengths: Tensor | None = None) -> dict[str, Any]:
    """Who runs the loop forwards and backwards, and why it is not the CUDA loop emitter if it is not."""
    told = explain(problem.cell, problem.inputs, lengths, None, problem.dtype, time_major=True)
    found: dict[str, Any] = {"emitter": told.emitter}
    if told.backward is not None:
        found["backward"] = told.backward.emitter
    if told.reason is not None:
        found["why"] = str(told.reason)
    for each in (told.forward, told.backward):
        if each is not None and each.emitter != "cuda-loop":
            found["why"] = dict(each.passed_over).get("cuda-loop")
    return found


def differs(one: Any, other: Any) -> float:
    """How far two runs are apart, as the largest norm of a difference relative to a norm."""
    arrays = not all(isinstance(each, Tensor) for each in other)
    both = [[as_float(each) if arrays else each.detach().float() for each in results] for results in (one, other)]
    return round(difference(*both), 5)
