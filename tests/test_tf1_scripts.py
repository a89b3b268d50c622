"""Programs that say `import tensorflow` run unchanged, learn, and have TensorFlow's losses."""

from __future__ import annotations

import contextlib
import io
import json

import pytest
import torch

from conformance.tf1_compare_scripts import TOLERANCE, run_compared, worst
from tests.tf1_scripts import COMPARED, RECORDED, SCRIPTS, losses
from unspool.tf1.running.runner import run


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_program_learns(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """It raises if it does not; what it writes goes to a folder of its own, what it draws does not depend on others."""
    monkeypatch.chdir(str(tmp_path))
    with contextlib.redirect_stdout(io.StringIO()) as printed, torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        run(SCRIPTS[name])
    assert len(losses(printed.getvalue())) > 1


@pytest.mark.parametrize("name", COMPARED)
def test_20_steps_are_those_of_tensorflow(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert worst(run_compared(name), json.loads((RECORDED / f"{name}.json").read_text())) <= TOLERANCE


def test_there_is_what_tensorflow_computed_for_every_program() -> None:
    assert {path.stem for path in RECORDED.glob("*.json")} == set(COMPARED)
