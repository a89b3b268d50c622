"""The order of the tests names files that are there."""

from __future__ import annotations

from pathlib import Path

from tests.lanes import LANES, LONGEST, lane, rank


def test_every_file_that_is_named_is_there() -> None:
    files = {each for names in LANES.values() for each in names} | (set(LONGEST) - set(LANES))
    assert {each for each in files if not (Path(__file__).parent / f"{each}.py").exists()} == set()


def test_files_of_a_lane_stay_together_and_the_longest_come_first() -> None:
    first, second, other = (f"tests/{each}.py::test_it[a::b]" for each in (*LANES["tables"][:2], "test_lanes"))
    assert lane(first) == lane(second) == "tables"
    assert lane(other) == "tests/test_lanes.py"
    assert sorted([other, second, first], key=rank) == [first, second, other]
