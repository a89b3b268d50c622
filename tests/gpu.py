"""`make gpu-test`: what needs a GPU, the smallest first, each stage in a process that is ended when it takes too long.

    python -m tests.gpu                    # all stages
    python -m tests.gpu --only "two blocks" lengths
    python -m tests.gpu --until-failure    # where time on a device is short

A kernel that waits for ever, or writes where it must not, takes its process with it and nothing else: the stages after
it still say what they can. The first that fails is the one to look at; what it printed, and how to run it alone, is
printed with it.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-W", "default")
"""Warnings are not errors here: torch may be another version than the one that is pinned."""
DEVICE, CLUSTERS = "tests/test_cuda_loop_device.py", "tests/test_cuda_clusters_device.py"
ABOUT = """
import torch
from importlib.metadata import version
from unspool.engine.emit.cuda.loop import driver, nvrtc
machine = driver.Cuda(torch.device("cuda", 0))
print(torch.cuda.get_device_name(), machine.limits())
print("torch", torch.__version__, "cuda-bindings", version("cuda-bindings"), "NVRTC", nvrtc.version())
"""


@dataclass(frozen=True)
class Stage:
    """A command, and how long it may take.

    Args:
        name: what it is about.
        command: what to run.
        seconds: how long it may take.
        environment: what it is told besides.
    """

    name: str
    command: Sequence[str]
    seconds: float
    environment: dict[str, str] = field(default_factory=dict[str, str])


def loops(name: str, which: str, seconds: float, *before: str, workers: int = 0, more: Sequence[str] = ()) -> Stage:
    """Tests of kernels that run loops, by so many workers, and more; `before` is the program that they run under."""
    beside = ("-n", str(workers)) if workers and find_spec("xdist") else ()
    return Stage(name, (*before, *PYTEST, *beside, f"{DEVICE}::{which}", *more), seconds)


def stages() -> list[Stage]:
    """All of them, each larger than the one before."""
    found = [
        Stage("device", (sys.executable, "-c", ABOUT), 60),
        loops("one block", "TestOneBlock", 90),
        loops("whole rows", "TestWholeRows", 120),
        loops("host numbers", "TestNumbersOnTheHost", 60),
        loops("two blocks", "TestTwoBlocks", 180),
        Stage("clusters", (*PYTEST, CLUSTERS), 240),
        loops("cells", "TestCells", 600),
        loops("drawn cells", "TestDrawn", 900, workers=10),
        loops("lengths", "TestLengths", 180),
        loops("recorded", "TestRecorded", 180),
        loops("at once", "TestAtOnce", 240),
        loops("many launches", "TestManyLaunches", 600),
    ]
    sanitizer = shutil.which("compute-sanitizer", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")
    if sanitizer is not None:
        checked = (sanitizer, "--error-exitcode", "9", "--report-api-errors", "no", "--tool")
        found.append(loops("memcheck", "TestTwoBlocks", 600, *checked, "memcheck", more=[CLUSTERS]))
        found.append(loops("racecheck", "TestTwoBlocks", 600, *checked, "racecheck", more=[CLUSTERS]))
    kernels = map(str, sorted(Path("tests").glob("test_kernels*.py")))
    graphs = ["tests/test_cuda.py", "tests/test_cuda_decode.py", *kernels]
    found.append(Stage("graphs", (*PYTEST, *graphs), 900))
    return found


def run(stage: Stage) -> tuple[str, float, str]:
    """How a stage ended, the seconds that it took, and what it printed."""
    began = time.monotonic()
    process = subprocess.Popen(
        list(stage.command),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **stage.environment},
        start_new_session=True,  # so that what it starts ends with it
    )
    try:
        text, _ = process.communicate(timeout=stage.seconds)
        ended = "passed" if process.returncode == 0 else f"failed, exit status {process.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        ended = f"took more than {stage.seconds:g} s, and was ended"
    return ended, time.monotonic() - began, text


def run_all(given: Sequence[Stage], *, until_failure: bool = False) -> bool:
    """Whether all stages passed; prints how each ended, and ends with the first that failed if that is wanted."""
    passed = True
    for stage in given:
        ended, seconds, text = run(stage)
        print(f"{stage.name:16} {ended} ({seconds:.1f} s)", flush=True)
        if ended != "passed":
            passed = False
            tail = "\n".join(f"  | {line}" for line in text.splitlines()[-40:])
            print(f"{tail}\n  alone: CUDA_LAUNCH_BLOCKING=1 {shlex.join(stage.command)}", flush=True)
            if until_failure:
                break
    return passed


def main() -> None:
    """Runs the stages that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="STAGE", help=", ".join(each.name for each in stages()))
    parser.add_argument("--until-failure", action="store_true", help="end with the first stage that fails")
    options = parser.parse_args()
    chosen = [each for each in stages() if options.only is None or each.name in options.only]
    sys.exit(not run_all(chosen, until_failure=options.until_failure))


if __name__ == "__main__":
    main()
