"""The proof that a step treats rows independently is never wrong: steps drawn at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from torch import Tensor, fx, nn

from tests.drawn_steps import Drawn
from tests.profiles import cases
from tests.row_steps import UNITS, equals_the_plain_loop, keeps_rows_apart, rows_of
from unspool import RNNCell
from unspool.engine.reasons import CannotPlanError
from unspool.engine.rows.labels import SHARED, Axis, Label
from unspool.engine.rows.proof import follow_rows
from unspool.engine.trace.graph import Node, value
from unspool.engine.trace.lifting import weights_of
from unspool.engine.trace.rewrites import simplify
from unspool.engine.trace.spec import Leaf, StepSpec
from unspool.engine.trace.trace import Trace
from unspool.engine.trace.tracer import trace


def drawn(draw: random.Random, seed: int) -> Drawn:
    torch.manual_seed(seed)
    cell = Drawn(draw, draw.randint(1, 6))
    note(str(cell))
    return cell


STEPS = (st.randoms(use_true_random=False), st.integers(0, 2**16))
UNHURRIED = dict(deadline=None, suppress_health_check=list(HealthCheck))


def traced(cell: RNNCell) -> Trace:
    leaf = Leaf((UNITS,), torch.float64, torch.device("cpu"), wanted=True)
    return trace(cell, StepSpec(weights_of(cell), leaf, leaf, torch.float64, adjoint=True))


def evaluated(traced: Trace, cell: RNNCell, rows: Sequence[Tensor]) -> dict[Node, Any]:
    """What every node of a graph computes."""
    held = nn.Module()
    for node, tensor in {**traced.literals, **traced.constants}.items():
        setattr(held, str(node.target), tensor)
    interpreter = fx.Interpreter(held, garbage_collect_values=False, graph=traced.graph)
    with torch.no_grad():
        interpreter.run(len(rows[0]), *cell.parameters(), *rows)
    return interpreter.env


def row_of(tensor: Tensor, label: Label, row: int, rows: int) -> Tensor:
    """What a label says to be one of the rows."""
    assert isinstance(label, Axis)
    assert tensor.shape[label.index] == label.outer * rows * label.inner
    return tensor.unflatten(label.index, (label.outer, rows, label.inner)).select(label.index + 1, row)


@settings(max_examples=cases(40, 600), **UNHURRIED)
@given(*STEPS)
def test_no_drawn_step_mixes_rows_where_the_proof_accepts_it(draw: random.Random, seed: int) -> None:
    """Every node of the step and of its adjoint: each row by itself gives what it gives among others.

    What is shared is the same for one row, and what is a sum is the sum over what rows give by themselves.
    """
    cell = drawn(draw, seed)
    try:
        step = traced(cell)
    except Exception:
        return  # it cannot be traced: that it runs in the plain loop is another test
    try:
        simplify(step)
        labels = follow_rows(step.graph, step.rows)
    except CannotPlanError:
        return  # as above
    for batch_size in (1, 2, 3, 5):
        keeps_rows_apart(cell, batch_size)
    rows = [rows_of(3) for _ in range(4)]
    together = evaluated(step, cell, rows)
    alone = [evaluated(step, cell, [each[row : row + 1] for each in rows]) for row in range(3)]
    for node, label in labels.items():
        if not isinstance(value(node), Tensor):
            continue
        if isinstance(label, Axis):
            expected = torch.stack([row_of(env[node], label, 0, 1) for env in alone])
            found = torch.stack([row_of(together[node], label, row, 3) for row in range(3)])
        elif label == SHARED:
            found, expected = together[node], alone[0][node]
        else:
            found, expected = together[node], sum(env[node] for env in alone)
        torch.testing.assert_close(
            found, expected, rtol=1e-7, atol=1e-7, equal_nan=True, msg=lambda m, n=node: f"{n}: {m}"
        )


@settings(max_examples=cases(15, 200), **UNHURRIED)
@given(*STEPS)
def test_drawn_steps_give_what_the_plain_loop_gives(draw: random.Random, seed: int) -> None:
    """Planned or not, outputs, states and every gradient are those of the plain loop."""
    equals_the_plain_loop(drawn(draw, seed))
