"""Planning and compiling a new cell in a fresh process: with an empty compile cache, and again with what that left.

What is imported and initialised once a process, whatever the cell, is done before: modules, CUDA, and the compiler's
library.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.cuda.timing import Settings


def measure(case: str, options: Mapping[str, Any], settings: Settings) -> Iterator[dict[str, Any]]:
    """A line for each of two processes with a folder of their own for what they compile."""
    shape = "x".join(map(str, settings.shape(options["shape"])))
    command = [sys.executable, "-m", "benchmarks.cuda.first_call", case, shape, options["dtype"], settings.device]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "UNSPOOL_CACHE": folder}
        for what in ("cold", "cached"):
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            if done.returncode:
                yield {"what": what, "failed": (done.stderr.strip().splitlines() or ["no reason"])[-1]}
                return
            yield {"what": what, **json.loads(done.stdout.splitlines()[-1])}


def main(case: str, shape: str, dtype: str, device: str) -> None:
    """Prints a line of the seconds that `explain` takes, which plans and compiles, and then the first training step."""
    from benchmarks.cuda.problems import planned, problem_of
    from benchmarks.cuda.timing import synchronize
    from benchmarks.peers import dynamic_rnn

    rows, steps, units = map(int, shape.split("x"))
    problem = problem_of(case, (rows, steps, units), dtype, device)
    began = time.perf_counter()
    warm_up(device)
    ready = time.perf_counter()
    told = planned(problem)
    explained = time.perf_counter()
    dynamic_rnn(problem).run()
    synchronize(device)
    seconds = {"warm_up_s": ready - began, "explain_s": explained - ready, "call_s": time.perf_counter() - explained}
    print(json.dumps({**told, **{name: round(value, 3) for name, value in seconds.items()}}))


def warm_up(device: str) -> None:
    """Loads what every cell needs, by a cell that has nothing in common with the one to come."""
    import torch

    from benchmarks.cuda.problems import planned, problem_of

    planned(problem_of("RNN", (2, 3, 8), "float32", "cpu"))  # the tracer, and passes
    if device == "cuda":
        from unspool.engine.emit.cuda.loop import nvrtc, part, running

        assert part
        assert running
        nvrtc.compiled('extern "C" __global__ void core() {}', "sm_90")
        nvrtc.bindings("driver")
        side = torch.randn(64, 64, device=device, dtype=torch.bfloat16)
        (side @ side).sum().item()


if __name__ == "__main__":
    main(*sys.argv[1:])
