"""A step with effects runs in the plain loop, and looking whether it can be planned leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.cell_changes.table import Stage
from tests.guards import assert_equal, by_the_engine, plainly, reason_of
from tests.impure_cells import IMPURE, impure_cell


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
