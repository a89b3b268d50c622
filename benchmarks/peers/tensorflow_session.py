"""The original session: real TensorFlow trains the same model, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import Contender
from benchmarks.tf1_models import Model

ROOT = Path(__file__).parents[2]


def python_with_tensorflow() -> str:
    """The interpreter of an environment that has TensorFlow: that of `make conformance`, or `TENSORFLOW_PYTHON`.

    Raises:
        ImportError: if there is none.
    """
    asked = os.environ.get("TENSORFLOW_PYTHON", str(ROOT / ".venv-tensorflow" / "bin" / "python"))
    if not Path(asked).exists():
        raise ImportError(f"no environment with TensorFlow: `make conformance` makes one, and there is no {asked}")
    return asked


def tensorflow_session(model: Model) -> Contender:
    """The same model, trained by TensorFlow on as many threads; it measures itself, so that no message counts."""
    asked = [str(torch.get_num_threads()), json.dumps(model.described())]
    command = [python_with_tensorflow(), "-m", "benchmarks.tensorflow_worker", *asked]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    worker = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    times: list[float] = []

    def run() -> Sequence[Any]:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
        answer = worker.stdout.readline()
        if not answer:
            raise RuntimeError(f"TensorFlow's process ended, with status {worker.wait()}")
        milliseconds, loss = json.loads(answer)
        times[:] = [milliseconds]
        return (loss,)

    weakref.finalize(run, _end, worker)
    return Contender("TensorFlow, a session", run, "tensorflow", clock=lambda: times[0])


def _end(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin is not None
    with suppress(BrokenPipeError):  # it may have ended by itself
        worker.stdin.close()
    worker.wait()
