"""What programs read their inputs with, and train in, does what it does under TensorFlow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.tf1_compare_inputs import problems
from tests.tf1_inputs import CASES, MISTAKES

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "tf1_inputs.json").read_text())


def test_there_is_what_tensorflow_made_of_every_case() -> None:
    assert {name for name in RECORDED if not name.startswith("drawn: ")} == {*CASES, *MISTAKES}


@pytest.mark.parametrize("name", RECORDED)
def test_a_case_is_as_under_tensorflow(name: str, tmp_path: Path) -> None:
    assert problems(name, RECORDED[name], tmp_path) == []
