"""Compilers that fail, hang or are still at work when the process ends: a reason, and nothing left behind."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compiling import (
    FUNCTION,
    GARBAGE,
    KILLED,
    LAST,
    NOTHING,
    answer,
    as_a_new_process,
    is_running,
    own_cache,
    real_compiler,
    run_python,
    script,
    wait_for,
)
from unspool.engine.emit.cpp.libraries import build
from unspool.engine.emit.cpp.libraries.build import Build
from unspool.engine.emit.errors import CannotEmitError

LONG = "\n// a comment that fills pipes" * 200_000 + "\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    as_a_new_process(monkeypatch)
    yield from own_cache(tmp_path, monkeypatch)


def reason(source: str) -> str:
    """Why there is no library; the same however often one asks."""
    made = Build.of(source)
    with pytest.raises(CannotEmitError) as first:
        made.library()
    with pytest.raises(CannotEmitError) as second:
        made.library()
    assert str(first.value) == str(second.value)
    return str(first.value)


class TestFailingCompilers:
    """There is a reason, nothing is kept, and nothing is left behind."""

    @pytest.fixture(autouse=True)
    def nothing_is_kept(self, cache: Path) -> Iterator[None]:
        yield
        assert list(cache.glob("*")) == []

    def test_none(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(CannotEmitError, match=r"^no C\+\+ compiler: looked for g\+\+ or clang\+\+$"):
            Build.of(FUNCTION.format(60))

    @pytest.mark.parametrize("command", ["/nowhere/c++", "no-such-compiler -O1", "   "])
    def test_one_that_is_not_there(self, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CXX", command)
        with pytest.raises(CannotEmitError) as error:
            Build.of(FUNCTION.format(60))
        assert str(error.value) == f"no C++ compiler: looked for $CXX, {command}"

    def test_a_command_that_cannot_be_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CXX", "g++ 'and no end")
        with pytest.raises(CannotEmitError, match=r"\$CXX, g\+\+ 'and no end, is no command: No closing quotation"):
            Build.of(FUNCTION.format(60))

    def test_a_file_that_is_no_program(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = tmp_path / "text"
        file.write_text("not a program")
        file.chmod(0o755)
        monkeypatch.setenv("CXX", str(file))
        with pytest.raises(CannotEmitError, match=r"text cannot be started: .*Exec format error"):
            Build.of(FUNCTION.format(60))

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ("exit 1\n", "exit status 1, no message"),
            ("echo one >&2; echo an error: two >&2; echo an error: three >&2; exit 3\n", "an error: two"),
            ("echo one >&2; echo two >&2; exit 3\n", "one"),
            (KILLED, "it was ended by signal 9"),
            (NOTHING, "it has made nothing"),
            (LAST + 'mkdir "$last"\n', "it has made nothing"),
        ],
    )
    def test_one_that_fails(self, body: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        compiler = script(tmp_path / "failing", body)
        monkeypatch.setenv("CXX", compiler)
        assert reason(FUNCTION.format(61)) == f"{compiler} failed: {expected}"

    @pytest.mark.parametrize("body", [GARBAGE, LAST + ': > "$last"\n'], ids=["garbage", "an empty file"])
    def test_one_that_makes_no_library(self, body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        compiler = script(tmp_path / "failing", body)
        monkeypatch.setenv("CXX", compiler)
        found = reason(FUNCTION.format(62))
        assert found.startswith(f"what {compiler} has made cannot be loaded: ")
        assert str(tmp_path / "cache") not in found

    def test_a_mistake_in_the_source(self, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
        """The reason is one line; the log has them all."""
        compiler = real_compiler()
        with caplog.at_level(logging.DEBUG, "unspool"):
            found = reason("int answer() { return nowhere; }\nint other() { return elsewhere; }\n")
        assert found.startswith(f"{compiler} failed: ")
        assert "error" in found
        assert "nowhere" in found
        (message,) = caplog.messages
        assert "nowhere" in message
        assert "elsewhere" in message

    def test_a_comment_that_swallows_a_line(self) -> None:
        real_compiler()
        found = reason('extern "C" int answer() {\n  int x = 1;\n  // the path is C:\\\n  x = 2;\n  return x;\n}\n')
        assert "comment" in found

    def test_one_that_hangs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is ended, with everything that it has started."""
        notes = tmp_path / "processes"
        compiler = script(tmp_path / "hanging", f"sleep 600 &\necho $$ $! > {notes}\nwait\n")
        monkeypatch.setenv("CXX", compiler)
        monkeypatch.setattr(build, "LONGEST", 0.5)
        before = time.monotonic()
        assert reason(FUNCTION.format(63)) == f"{compiler} failed: it took more than 0.5 seconds"
        assert time.monotonic() - before < 20
        wait_for(lambda: not any(is_running(int(each)) for each in notes.read_text().split()))

    def test_no_temporary_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real_compiler()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
        with pytest.raises(CannotEmitError, match=r"cannot be started: .*No such file or directory"):
            Build.of(FUNCTION.format(64))

    def test_no_more_threads(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        notes = tmp_path / "process"
        monkeypatch.setenv(
            "CXX", script(tmp_path / "slow", f"echo $$ > {notes}.new\nmv {notes}.new {notes}\nsleep 600\n")
        )
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(CannotEmitError, match="cannot be started: can't start new thread"):
            Build.of(FUNCTION.format(65))
        if notes.exists():
            assert not is_running(int(notes.read_text()))


class TestLongTexts:
    """Pipes hold little: whoever writes more has to wait, and nobody may wait for ever."""

    @pytest.fixture(autouse=True)
    def bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(build, "LONGEST", 60)

    def test_long_source(self) -> None:
        real_compiler()
        assert answer(FUNCTION.format(70) + LONG) == 70

    def test_long_source_that_is_not_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CXX", script(tmp_path / "deaf", "exec 0<&-\nsleep 0.2\necho an error: deaf >&2\nexit 1\n"))
        assert reason(FUNCTION.format(71) + LONG).endswith("failed: an error: deaf")

    def test_long_complaints(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        compiler = real_compiler()
        complaining = "head -c 5000000 /dev/zero | tr '\\0' 'x' >&2\n"
        monkeypatch.setenv("CXX", script(tmp_path / "loud", f'{complaining}exec {compiler} "$@"\n'))
        assert answer(FUNCTION.format(72) + LONG) == 72

    def test_strange_characters(self) -> None:
        real_compiler()
        assert answer(FUNCTION.format(73) + "\n// \udce4 \U0001f9f5 \x00 \u2028 \x0c\n") == 73


class TestEndOfTheProcess:
    """A compiler that is still at work when its process ends is ended with it."""

    @pytest.fixture
    def slow(self, tmp_path: Path) -> str:
        """Notes its processes, has files of its own, and does not end."""
        here = str(tmp_path / "processes")
        body = 'echo $$ > "$TMPDIR/own"\nfor last; do :; done\necho half > "$last"\nsleep 600 &\n'
        return script(tmp_path / "slow", f"{body}echo $$ $! >> {here}\nwait\n")

    @pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "interrupted()"])
    def test_main_process(self, end: str, slow: str, cache: Path, tmp_path: Path) -> None:
        program = f"""
import os, signal, sys, threading, time
from pathlib import Path
from unspool.engine.emit.cpp.libraries.build import Build

def interrupted():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a program in the background does not have
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        made.library()
    except KeyboardInterrupt:
        return
    assert False

made = Build.of({FUNCTION.format(80)!r})
while not Path({str(tmp_path / "processes")!r}).exists():
    time.sleep(0.01)
{end}
"""
        done = run_python(program, tmp_path, timeout=60, CXX=slow, UNSPOOL_CACHE=str(cache))
        assert done.stderr == ""
        self.nothing_is_left(tmp_path, cache, 1)

    def test_processes_of_multiprocessing(self, slow: str, cache: Path, tmp_path: Path) -> None:
        program = f"""
import multiprocessing, time
from pathlib import Path
from unspool.engine.emit.cpp.libraries.build import Build

def work(number):
    Build.of({FUNCTION!r}.format(number))
    while len(Path({str(tmp_path / "processes")!r}).read_text().splitlines()) < number:
        time.sleep(0.01)

if __name__ == "__main__":
    Path({str(tmp_path / "processes")!r}).touch()
    work(1)
    for number, method in ((2, "fork"), (3, "spawn")):
        child = multiprocessing.get_context(method).Process(target=work, args=(number,), daemon=True)
        child.start()
        child.join(60)
        assert child.exitcode == 0
"""
        done = run_python(program, tmp_path, CXX=slow, UNSPOOL_CACHE=str(cache))
        assert done.stderr == ""
        self.nothing_is_left(tmp_path, cache, 3)

    def nothing_is_left(self, tmp_path: Path, cache: Path, calls: int) -> None:
        lines = (tmp_path / "processes").read_text().splitlines()
        assert len(lines) == calls
        wait_for(lambda: not any(is_running(int(each)) for line in lines for each in line.split()), 5)
        assert list(cache.iterdir()) == []
        assert list((tmp_path / "tmp").iterdir()) == []


