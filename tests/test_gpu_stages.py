"""The runner behind `make gpu-test`: a stage that hangs or fails does not take the others with it."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from benchmarks import apart
from tests import gpu


def stage(name: str, code: str, seconds: float = 60) -> gpu.Stage:
    return gpu.Stage(name, (sys.executable, "-S", "-c", code), seconds)


def test_every_stage_runs_and_says_how_it_ended(capsys: pytest.CaptureFixture[str]) -> None:
    hangs = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    given = [
        stage("fails", "raise SystemExit('a kernel failed')"),
        stage("hangs", hangs, seconds=1),
        stage("passes", "print('unseen')"),
    ]
    assert not gpu.run_all(given)
    printed = capsys.readouterr().out
    assert "fails            failed, exit status 1" in printed
    assert "  | a kernel failed" in printed
    assert "hangs            took more than 1 s, and was ended" in printed
    assert "passes           passed" in printed
    assert "unseen" not in printed
    pid = int(printed.split("was ended")[1].split("  | ")[1].split()[0])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    assert gpu.run_all(given[2:])


WORKER = """
import json, sys, time
for case in sys.argv[1:]:
    if case == "hangs":
        time.sleep(600)
    if case == "ends":
        sys.exit("a kernel failed")
    print(json.dumps({"case": case}), flush=True)
    print(json.dumps({"done": case}), flush=True)
"""


def test_a_case_that_is_measured_apart_costs_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "STARTING", 1.0)
    command = [sys.executable, "-S", "-c", WORKER]
    found = list(apart.measured_apart(command, ["one", "ends", "two", "hangs", "three"], 1))
    failures = {each["case"]: each.get("failed") for each in found}
    late = failures.pop("hangs")
    assert failures == {"one": None, "ends": "a kernel failed", "two": None, "three": None}
    assert late is not None
    assert late.startswith("it took more than")


def test_cases_that_cannot_begin_are_not_tried_one_by_one() -> None:
    found = list(apart.measured_apart([sys.executable, "-S", "-c", "raise SystemExit('no GPU')"], ["a", "b", "c"], 60))
    assert [each["failed"] for each in found] == ["no GPU"] * 3


def test_stages_are_of_tests_that_exist() -> None:
    from tests import test_cuda_loop_device

    names = [each.command[-1].partition("::")[2] for each in gpu.stages() if gpu.DEVICE in each.command[-1]]
    assert names
    assert all(hasattr(test_cuda_loop_device, name) for name in names)
