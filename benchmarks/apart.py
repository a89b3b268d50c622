"""Measures one case after another in a process that is ended when a case takes too long, and begun again after it.

On a GPU, a kernel that waits for ever or writes where it must not takes its process with it: then one case is lost.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

STARTING = 90.0
"""Seconds that a process may take until it has begun."""


def measured_apart(
    command: Sequence[str], cases: Sequence[str], seconds: float, until: float = float("inf")
) -> Iterator[dict[str, Any]]:
    """The lines of JSON that `command`, given the cases as arguments, prints of them.

    Where a case ends its process, or takes too long, a line says why, and the cases after it have a new process.

    Args:
        command: what to run; it prints a line with `done` after each case.
        cases: all of them, in order.
        seconds: how long a case may take.
        until: the time by `time.monotonic` when all of it has to end.
    """
    left, nothing = list(cases), 0
    while left:
        before = len(left)
        why = yield from _one_process(command, left, seconds, until)
        nothing = 0 if len(left) < before else nothing + 1
        if nothing > 1 or time.monotonic() > until:  # none of them would begin
            yield from ({"case": each, "failed": why} for each in left)
            return
        if left:
            yield {"case": left.pop(0), "failed": why}


def _one_process(
    command: Sequence[str], left: list[str], seconds: float, until: float
) -> Generator[dict[str, Any], None, str]:
    """The lines of one process, which takes its cases from those that are left; why it did not do all of them."""
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen([*command, *left], stdout=subprocess.PIPE, stderr=complaints, start_new_session=True)
        lines: queue.Queue[bytes | None] = queue.Queue()
        reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
        reader.start()
        allowed = STARTING + seconds
        last = time.monotonic()
        try:
            while True:
                try:
                    line = lines.get(timeout=max(0.0, min(last + allowed, until) - time.monotonic()))
                except queue.Empty:
                    return f"it took more than {allowed:g} s" if time.monotonic() < until else "no time was left"
                if line is None:
                    break
                said = json.loads(line) if line.startswith(b"{") else {}
                if "done" in said:
                    left.pop(0)
                    allowed, last = seconds, time.monotonic()
                elif said:
                    yield said
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # what it has started too
            status = process.wait()
            reader.join()
        complaints.seek(0)
        text = complaints.read().decode(errors="replace").strip().splitlines()
        return text[-1] if text else f"status {status}"


def _read(process: subprocess.Popen[bytes], lines: queue.Queue[bytes | None]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.put(line)
    lines.put(None)
