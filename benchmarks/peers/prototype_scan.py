"""`torch.scan`, a prototype: the step is traced once, and backward is a scan that carries every weight's gradient."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from benchmarks.harness import Contender
from benchmarks.peers.loops import lstm
from benchmarks.peers.registry import peer
from benchmarks.problem import Problem

MOST_STEPS = 100
"""Longer sequences take it many seconds a call, and tell nothing new."""


@peer
def torch_scan(problem: Problem) -> Contender | None:
    """A scan over the same hand-written step as the Python loop's."""
    if problem.kind != "LSTM" or problem.lengths is not None or problem.shape.steps > MOST_STEPS:
        return None
    from torch._higher_order_ops.scan import scan

    step = lstm(problem.cell)

    def combine(state: tuple[Tensor, Tensor], x: Tensor) -> Any:
        h, new_state = step(x, state)
        return new_state, h.clone()  # outputs of a scan may not share memory

    def forward() -> Tensor:
        return scan(combine, tuple(problem.zero_state()), problem.inputs)[1]

    return Contender("torch.scan", problem.on_torch(forward, list(problem.cell.parameters())))
