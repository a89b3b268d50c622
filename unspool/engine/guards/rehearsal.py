"""Rehearsal: a step is run twice without values before it is traced, to see whether it is pure.

A trace is used for all steps of all calls, so whatever the step does besides computing its results would be done once,
while it is traced. The two runs must call the same operations with the same arguments, draw nothing from Python's or
NumPy's generators, and run no code that the fingerprint has not reached.
"""

from __future__ import annotations

import datetime
import io
import sys
import types
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import optree
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from unspool.engine.guards.names import INSTALLED, NUMPY, STANDARD, is_fixed, is_installed
from unspool.engine.guards.slots import atom
from unspool.engine.reasons import CannotPlanError, Code, Line, line_of_frame

CLOCKS = "time"
"""The module whose functions tell another time at every call."""
READS = {"open", "input", "urandom", "getrandom", "print", "write", "now", "today", "utcnow"}
TALKING = ("linecache.py", "warnings.py", "tokenize.py", "traceback.py", "inspect.py")
"""Modules of Python's that read files only to say something."""


def rehearse(run: Callable[[], Any], reached: dict[int, types.CodeType]) -> None:
    """Runs a step twice.

    Args:
        run: the step, with tensors that have no values.
        reached: the code that its fingerprint has reached, by identity.

    Raises:
        CannotPlanError: if it is not the same both times, or does something besides.
    """
    witness = _Witness(reached)
    with witness.watching():
        first = _record(run)
    second = _record(run)
    if witness.effect is not None:
        what, line = witness.effect
        raise CannotPlanError(
            Code.IMPURE, f"the step calls {what}, which a plan would do once, not at every step", line=line
        )
    if first != second:
        raise CannotPlanError(
            Code.IMPURE, "the step does not compute the same twice, so that a plan would repeat one of its ways"
        )
    if witness.unreached is not None:
        code = witness.unreached
        line = Line(code.co_filename, code.co_firstlineno, "")
        raise CannotPlanError(
            Code.UNGUARDED, f"the step runs {code.co_name}, which it finds in a way that cannot be followed", line=line
        )


# -- what is computed -------------------------------------------------------------------------------------------------


def _record(run: Callable[[], Any]) -> list[Any]:
    with _Record() as record:
        run()
    return record.log


class _Record(TorchDispatchMode):
    """Writes down every operation: which one, on which earlier results, with which numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Any] = []
        self._seen: list[Tensor] = []  # alive, so that identities are not used again
        self._numbers: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [self._mark(leaf) for leaf in optree.tree_leaves((args, kwargs or {}), none_is_leaf=True)]
        result = func(*args, **(kwargs or {}))
        self.log.append((func, given, [self._mark(leaf) for leaf in optree.tree_leaves(result)]))  # pyright: ignore[reportArgumentType]
        return result

    def _mark(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return atom(leaf) or f"{type(leaf).__name__} {leaf}"
        if id(leaf) not in self._numbers:
            self._numbers[id(leaf)] = len(self._seen)
            self._seen.append(leaf)
        return (self._numbers[id(leaf)], leaf.dtype, [str(size) for size in leaf.shape])


# -- what is done besides ---------------------------------------------------------------------------------------------


class _Witness:
    """Sees what code runs, by Python's profiling hook."""

    def __init__(self, reached: dict[int, types.CodeType]) -> None:
        self._reached = reached
        self._known: set[int] = set(reached)
        self.unreached: types.CodeType | None = None
        """Code of the user's program that the fingerprint has not reached."""
        self.effect: tuple[str, Line | None] | None = None
        """A call that has an effect, or whose result is another each time."""

    @contextmanager
    def watching(self) -> Generator[None, None, None]:
        """Watches a block."""
        before: Any = sys.getprofile()
        sys.setprofile(self._see)
        try:
            yield
        finally:
            # A profiler in C is no function, but can be started again.
            before.enable() if hasattr(before, "enable") else sys.setprofile(before)

    def _see(self, frame: types.FrameType, event: str, called: Any) -> None:
        if event == "call":
            code = frame.f_code
            if id(code) not in self._known:
                self._known.add(id(code))
                if self.unreached is None and not is_installed(_file(frame)):
                    self.unreached = code
        elif event == "c_call" and self.effect is None and _has_effect(called):
            caller = _caller(frame)
            if caller is not None:
                self.effect = (_name(called), line_of_frame(caller))


def _file(frame: types.FrameType) -> str:
    """The file of a frame's code; for code that a program has made, as dataclasses do, that of its module."""
    file = frame.f_code.co_filename
    if not file.startswith("<"):
        return file
    module = sys.modules.get(frame.f_globals.get("__name__", ""))
    return getattr(module, "__file__", None) or ("<frozen >" if module is None else file)


def _has_effect(called: Any) -> bool:
    module, name = getattr(called, "__module__", None), called.__name__
    if module == CLOCKS:
        return name not in ("sleep", "strftime", "gmtime", "mktime")
    if name not in READS:
        return False
    owner = getattr(called, "__self__", None)
    if isinstance(owner, type):
        return issubclass(owner, datetime.date)
    return name != "write" or isinstance(owner, io.IOBase)


def _name(called: Any) -> str:
    owner = getattr(called, "__self__", None)
    module = getattr(called, "__module__", None) or type(owner).__name__
    return called.__name__ if module in ("builtins", "io", "_io") else f"{module}.{called.__name__}"


def _caller(frame: types.FrameType | None) -> types.FrameType | None:
    """The frame of the user's code behind a call; None if torch, or a warning, is behind it."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.endswith(TALKING) or file.startswith("<frozen "):
            return None
        standard = file.startswith(STANDARD) and not file.startswith(INSTALLED)
        if not standard and not file.startswith(NUMPY):
            return None if is_fixed(file) else frame
        frame = frame.f_back
    return None
