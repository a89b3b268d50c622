"""Measures one case after another, each in a process of its own that is ended when it takes too long.

On a GPU, a kernel that waits for ever or writes where it must not takes its process with it: then one case is lost.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any


def measured_apart(module: str, options: Sequence[str], seconds: float) -> Iterator[dict[str, Any]]:
    """The lines of JSON that `python -m module *options` prints, and one that says why if it does not end well."""
    command = [sys.executable, "-m", module, *options]
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
        printed, complaint, status = done.stdout, done.stderr.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as error:
        printed, complaint, status = error.stdout or b"", f"it took more than {seconds:g} s", -9
    for line in printed.decode(errors="replace").splitlines():
        if line.startswith("{"):
            yield json.loads(line)
    if status:
        yield {"command": " ".join(command[2:]), "failed": complaint.strip().splitlines()[-1:] or [f"status {status}"]}
