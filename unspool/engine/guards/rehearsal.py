"""Rehearsal: a step is run twice without values before it is traced, to see whether it is pure.

A trace is used for all steps of all calls, so whatever the step does besides computing its results would be done once,
while it is traced. The two runs must call the same operations with the same arguments, draw nothing from Python's or
NumPy's generators, and run no code that the fingerprint has not reached.
"""

from __future__ import annotations

import dis
import gc
import sys
import types
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import optree
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from unspool.engine.guards.names import FIXED, NUMPY, TORCH, is_fixed, is_library
from unspool.engine.guards.slots import atom
from unspool.engine.guards.written import Written
from unspool.engine.reasons import CannotPlanError, Code, Line, Reason, line_of_frame
from unspool.once import repeats_warnings

# fmt: off
PURE = {
    "abc", "abc_data", "annotationlib", "array", "bisect", "builtins", "cmath", "codecs", "collections",
    "collections_abc", "contextlib", "copy", "copyreg", "dataclasses", "datetime", "decimal", "einops", "enum",
    "fractions", "functools", "genericpath", "heapq", "itertools", "jaxtyping", "keyword", "math", "nt", "ntpath",
    "numbers", "numpy", "operator", "optree", "os", "pathlib", "posix", "posixpath", "re", "reprlib", "sre",
    "sre_compile", "sre_parse", "statistics", "string", "struct", "sympy", "textwrap", "torch", "types", "typing",
    "unspool", "weakref", "weakrefset",
}
"""Modules of Python's and others' whose functions compute something from their arguments alone."""
IMPURE = {
    "access", "breakpoint", "cpu_count", "data_ptr", "get_num_interop_threads", "get_num_threads", "getcwd",
    "getcwdb", "getlogin", "getpid", "getrandom", "id", "initial_seed", "input", "is_inference_mode_enabled",
    "listdir", "lstat", "now", "numpy", "open", "print", "putenv", "readlink",
    "scandir", "stat", "system", "times", "today", "tolist", "urandom", "utcnow",
}
"""Functions in them that do not: they read or change what no guard sees."""
# fmt: on
SWITCHES = ("_get_", "_set_", "set_")
"""How functions of torch begin that read or turn one of its switches."""
KEPT = {"_get_deterministic_algorithms", "_get_default_device", "set_"}
"""Those that are part of a plan's key, and what is no switch."""
TRANSPARENT = (f"{TORCH}/__init__.py", f"{TORCH}/backends/", f"{TORCH}/random.py")
"""Files of torch through which a step reads torch's own switches."""


def rehearse(
    run: Callable[[], Any], reached: dict[int, types.CodeType], written: Callable[[], Sequence[Written]]
) -> Sequence[Written]:
    """Runs a step twice, and once more if it writes to places; returns those, all of which are scratch.

    Args:
        run: the step, with tensors that have no values.
        reached: the code that its fingerprint has reached, by identity.
        written: the places that are not as they were before the step ran; raises if something else is not.

    Raises:
        NewlyImportedError: if it has imported a module that was not there.
        CannotPlanError: if it is not the same both times, or does something besides.
    """
    witness = _Witness(reached)
    modules = len(sys.modules)
    try:
        with witness.watching(), _Unwatched(witness):
            first = _record(run)
        witness.check()  # the step may have caught the error
    finally:
        if witness.imports and len(sys.modules) > modules:
            raise NewlyImportedError
    second = _record(run)
    places = written()
    read = {name for code in reached.values() for name in loaded_by(code)} if places else set[str]()
    if places and not (first == second and _are_scratch(run, places, first)):
        raise CannotPlanError(Code.CHANGES, f"the step changes the cell: {_named(places)}")
    unread = [place for place in places if place.name not in read]
    if unread:
        raise CannotPlanError(Code.WRITES, f"the step writes {_named(unread)}, and never reads it, {ONCE}")
    if first != second:
        raise CannotPlanError(
            Code.IMPURE, "the step does not compute the same twice, so that a plan would repeat one of its ways"
        )
    return places


class NewlyImportedError(CannotPlanError):
    """A step has imported a module: it reaches more now than its fingerprint knows, and has to be looked at anew."""

    def __init__(self) -> None:
        super().__init__(Code.IMPURE, "the step imports another module whenever it runs")


def loaded_by(code: types.CodeType) -> Iterator[str]:
    """The names that code reads: of attributes, and of keys as `kept["h"]`."""
    last = None
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            yield each.argval
        elif (each.opname == "BINARY_SUBSCR" or each.argrepr == "[]") and isinstance(last, str):
            yield last
        last = each.argval if each.opname == "LOAD_CONST" else None


def _named(places: Sequence[Written]) -> str:
    return ", ".join(map(str, places[:3])) + (f" and {len(places) - 3} more" if len(places) > 3 else "")


def _are_scratch(run: Callable[[], Any], places: Sequence[Written], expected: list[Any]) -> bool:
    """Whether a step does the same when places that it writes to hold nothing of any use before."""
    for place in places:
        place.kept[place.name] = Unread()
    try:
        return _record(run) == expected
    except Exception:
        return False


