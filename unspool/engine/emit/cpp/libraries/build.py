"""Builds C++ with the system's compiler, in the background, unless the compile cache has the library already.

Libraries are named by a hash of everything that they depend on.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from contextlib import suppress
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path

from unspool.engine.emit import compile_cache
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.reasons import Code
from unspool.forking import ForkSafeLock, after_fork

FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-shared",
    "-fopenmp-simd",  # loops are marked as free of order; no OpenMP runtime is used
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",  # integers wrap around, as torch's do
    "-fvisibility=hidden",
    "-Werror=comment",  # a comment that ends with a backslash would take the next line with it
)
LONGEST = 300
"""Seconds that a compiler may take."""

_builds: dict[str, Build] = {}
_lock = ForkSafeLock()
log = logging.getLogger("unspool")


class Build:
    """A shared library on its way: compiled in the background unless it was before.

    >>> library = Build.of('extern "C" __attribute__((visibility("default"))) int two() { return 2; }').library()
    >>> library.two()
    2
    """

    def __init__(self, source: str, key: str, command: tuple[str, ...]) -> None:
        self.source = source
        self._key, self._command, self._lock = key, command, ForkSafeLock()
        self._begin()

    @classmethod
    def of(cls, source: str) -> Build:
        """The build of `source`; one for the whole process.

        Raises:
            CannotEmitError: if there is no compiler.
        """
        command = compiler()
        key = _key(source, command)
        with _lock.own:
            if key not in _builds:
                _builds[key] = cls(source, key, command)
            return _builds[key]

    def library(self) -> ctypes.CDLL:
        """The library, once it is there.

        Raises:
            CannotEmitError: if it cannot be compiled or loaded.
        """
        with self._lock.own:
            if self._library is None and self._compilation is None:
                self._begin()
            if self._library is None and self._compilation is not None:
                self._library = self._compilation.library()
            assert self._library is not None
            return self._library

    def forget_compilation(self) -> None:
        """Forgets what the parent's threads were doing: this process has not got them, and the parent goes on."""
        if self._compilation is not None and not self._compilation.has_ended:
            self._compilation = None

    def _begin(self) -> None:
        folder = compile_cache.trusted_folder()
        kept = None if folder is None else folder / f"{self._key}.so"
        self._library = None if kept is None else compile_cache.load(kept)
        self._compilation = None if self._library else _Compilation(self._command, self.source, kept)


