"""Cells in many processes: `DistributedDataParallel` and `fully_shard` on a cell, around it and within it."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.compiling import ENGINE, run_python
from tests.many_processes import cases

pytestmark = [pytest.mark.compiled, pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")]

IMPORTS = f"{ENGINE}\nimport tests.many_processes"
FOUND: dict[int, Any] = {}


@pytest.fixture
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What went wrong in each case of so many processes, which are started once."""
    world = request.param
    if world not in FOUND:
        code = f"from tests.many_processes import start\nstart({world})"
        folder = tmp_path_factory.mktemp("processes")
        FOUND[world] = None
        done = run_python(code, folder, 90, imports=IMPORTS, PYTHONWARNINGS="error")
        FOUND[world] = json.loads(done.stdout.splitlines()[-1])
    assert FOUND[world] is not None, "the processes failed before"
    return FOUND[world]


@pytest.mark.parametrize("case", cases(2))
@pytest.mark.parametrize("found", [2], indirect=True, ids=["2 processes"])
def test_two_processes(found: Any, case: str) -> None:
    assert found[case] == [], "\n".join(found[case])


@pytest.mark.parametrize("case", cases(4))
@pytest.mark.parametrize("found", [4], indirect=True, ids=["4 processes"])
def test_gradients_of_four_are_those_of_one(found: Any, case: str) -> None:
    assert found[case] == [], "\n".join(found[case])
