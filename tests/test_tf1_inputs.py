"""What programs read their inputs with, and train in, does what it does under TensorFlow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tf1_inputs import CASES, MISTAKES
from tests.tf1_inputs.noting import complaint, differences, noted
from unspool import tf1

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "tf1_inputs.json").read_text())


def test_there_is_what_tensorflow_made_of_every_case() -> None:
    assert set(RECORDED) == {*CASES, *MISTAKES}


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_as_under_tensorflow(name: str, tmp_path: Path) -> None:
    assert differences(noted(tf1, CASES[name], tmp_path), RECORDED[name]) == []


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_raises_what_tensorflow_raises(name: str, tmp_path: Path) -> None:
    assert complaint(tf1, MISTAKES[name], tmp_path) == RECORDED[name]
