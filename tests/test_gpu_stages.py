"""The runner behind `make gpu-test`: a stage that hangs or fails does not take the others with it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from benchmarks.apart import measured_apart
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


def test_a_case_that_is_measured_apart_may_fail(tmp_path: Path) -> None:
    line = tmp_path / "line.json"
    line.write_text('{"rows": 16}')
    assert list(measured_apart("json.tool", ["--compact", str(line)], 60)) == [{"rows": 16}]
    (failed,) = measured_apart("json.tool", [str(tmp_path / "missing.json")], 60)
    assert "missing.json" in failed["failed"][0]
    (late,) = measured_apart("http.server", ["0"], 0.5)
    assert late["failed"] == ["it took more than 0.5 s"]


def test_stages_are_of_tests_that_exist() -> None:
    from tests import test_cuda_loop_device

    names = [each.command[-1].partition("::")[2] for each in gpu.stages() if gpu.DEVICE in each.command[-1]]
    assert names
    assert all(hasattr(test_cuda_loop_device, name) for name in names)
