"""Compiles C++ with the system's compiler, and keeps the results for later processes.

Binaries are named by a hash of everything that they depend on. They are only ever loaded from a folder that nobody else
can write to, and only if they are whole: each ends with a checksum of itself.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path

from unspool.engine.emit.reasons import CannotEmitError

FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-shared",
    "-fopenmp-simd",  # loops are marked as free of order; no OpenMP runtime is used
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
)
LONGEST = 300
"""Seconds that a compiler may take."""

_CHECKSUM = 32
_builds: dict[str, Build] = {}
_lock = threading.Lock()


class Build:
    """A shared library on its way: compiled in the background unless it was before.

    >>> library = Build.of('extern "C" __attribute__((visibility("default"))) int two() { return 2; }').library()
    >>> library.two()
    2
    """

    def __init__(self, source: str, key: str) -> None:
        self.source = source
        self._key, self._lock = key, threading.Lock()
        self._library: ctypes.CDLL | None = None
        self._error: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = _folder()
        if not _is_whole(self._path):
            self._start()

    @classmethod
    def of(cls, source: str) -> Build:
        """The build of `source`; one for the whole process.

        Raises:
            CannotEmitError: if there is no compiler.
        """
        key = _key(source, compiler())
        with _lock:
            if key not in _builds:
                _builds[key] = cls(source, key)
            return _builds[key]

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._key}.so"

    def library(self) -> ctypes.CDLL:
        """The library, once it is there.

        Raises:
            CannotEmitError: if it cannot be compiled or loaded.
        """
        with self._lock:
            if self._library is None and self._error is None:
                try:
                    self._library = self._load()
                except (OSError, subprocess.SubprocessError) as error:
                    self._error = f"the compiled loop cannot be loaded: {error}"
                except CannotEmitError as error:
                    self._error = str(error)
            if self._library is None:
                raise CannotEmitError(self._error)
            return self._library

    def _start(self) -> None:
        handle, name = tempfile.mkstemp(suffix=".so", prefix=f"{self._key}.", dir=self._folder)
        os.close(handle)
        self._temporary = Path(name)
        command = [*compiler(), *FLAGS, *_for_this_machine(), "-x", "c++", "-", "-o", name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        # A short source fits into the pipe, a long one is read as it is compiled: the thread waits for that.
        self._feeding = threading.Thread(target=self._feed, daemon=True)
        self._feeding.start()

    def _feed(self) -> None:
        assert self._process is not None
        try:
            _, self._complaints = self._process.communicate(self.source.encode(), timeout=LONGEST)
        except (OSError, subprocess.SubprocessError) as error:
            self._process.kill()
            self._complaints = str(error).encode()

    def _load(self) -> ctypes.CDLL:
        if self._process is not None:
            self._finish(self._process)
        try:
            return ctypes.CDLL(str(self._path))
        except OSError:
            if self._process is not None:
                raise
            self._start()  # whole, but not for this machine
            return self._load()

    def _finish(self, process: subprocess.Popen[bytes]) -> None:
        self._feeding.join()
        try:
            if process.returncode != 0:
                lines = self._complaints.decode(errors="replace").strip().splitlines()
                first = next((line for line in lines if "error" in line), lines[0] if lines else "no message")
                raise CannotEmitError(f"{shlex.join(compiler())} failed: {first}")
            content = self._temporary.read_bytes()
            with self._temporary.open("ab") as file:
                file.write(hashlib.sha256(content).digest())
            self._temporary.replace(self._path)
        finally:
            self._temporary.unlink(missing_ok=True)


def compiler() -> tuple[str, ...]:
    """The command of the C++ compiler.

    Raises:
        CannotEmitError: if there is none.
    """
    wanted = os.environ.get("CXX")
    candidates = [shlex.split(wanted)] if wanted else [["g++"], ["clang++"]]
    for command in candidates:
        if command and shutil.which(command[0]):
            return tuple(command)
    looked = f"$CXX, {wanted}" if wanted else "g++ or clang++"
    raise CannotEmitError(f"no C++ compiler: looked for {looked}")


def _key(source: str, command: tuple[str, ...]) -> str:
    """A hash of everything that the binary depends on."""
    found = Path(shutil.which(command[0]) or command[0]).resolve()
    about = found.stat()
    parts = (source, *command, str(found), about.st_size, about.st_mtime_ns, *FLAGS, *_for_this_machine(), _cpu())
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:40]


@cache
def _for_this_machine() -> tuple[str, ...]:
    flags = {"x86_64": ("-march=native",), "AMD64": ("-march=native",), "aarch64": ("-mcpu=native",)}
    return flags.get(platform.machine(), ())


@cache
def _cpu() -> str:
    """What this processor can do; a binary is not for another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))


# -- the folder -------------------------------------------------------------------------------------------------------


def _folder() -> Path:
    """Where binaries are kept: the user's cache, or a folder of this process if that cannot be trusted."""
    named = os.environ.get("UNSPOOL_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    folder = Path(named) if named else Path(home) / "unspool"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_ours(folder.lstat(), stat.S_ISDIR) and os.access(folder, os.W_OK | os.X_OK):
            return folder
    except OSError:
        pass
    return _own_folder()


@cache
def _own_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="unspool-"))
    process = os.getpid()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == process else None)
    return folder


def _is_ours(about: os.stat_result, right_kind: object) -> bool:
    """Whether nobody else could have written it."""
    assert callable(right_kind)
    return right_kind(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o022


def _is_whole(path: Path) -> bool:
    """Whether a binary is there, ours, and as it was written."""
    try:
        if not _is_ours(path.lstat(), stat.S_ISREG):
            return False
        content = path.read_bytes()
    except OSError:
        return False
    return len(content) > _CHECKSUM and hashlib.sha256(content[:-_CHECKSUM]).digest() == content[-_CHECKSUM:]