def test_fork_while_a_compiler_is_at_work(cache: Path, tmp_path: Path) -> None:
    """Each process gets its library, whatever the other does meanwhile."""
    slow = script(tmp_path / "slow", f'sleep 1\nexec {real_compiler()} "$@"\n')
    program = f"""
import os, sys, threading, time
from unspool.engine.emit.cpp.libraries import build
from unspool.engine.emit.cpp.libraries.build import Build

def forked(work):
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(1)
    sys.exit(0)  # with all that is done at the end of a process

used, unused, waited = (Build.of({FUNCTION!r}.format(number)) for number in (90, 91, 92))
waiting = threading.Thread(target=waited.library)
waiting.start()
time.sleep(0.1)  # now it holds a lock

def all_of_them():
    assert [each.library().answer() for each in (used, unused, waited)] == [90, 91, 92]
    assert Build.of({FUNCTION!r}.format(93)).library().answer() == 93

with build._lock.own:  # as if another thread were in the middle of it
    children = [forked(lambda: None), forked(all_of_them), forked(lambda: used.library() and None)]
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
all_of_them()
"""
    done = run_python(program, tmp_path, timeout=60, CXX=slow, UNSPOOL_CACHE=str(cache))
    assert done.stderr == ""
    assert len(list(cache.glob("*.so"))) == 4
