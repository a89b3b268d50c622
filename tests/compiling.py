"""Compilers that do what a test wants, and processes of their own."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.nursery import nursery
from unspool.engine.emit.cpp.libraries import build
from unspool.engine.emit.cpp.libraries.build import Build
from unspool.engine.emit.errors import CannotEmitError

ROOT = Path(__file__).parents[1]
LAST = "for last; do :; done\ncat > /dev/null\n"
"""Lines of a shell script: reads the source, and knows where the binary is expected."""

GARBAGE = LAST + 'head -c 20000 /dev/urandom > "$last"\n'
NOTHING = LAST
KILLED = "kill -9 $$\n"


FUNCTION = 'extern "C" __attribute__((visibility("default"))) int answer() {{ return {}; }}'
"""A source that gives an answer."""


def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of the test's own, and a place for temporary files in which none may be left."""
    folder, temporary = tmp_path / "cache", tmp_path / "tmp"
    temporary.mkdir()
    import_module("unspool.engine.run")  # loads torch's compiler, which makes a temporary folder of its own that stays
    monkeypatch.setenv("UNSPOOL_CACHE", str(folder))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield folder
    wait_for(lambda: not list(temporary.iterdir()))
    assert [each.name for each in folder.glob("*") if each.suffix != ".so"] == []


def as_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets what was built. What was loaded from a path stays so: it takes another path to see another file."""
    monkeypatch.setattr(build, "_builds", {})


def answer(source: str) -> int:
    return Build.of(source).library().answer()


def script(path: Path, body: str) -> str:
    """A shell script, to be called by its name. One that is there already stays: another would be another compiler."""
    text = f"#!/bin/sh\n{body}"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
        path.chmod(0o755)
    return str(path)


def real_compiler() -> str:
    """The one of this system; without it, the test is skipped."""
    try:
        return shlex.join(build.compiler())
    except CannotEmitError as reason:
        pytest.skip(str(reason))


class Counting:
    """The real compiler, which notes when it is called.

    Args:
        folder: where it is put.
        name: what it is called.
        flags: what it is given besides; with -O0 it is done sooner.
    """

    def __init__(self, folder: Path, name: str = "counting", flags: str = "") -> None:
        self._notes = folder / f"{name}.log"
        self._notes.touch()
        self.command = script(folder / name, f'echo called >> {self._notes}\nexec {real_compiler()} "$@" {flags}\n')

    @property
    def calls(self) -> int:
        return len(self._notes.read_text().splitlines())


class Done(NamedTuple):
    """What a process has written."""

    stdout: str
    stderr: str


ENGINE = "import torch, unspool\nunspool.engine.entry.run"
"""What loads all that a first plan does."""


def run_python(code: str, folder: Path, timeout: float = 120, *, imports: str = ENGINE, **environment: str) -> Done:
    """Runs `code` in a process of its own, whose temporary files are in `folder / "tmp"`; it must succeed.

    Args:
        code: a program.
        folder: where it runs.
        timeout: how many seconds it may take.
        imports: what the process has imported before; not for programs that want to see what is.
        environment: what it finds in its environment, besides what is here.
    """
    (folder / "tmp").mkdir(exist_ok=True)
    file = folder / "program.py"
    file.write_text(code)
    unset = {"UNSPOOL_EMIT", "UNSPOOL_CACHE", "CXX"}
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    own = {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp"), "OMP_NUM_THREADS": "2", **environment}
    status, output, errors = nursery(imports, ROOT).run(file, folder, {**inherited, **own}, timeout)
    assert status == 0, errors
    return Done(output, errors)


def is_running(process: int) -> bool:
    """Whether a process is there and not only waits to be forgotten by its parent."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], text=True, capture_output=True, check=False)
    return found.returncode == 0 and not found.stdout.strip().startswith("Z")


def wait_for(condition: Callable[[], Any], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)
