"""Peak memory of training an LSTM, by what is kept for backward, beside `nn.LSTM` and what was recorded before.

Each in a process of its own; inputs, outputs and the gradients of both are in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

import unspool
from benchmarks.cuda.problems import planned, problem_of
from benchmarks.cuda.timing import Settings
from benchmarks.peers import dynamic_rnn, vendor
from benchmarks.problem import Problem

ROWS, UNITS = 64, 1024
POLICIES: dict[str, unspool.Keep | unspool.Recompute | unspool.Checkpoint] = {
    "keep": unspool.Keep(),
    "recompute": unspool.Recompute(),
    "checkpoint": unspool.Checkpoint(every=32),
}


def measure(case: str, options: Mapping[str, Any], settings: Settings) -> Iterator[dict[str, Any]]:
    """The most that torch has had at a time, in MiB."""
    kind, _, steps = case.partition(" ")
    problem = problem_of("LSTM", settings.shape(f"{ROWS}x{steps}x{UNITS}"), "float32", settings.device)
    told = {} if kind == "nn.LSTM" else planned(problem)
    peak = _peak(kind, problem, settings.device)
    io = 4 * problem.inputs.nbytes / 2**20
    yield {"what": "training", **told, "peak_MiB": peak, "inputs_outputs_and_gradients_MiB": io}


def _peak(kind: str, problem: Problem, device: str) -> float:
    policy, _, swap = kind.partition("+")
    ours = kind != "nn.LSTM"
    options: dict[str, Any] = {"memory": POLICIES[policy], "swap_memory": bool(swap)} if ours else {}
    contender = dynamic_rnn(problem, **options) if ours else vendor.padded(problem)
    assert contender is not None
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for _ in range(2):
        contender.run()
    if device != "cuda":
        return 0.0
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 2**20