class _Compilation:
    """One run of the compiler, in the background and in a folder of its own, which does not outlive it.

    Args:
        command: the compiler.
        source: what it compiles.
        kept: where the binary is kept for later processes, if anywhere.
    """

    def __init__(self, command: tuple[str, ...], source: str, kept: Path | None) -> None:
        self._compiler, self._kept = shlex.join(command), kept
        self._library: ctypes.CDLL | None = None
        self._error = ""
        # Held until it is known what came out. An interrupted `Thread.join` takes its thread for ended (bpo-45274).
        self._working = threading.Lock()
        self._working.acquire()
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="unspool-"))
            self._binary = self._folder / "library.so"
            try:
                self._start(command, source)
            except BaseException:
                shutil.rmtree(self._folder, ignore_errors=True)
                raise
        except (OSError, RuntimeError) as error:  # RuntimeError: no more threads
            raise CannotEmitError(f"{self._compiler} cannot be started: {error}", Code.COMPILER_FAILED) from error

    @property
    def has_ended(self) -> bool:
        """Whether nobody works on it any more, nor looks at what came out just now."""
        return not self._working.locked()

    def library(self) -> ctypes.CDLL:
        """The library, once it is there.

        Raises:
            CannotEmitError: if there will be none.
        """
        with self._working:
            if self._library is None:
                raise CannotEmitError(self._error, Code.COMPILER_FAILED)
            return self._library

    def _start(self, command: tuple[str, ...], source: str) -> None:
        arguments = [*command, *FLAGS, *_for_this_machine(), "-x", "c++", "-", "-o", str(self._binary)]
        self._process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(self._folder), "LC_ALL": "C"},
            start_new_session=True,  # so that the programs which a compiler starts can be ended with it
        )
        thread = threading.Thread(target=self._work, args=(_encoded(source),), name="unspool-build", daemon=True)
        # Unlike atexit, this is there for the processes of multiprocessing too, and only for the one that made it.
        self._at_exit = Finalize(None, self._end, exitpriority=0)
        try:
            thread.start()
        except BaseException:  # no more threads, or an interrupt; the thread may have been started, and then cleans up
            self._at_exit.cancel()
            self._kill()
            if thread.ident is None:
                with self._process:
                    pass
            raise

    def _work(self, source: bytes) -> None:
        try:
            with self._process:
                self._compile(self._process, source)
            path = self._binary
            if self._kept is not None and compile_cache.keep(path.read_bytes(), self._kept):
                path = self._kept
            try:
                self._library = ctypes.CDLL(str(path))
            except OSError as error:
                if path is self._kept:
                    path.unlink(missing_ok=True)
                why = str(error).removeprefix(f"{path}: ")
                raise CannotEmitError(
                    f"what {self._compiler} has made cannot be loaded: {why}", Code.COMPILER_FAILED
                ) from error
        except CannotEmitError as error:
            self._error = str(error)
        except Exception as error:
            self._error = f"{self._compiler} failed: {error}"
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._at_exit.cancel()
            self._working.release()

    def _compile(self, process: subprocess.Popen[bytes], source: bytes) -> None:
        try:
            _, complaints = process.communicate(source, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            self._kill()
            raise CannotEmitError(
                f"{self._compiler} failed: it took more than {LONGEST} seconds", Code.COMPILER_FAILED
            ) from None
        text = complaints.decode(errors="replace").strip()
        if text:
            log.debug("%s says:\n%s", self._compiler, text)
        if process.returncode < 0:
            raise CannotEmitError(
                f"{self._compiler} failed: it was ended by signal {-process.returncode}", Code.COMPILER_FAILED
            )
        if process.returncode:
            lines = text.splitlines() or [f"exit status {process.returncode}, no message"]
            first = next((line for line in lines if "error" in line), lines[0])
            raise CannotEmitError(f"{self._compiler} failed: {first}", Code.COMPILER_FAILED)
        if not self._binary.is_file():
            raise CannotEmitError(f"{self._compiler} failed: it has made nothing", Code.COMPILER_FAILED)

    def _kill(self) -> None:
        """Ends the compiler and what it has started."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _end(self) -> None:
        """Leaves nothing behind: the process is about to end."""
        self._kill()
        if self._working.acquire(timeout=5):
            self._working.release()
        shutil.rmtree(self._folder, ignore_errors=True)


def compiler() -> tuple[str, ...]:
    """The command of the C++ compiler.

    Raises:
        CannotEmitError: if there is none.
    """
    if os.name != "posix":
        raise CannotEmitError(f"compilers are used on POSIX systems, and this is {os.name}", Code.NO_COMPILER)
    wanted = os.environ.get("CXX")
    try:
        candidates = [shlex.split(wanted)] if wanted else [["g++"], ["clang++"]]
    except ValueError as error:
        raise CannotEmitError(f"no C++ compiler: $CXX, {wanted}, is no command: {error}", Code.NO_COMPILER) from None
    for command in candidates:
        if command and shutil.which(command[0]):
            return tuple(command)
    looked = f"$CXX, {wanted}" if wanted else "g++ or clang++"
    raise CannotEmitError(f"no C++ compiler: looked for {looked}", Code.NO_COMPILER)


def _key(source: str, command: tuple[str, ...]) -> str:
    """A hash of everything that the binary depends on."""
    found = Path(shutil.which(command[0]) or command[0]).resolve()
    try:
        about = found.stat()
    except OSError as error:  # gone just now
        raise CannotEmitError(f"no C++ compiler: {error}", Code.NO_COMPILER) from error
    parts = (source, *command, found, about.st_size, about.st_mtime_ns, *FLAGS, *_for_this_machine(), _cpu())
    return hashlib.sha256(_encoded("\0".join(map(str, parts)))).hexdigest()[:40]


def _encoded(text: str) -> bytes:
    return text.encode(errors="backslashreplace")


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


@after_fork
def _forget_compilations() -> None:
    for build in _builds.values():
        build.forget_compilation()