class Unread:
    """What a place holds that is written before it is read: whoever looks at it gets an error."""

    def __getattribute__(self, name: str) -> Any:
        raise AttributeError(f"{name} of an attribute that was not written yet")

    def __bool__(self) -> bool:
        raise ValueError("an attribute that was not written yet")


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
        arguments: Any = (args, kwargs or {})
        leaves: list[Any] = optree.tree_leaves(arguments, none_is_leaf=True)
        given = [self._mark(leaf) for leaf in leaves]
        result = func(*args, **(kwargs or {}))
        results: list[Any] = optree.tree_leaves(result)
        self.log.append((func, given, [self._mark(leaf) for leaf in results]))
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
    """Sees what code runs, by Python's profiling hook, and stops the step before it does what it must not."""

    def __init__(self, reached: dict[int, types.CodeType]) -> None:
        self._reached = reached
        self._known: set[int] = set()
        self._reason: Reason | None = None
        self._importing: types.FrameType | None = None
        self._warning = False
        self.imports = False
        """Whether it has looked for a module that was not there."""

    def check(self) -> None:
        """Raises what was seen."""
        if self._reason is not None:
            raise CannotPlanError.of(self._reason)

    @contextmanager
    def watching(self) -> Generator[None, None, None]:
        """Watches a block."""
        before: Any = sys.getprofile()
        collecting = gc.isenabled()
        gc.disable()  # whose callbacks would run in the middle of the step
        sys.setprofile(self._see)
        try:
            yield
        finally:
            if collecting:
                gc.enable()
            # A profiler in C is no function, but can be started again.
            before.enable() if hasattr(before, "enable") else sys.setprofile(before)

    @contextmanager
    def looking_away(self) -> Generator[None, None, None]:
        """Does not watch a block."""
        sys.setprofile(None)
        try:
            yield
        finally:
            sys.setprofile(self._see)

    def _see(self, frame: types.FrameType, event: str, called: Any) -> None:
        if called is warnings.warn:
            self._warning = event == "c_call"
        if self._warning and not repeats_warnings():  # as often as it is shown otherwise: once
            return
        if self._importing is not None:  # whose code runs once in a program, wherever that is
            if frame is self._importing and event == "return":
                self._importing = None
        elif event == "call":
            code = frame.f_code
            if code is FIND_AND_LOAD:
                self._importing, self.imports = frame, True
            elif id(code) not in self._known and id(code) not in self._reached:
                self._see_code(frame, code)
        elif event == "c_call" and not _is_pure(called):
            caller = self._caller(frame)
            if caller is not None:
                self._stop(Code.IMPURE, f"the step calls {_name(called)}, {ONCE}", line_of_frame(caller))

    def _see_code(self, frame: types.FrameType, code: types.CodeType) -> None:
        file, module = _file(frame), frame.f_globals.get("__name__", "")
        if not is_fixed(file):
            message = f"the step runs {code.co_name}, which it finds in a way that cannot be followed"
            self._stop(Code.UNGUARDED, message, Line(code.co_filename, code.co_firstlineno, ""))
        caller = frame.f_back
        if not is_library(file) or module.partition(".")[0].strip("_") in PURE:
            self._known.add(id(code))
        elif caller is not None and self._is_own(caller):  # and not torch, which may call it as well
            self._stop(Code.IMPURE, f"the step calls {module}.{code.co_name}, {ONCE}", line_of_frame(caller))

    def _is_own(self, frame: types.FrameType) -> bool:
        """Whether code is the step's: in the user's program, or reached in an installed package."""
        file = _file(frame)
        return not is_fixed(file) or (id(frame.f_code) in self._reached and not is_library(file))

    def _caller(self, frame: types.FrameType | None) -> types.FrameType | None:
        """The frame of the step's own code behind a call; None if torch is behind it."""
        while frame is not None and not self._is_own(frame):
            file = _file(frame)
            if file.startswith(FIXED) and not file.startswith((NUMPY, *TRANSPARENT)):
                return None
            frame = frame.f_back
        return frame

    def _stop(self, code: Code, message: str, line: Line) -> None:
        self._reason = Reason(code, message, None, line)
        raise CannotPlanError.of(self._reason)


class _Unwatched(TorchFunctionMode):
    """Looks away while torch works: its own code, nine tenths of all that runs, is known to be pure.

    What a step registers as an operation of its own is not torch's.
    """

    def __init__(self, witness: _Witness) -> None:
        super().__init__()
        self._witness = witness

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_torchs = not isinstance(func, OpOverload | OpOverloadPacket)
        with self._witness.looking_away() if is_torchs else nullcontext():
            result: Any = func(*args, **(kwargs or {}))
        return result


_frozen: Any = sys.modules["_frozen_importlib"]
FIND_AND_LOAD: types.CodeType = _frozen._find_and_load.__code__
"""What `import` calls for a module that has not been imported."""
ONCE = "which a plan would do once, not at every step"


def _file(frame: types.FrameType) -> str:
    """The file of a frame's code; for code that a program has made, as dataclasses do, that of its module."""
    file = frame.f_code.co_filename
    if not file.startswith("<"):
        return file
    module = sys.modules.get(frame.f_globals.get("__name__", ""))
    return getattr(module, "__file__", None) or ("<frozen >" if module is None else file)


def _is_pure(called: Any) -> bool:
    """Whether a function in C computes something from its arguments alone."""
    name, owner = called.__name__, getattr(called, "__self__", None)
    if called is sys.intern:  # by which `pathlib` gets its names
        return True
    if name in IMPURE or name.startswith(SWITCHES):
        return isinstance(owner, FakeTensor) or name in KEPT
    if owner is None or isinstance(owner, types.ModuleType):
        module = called.__module__ or getattr(owner, "__name__", "builtins")
    else:
        kind = owner if isinstance(owner, type) else type(owner)
        module = next((base.__module__ for base in kind.__mro__ if called.__name__ in base.__dict__), kind.__module__)
    return module.partition(".")[0].strip("_") in PURE and not module.startswith("numpy.random")


def _name(called: Any) -> str:
    owner = getattr(called, "__self__", None)
    module = called.__module__ or (owner if isinstance(owner, type) else type(owner)).__qualname__
    return called.__name__ if module in ("builtins", "io", "_io") else f"{module}.{called.__name__}"
