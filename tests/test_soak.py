"""Cells drawn over everything that users write give what the plain loop gives: a part of `make soak`."""

from __future__ import annotations

import pytest
import torch

from tests.soak_check import Case, Outcome, check_compiled, check_interpreted

FIRST = 5000
"""The seed of the first cell: those of `make soak` are others."""
INTERPRETED, COMPILED = 40, 20
TOGETHER = 10
"""How many are compiled at once."""
OPERATIONS = 5


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def assert_right(outcome: Outcome) -> None:
    assert not outcome.faults, f"{outcome.faults[0]}\n\n{outcome.source}"
    assert outcome.runs or outcome.ill


@pytest.mark.parametrize("seed", range(FIRST, FIRST + INTERPRETED))
def test_a_drawn_cell_gives_what_the_plain_loop_gives(seed: int) -> None:
    assert_right(check_interpreted(Case(seed, OPERATIONS), every_chunk=False))


@pytest.mark.compiled
@pytest.mark.parametrize("first", range(FIRST + INTERPRETED, FIRST + INTERPRETED + COMPILED, TOGETHER))
def test_drawn_cells_give_what_the_plain_loop_gives_when_they_are_compiled(first: int) -> None:
    for outcome in check_compiled([Case(first + k, OPERATIONS) for k in range(TOGETHER)], every_policy=False):
        assert_right(outcome)
