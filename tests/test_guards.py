"""A plan is used again only while everything that the step reads is as it was."""

from __future__ import annotations

import pytest

from tests.cell_changes import CHANGES
from tests.guards import assert_equal, by_the_engine, differ, plainly, reason_of, stages_of
from unspool.engine import planning


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_between_two_runs_counts(name: str) -> None:
    """Every stage of the entry is run twice: after the change, and once more by what was remembered of that run."""
    entry = CHANGES[name]
    before = None
    with stages_of(entry) as stages:
        for number, stage in enumerate(stages):
            expected = plainly(stage)
            if before is not None:
                assert differ(before, expected) is not stage.alike, f"change {number} has no effect to be missed"
            before = expected
            assert_equal(by_the_engine(stage), expected, stage, f"after change {number}")
            traces = planning.traces
            assert_equal(by_the_engine(stage), expected, stage, f"after change {number}, again")
            assert planning.traces == traces, f"after change {number} the same call is traced again"
            if number == 0 and not entry.may_refuse:
                assert reason_of(stage) is None
        assert number > 0
