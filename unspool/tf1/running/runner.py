"""Runs a program as `python train.py` would, with `tensorflow` answered by `unspool.tf1`."""

from __future__ import annotations

import builtins
import importlib
import os
import runpy
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from unspool.tf1 import flags, graph, logging, session
from unspool.tf1.running.imports import install
from unspool.tf1.running.numpy_names import former_names

USAGE = "usage: python -m unspool.tf1 [-m] program [arguments ...]"


def run(program: str | os.PathLike[str], *arguments: str) -> dict[str, Any]:
    r"""Runs a program in this process, and leaves the process as it was: its modules, options, graphs and arguments.

    `sys.exit(0)`, which is how `tf.app.run()` ends, ends the program; any other exit is the caller's to handle.

    Args:
        program: the file, whose text says `import tensorflow`.
        arguments: its command line.

    Returns:
        The program's variables.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "program.py"
    >>> _ = file.write_text("import tensorflow as tf\nthree = tf.Session().run(tf.constant(1) + 2)")
    >>> run(file)["three"]
    np.int32(3)
    """
    code = compiled(program)
    with apart([os.fspath(program), *arguments], str(Path(program).resolve().parent)) as main:
        main.__file__ = os.fspath(program)
        try:
            exec(code, main.__dict__)
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
        return dict(vars(main))


def run_module(name: str, *arguments: str) -> dict[str, Any]:
    """Runs a module as `python -m name` would; see `run`."""
    with apart([name, *arguments], os.getcwd()):
        try:
            return runpy.run_module(name, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
            return {}


def compiled(program: str | os.PathLike[str]) -> CodeType:
    """A program's code.

    Raises:
        SyntaxError: for what is no Python 3, with a word on programs for Python 2.
    """
    try:
        return compile(Path(program).read_bytes(), os.fspath(program), "exec")
    except SyntaxError as error:
        if "print" in (error.text or "") or "exec" in (error.text or ""):
            error.msg += " (a program for Python 2? convert it first: `2to3 -w`, or `futurize`)"
        raise


@contextmanager
def apart(argv: list[str], folder: str) -> Generator[ModuleType, None, None]:
    """A `__main__` of its own, with its own command line, imports, options, graphs, sessions and names of NumPy."""
    before = sys.argv, sys.path[:], sys.modules["__main__"], set(sys.modules)
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __cached__=None)
    with ExitStack() as stack:
        for context in (install(), former_names(), flags.fresh(), graph.fresh(), session.fresh(), logging.fresh()):
            stack.enter_context(context)
        sys.argv, sys.path[:0] = argv, [folder]
        sys.modules["__main__"] = main
        importlib.invalidate_caches()  # the folder may be newer than what is known of it
        try:
            yield main
        finally:
            sys.argv, sys.path[:], sys.modules["__main__"], known = before
            for name in [each for each in sys.modules if each not in known and _is_of(sys.modules[each], folder)]:
                del sys.modules[name]


def _is_of(module: ModuleType, folder: str) -> bool:
    """Whether a module is the program's own: it lies beside it, and is no library in an environment there."""
    file = getattr(module, "__file__", None) or ""
    return file.startswith(folder + os.sep) and "site-packages" not in file


def main(arguments: Sequence[str] | None = None) -> None:
    """The command `python -m unspool.tf1`: runs a program, whose errors look as they do under `python`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help") or words == ["-m"]:
        print(USAGE)
        sys.exit(0 if words and words != ["-m"] else 2)
    if words[0] != "-m" and not os.path.isfile(words[0]):
        sys.exit(f"unspool: there is no file {words[0]!r}")
    del sys.path[0]  # the folder of the command; the program's own takes its place
    try:
        _ = run_module(*words[1:]) if words[0] == "-m" else run(*words)
    except (Exception, KeyboardInterrupt) as error:
        error.__traceback__ = of_program(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


def of_program(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback from the program's first line on, without what ran the program before and looked names up after."""
    while traceback is not None and _is_ours(traceback):
        traceback = traceback.tb_next
    last = at = traceback
    while at is not None:
        if not _is_ours(at):
            last = at
        at = at.tb_next
    if last is not None and last.tb_next is not None:
        last.tb_next = None
    return traceback


def _is_ours(traceback: TracebackType) -> bool:
    file = traceback.tb_frame.f_code.co_filename
    return file.startswith((os.path.dirname(__file__), "<frozen runpy", "<frozen importlib")) or file == runpy.__file__
