"""Programs for TensorFlow 1 compute under `unspool.tf1` what they compute under TensorFlow, and by hand."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from conformance.compare import Comparison
from conformance.tf1_compare import compare_by_hand, compare_notes, load, rerun
from tests.tf1_programs import PROGRAMS
from tests.tf1_programs.program import Arrays, Program
from unspool import tf1

FOLDER = Path(__file__).parent / "data" / "tf1"

Run = tuple[Program, Arrays, Arrays]


@functools.cache
def run_of(name: str) -> Run:
    stored = load(FOLDER / f"{name}.npz")
    return *rerun(tf1, name, stored), stored


@pytest.fixture(params=PROGRAMS)
def run(request: pytest.FixtureRequest) -> Run:
    """A program that was run, once for all tests, and what it noted beside what TensorFlow noted."""
    return run_of(request.param)


def problems(comparisons: list[Comparison]) -> dict[str, str]:
    return {comparison.key: comparison.problem for comparison in comparisons if comparison.problem}


def test_there_is_what_tensorflow_computed_for_every_program():
    assert {path.stem for path in FOLDER.glob("*.npz")} == set(PROGRAMS)


def test_variables_and_placeholders_have_the_names_of_tensorflow(run: Run):
    _, notes, stored = run
    assert str(notes["variables"]) == str(stored["variables"])
    assert str(notes["placeholders"]) == str(stored["placeholders"])


def test_fetches_are_what_numpy_computes_by_hand(run: Run):
    program, notes, _ = run
    assert not problems(list(compare_by_hand(program, notes)))


def test_20_steps_of_training_are_those_of_tensorflow(run: Run):
    _, notes, stored = run
    assert not problems(list(compare_notes(notes, stored)))
