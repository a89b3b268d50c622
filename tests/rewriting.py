"""What the tests of rewrites share: a step to rewrite, and that its graph still computes the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn

from unspool import RNNCell
from unspool.engine.trace.graph import ancestors, calls, descendants, value
from unspool.engine.trace.rewrites import cleanup
from unspool.engine.trace.spec import Leaf, StepSpec
from unspool.engine.trace.trace import Trace
from unspool.engine.trace.tracer import trace

DEPTH, UNITS = 3, 4


class Step(RNNCell):
    """A cell of one function, with a few weights to use."""

    def __init__(self, step: Callable[..., Tensor]) -> None:
        super().__init__()
        self.state_size = self.output_size = UNITS
        self.kernel = nn.Parameter(torch.randn(DEPTH + UNITS, UNITS))
        self.square = nn.Parameter(torch.randn(UNITS, UNITS))
        self.other = nn.Parameter(torch.randn(UNITS, UNITS))
        self.bias = nn.Parameter(torch.randn(UNITS))
        self.step = step

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = self.step(self, x, h)
        return h, h


def traced(step: Callable[..., Tensor], dtype: torch.dtype = torch.float64, *, adjoint: bool = True) -> Trace:
    """A step as the tracer leaves it, but for what no result needs."""
    torch.manual_seed(0)
    cell = Step(step).to(dtype)
    weights = dict(cell.named_parameters())
    leaves = [Leaf((width,), dtype, torch.device("cpu"), wanted=True) for width in (DEPTH, UNITS)]
    made = trace(cell, StepSpec(weights, *leaves, dtype, adjoint=adjoint))
    cleanup.drop_dead(made.graph)
    return made


def computes(made: Trace, rows: int) -> list[Tensor]:
    """What a graph computes for random numbers."""
    torch.manual_seed(rows)
    values: list[Any] = [rows]
    for node in made.graph.nodes:
        if node.op == "placeholder" and node is not made.rows:
            shape = [size if isinstance(size, int) else rows for size in value(node).shape]
            values.append(torch.randn(shape, dtype=value(node).dtype))
    module = fx.GraphModule(
        {node.target: tensor for node, tensor in {**made.literals, **made.constants}.items()}, made.graph
    )
    torch.manual_seed(1)
    results = fx.Interpreter(module).run(*values)
    return [each for group in results for each in group if each is not None]


def unchanged(made: Trace, apply: Callable[[Trace], None], tolerance: float = 1e-12) -> Trace:
    """Applies a rewrite, and checks that the graph is in order and computes the same."""
    expected = {rows: computes(made, rows) for rows in (1, 2, 7)}
    apply(made)
    made.graph.lint()
    for rows, results in expected.items():
        # Numbers of size 1, summed and multiplied in another order.
        torch.testing.assert_close(computes(made, rows), results, rtol=tolerance, atol=tolerance)
    return made


def targets(made: Trace, *kinds: Any) -> int:
    return len(calls(made.graph, *kinds))


def in_core(made: Trace, target: Any, *, adjoint: bool = False) -> int:
    """How many nodes of a kind the loop needs at every step."""
    carried, new = (made.d_new_state, made.d_state) if adjoint else (made.state, made.new_state)
    core = descendants(made.graph, carried) & ancestors(new, stop=carried)
    return sum(node.target is target for node in core)
