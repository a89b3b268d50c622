"""Processes of their own for programs, forked from one that has imported torch: that takes longer than most of them."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import IO, Any

SERVER = """
import json, os, runpy, sys, tempfile
{imports}

for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if not child:
        break
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
else:
    os._exit(0)

os.setsid()
for stream, name in enumerate(["/dev/null", job["stdout"], job["stderr"]]):
    os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), stream)
sys.stdin.close()
os.chdir(job["folder"])
os.environ.clear()
os.environ.update(job["environment"])
tempfile.tempdir = None  # as the environment has it
sys.argv = [job["program"]]
sys.path[0] = job["folder"]
runpy.run_path(job["program"], run_name="__main__")
"""


class Nursery:
    """Runs programs one after another, each in a child of a process that has imported something.

    The child is as a process of its own is, but for what is imported already: it has its own environment, session,
    temporary folder and standard streams, and ends as any other.

    Args:
        imports: what is imported before.
        root: where unspool is.
    """

    def __init__(self, imports: str, root: Path) -> None:
        paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER.format(imports=imports)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "2"},  # read with torch
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        atexit.register(self._end)

    def _end(self) -> None:
        with self._server:  # which closes its pipes
            self._server.kill()

    def run(self, program: Path, folder: Path, environment: dict[str, str], timeout: float) -> tuple[int, str, str]:
        """The exit status of a program, and what it has written.

        Raises:
            TimeoutError: if it takes longer than so many seconds; it is ended then, with all that it has started.
        """
        streams = {name: folder / f"{program.stem}.{name}" for name in ("stdout", "stderr")}
        for each in streams.values():
            each.unlink(missing_ok=True)
        job = {
            "program": str(program),
            "folder": str(folder),
            "environment": environment,
            **{name: str(file) for name, file in streams.items()},
        }
        write, read = _pipe(self._server.stdin), _pipe(self._server.stdout)
        write.write(json.dumps(job) + "\n")
        write.flush()
        child = int(read.readline())
        late = threading.Event()

        def end() -> None:
            late.set()
            os.killpg(child, signal.SIGKILL)

        timer = threading.Timer(timeout, end)
        timer.start()
        try:
            status = int(read.readline())
        except BaseException:
            end()
            raise
        finally:
            timer.cancel()
        if late.is_set():
            raise TimeoutError(f"{program} took more than {timeout} s")
        return status, streams["stdout"].read_text(), streams["stderr"].read_text()


def _pipe(stream: IO[str] | None) -> Any:
    assert stream is not None
    return stream


@cache
def nursery(imports: str, root: Path) -> Nursery:
    """One for all tests of this process."""
    return Nursery(imports, root)
