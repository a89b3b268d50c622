"""A step with effects runs in the plain loop, and looking whether it can be planned leaves nothing behind."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.cell_changes.table import Stage
from tests.guards import assert_equal, by_the_engine, plainly, reason_of
from tests.idioms.table import DEPTH, Step
from tests.impure_cells import IMPURE, impure_cell
from unspool import dynamic_rnn, explain


def runs_of(name: str, run: Any) -> list[tuple[dict[str, Any], Any]]:
    """What two runs of a fresh cell compute, and what each leaves behind."""
    with impure_cell(name) as made:
        stage = Stage(made.cell)
        return [(run(stage), made.effects()) for _ in range(2)]


@pytest.mark.parametrize("name", IMPURE)
def test_an_impure_step_is_refused_with_a_reason_and_without_a_trace(name: str) -> None:
    with impure_cell(name) as made:
        torch.manual_seed(7)
        before = made.effects()
        reason = reason_of(Stage(made.cell))
        assert made.effects() == before
        assert reason


@pytest.mark.parametrize("name", IMPURE)
def test_an_impure_step_does_what_the_plain_loop_does(name: str) -> None:
    """From the first run on: the numbers, the gradients, and what is left behind, step by step."""
    with impure_cell(name) as made:
        fresh = made.fresh
    if fresh:
        with impure_cell(name) as made:
            runs = [by_the_engine(Stage(made.cell))["outputs 0"].detach()[0, :, 0] for _ in range(2)]
        halved = [torch.cat([torch.zeros(1, dtype=run.dtype), run[:-1]]) / 2 for run in runs]
        read = torch.cat(runs) - torch.cat(halved)  # h = h / 2 + what the step read; the first has a state besides
        assert len({round(each, 9) for each in read.tolist()}) == len(read), "two steps read the same"
        return
    for (expected, left), (found, found_left) in zip(runs_of(name, plainly), runs_of(name, by_the_engine), strict=True):
        assert_equal(found, expected, Stage(None), "an impure step")
        assert found_left == left


def warns(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    warnings.warn("old", stacklevel=1)
    return torch.tanh(cell.mixed(x, h))


@pytest.mark.parametrize(
    ("action", "planned", "given"), [("default", True, 1), ("ignore", True, 0), ("always", False, 6)]
)
def test_a_warning_is_given_as_often_as_by_the_plain_loop(action: Any, planned: bool, given: int) -> None:
    cell, x = Step(warns), torch.randn(2, 3, DEPTH)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        for _ in range(2):
            dynamic_rnn(cell, x, dtype=torch.float32)
    assert [str(each.message) for each in seen].count("old") == given
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        assert explain(cell, x, dtype=torch.float32).planned is planned
