"""Cells in many processes: `DistributedDataParallel` and `fully_shard` on a cell, around it and within it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.compiling import ENGINE, run_python
from tests.many_processes import CASES, OTHERS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")

IMPORTS = f"{ENGINE}\nimport tests.many_processes"


@pytest.fixture(scope="module", params=[2, 4], ids=lambda count: f"{count} processes")
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What went wrong in each case."""
    code = f"from tests.many_processes import start\nstart({request.param})"
    folder = tmp_path_factory.mktemp("processes")
    done = run_python(code, folder, imports=IMPORTS, OMP_NUM_THREADS="1", PYTHONWARNINGS="error")
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.compiled
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_one_process_and_the_loop_is_planned(found: Any, case: str) -> None:
    assert not found[case], "\n".join(found[case])


@pytest.mark.compiled
@pytest.mark.parametrize("case", [each.__name__ for each in OTHERS])
def test_in_two_processes(found: Any, case: str) -> None:
    if case in found:  # four have nothing to add
        assert not found[case], "\n".join(found[case])
