"""examples/train_distributed.py under `torchrun`: a process that is killed changes no bit of the weights."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.compiling import ENGINE, ROOT, run_python
from tests.profiles import SOAK

EXAMPLE = ROOT / "examples" / "train_distributed.py"
STEPS, EVERY = 24, 4
SIZES = ["--steps", str(STEPS), "--every", str(EVERY), "--rows", "80", "--batch-size", "4", "--units", "8"]
IMPORTS = f"{ENGINE}\nimport tests.many_processes\nimport torch.distributed.checkpoint.state_dict"


def undisturbed(folder: Path, parallel: str) -> dict[str, Any]:
    """The weights after training of which nobody is killed."""
    arguments = ["--parallel", parallel, "--folder", str(folder / "whole"), *SIZES]
    code = f"""
import runpy
from tests.many_processes import fork

example = runpy.run_path({str(EXAMPLE)!r})
fork(2, lambda: example["main"]({arguments!r}))
"""
    run_python(code, folder, imports=IMPORTS, PYTHONWARNINGS="error")
    return torch.load(folder / "whole" / "weights.pt")


def killed(folder: Path, parallel: str, at: int, victim: int) -> tuple[dict[str, Any], list[int]]:
    """The weights after training in which one process is killed, and the steps from which it went on."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=3"]
    arguments = ["--parallel", parallel, "--folder", str(folder), *SIZES]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment.pop("UNSPOOL_EMIT", None)
    begun: list[int] = []
    workers: list[int] = []
    with (
        (folder.parent / f"{folder.name}.log").open("w+") as log,
        subprocess.Popen(
            [*launcher, str(EXAMPLE), *arguments], stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        ) as run,
    ):
        assert run.stdout is not None
        for line in run.stdout:
            if " from step " in line:
                begun.append(int(line.split()[-1]))
                workers = workers or children(run.pid)
            elif line.startswith(f"step {at}:") and len(begun) == 1:
                os.kill(workers[victim], signal.SIGKILL)
        assert run.wait() == 0, Path(log.name).read_text()[-3000:]
    return torch.load(folder / "weights.pt"), begun


def children(process: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], text=True, capture_output=True, check=True)
    return sorted(int(each) for each in found.stdout.split())


def check(tmp_path: Path, parallel: str, draws: random.Random, kills: int) -> None:
    expected = undisturbed(tmp_path, parallel)
    for number in range(kills):
        at, victim = draws.randrange(1, STEPS - EVERY), draws.randrange(2)
        weights, begun = killed(tmp_path / f"killed {number}", parallel, at, victim)
        assert len(begun) == 2, begun  # it was killed, once
        assert begun[0] == 0
        assert begun[1] % EVERY == 0
        assert weights.keys() == expected.keys()
        for name, weight in weights.items():
            assert torch.equal(weight, expected[name]), f"{name} after a kill at step {at}, resumed from {begun[1]}"


@pytest.mark.drawn
@pytest.mark.compiled
@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.skipif(not SOAK, reason="starts thirty processes: `make soak`")
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_process_that_is_killed_changes_no_bit_of_the_weights(tmp_path: Path, parallel: str) -> None:
    check(tmp_path, parallel, random.Random(parallel), kills=5)
