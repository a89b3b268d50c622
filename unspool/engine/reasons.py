"""Why a cell runs in the plain loop, or its core interpreted: reasons as data."""

from __future__ import annotations

import enum
import linecache
import traceback
import types
from dataclasses import dataclass
from pathlib import Path

import torch

from unspool.engine.explain.advice import ADVICE
from unspool.engine.explain.selection import as_selection

TORCH = str(Path(torch.__file__).parent)
UNSPOOL = str(Path(__file__).parents[1])
NOBODYS = (TORCH, *(str(Path(UNSPOOL) / each) for each in ("engine", "step.py", "in_place.py", "structure.py")))
"""Files that call steps, or are called by them, without being a part of one."""


class Code(enum.Enum):
    """The kind of a reason."""

    NOTHING_TO_RUN = "nothing to run"
    TRANSFORM = "a transform of torch"
    TRACER = "a tracer"
    HOOKS = "hooks"
    GRADIENT_HOOKS = "hooks on gradients"
    LAZY = "lazy layers"
    NO_VALUES = "tensors without values"
    NOT_TRACED = "the step cannot be traced"
    VALUES = "control flow by values"
    ROW_COUNT = "the number of rows"
    MIXED_ROWS = "rows meet"
    UNKNOWN_OPERATION = "an unknown operation"
    DRAWS = "random numbers"
    CHANGES = "the step changes something"
    WRITES = "the step writes for somebody else"
    OVERWRITES = "backward needs what is overwritten"
    IMPURE = "the step has effects"
    UNGUARDED = "something cannot be guarded"
    VARIANTS = "too many variants"
    FOREIGN_WEIGHT = "a weight of nobody"
    FOREIGN_TENSOR = "a tensor of nobody"
    NO_COPY = "the cell cannot be copied"
    NO_REFERENCE = "the cell cannot be kept"
    COMPILED_CELL = "a compiled cell"
    OUTSIDE = "a module that is no part of the cell"
    NO_MEMORY = "a missing row buffer"
    DEVICES = "several devices"
    SPECIAL_TENSOR = "a special tensor"
    STATE = "an unusual state"
    FAULT = "a fault of the engine"
    NO_FORM = "no form in the emitter's language"
    NO_COMPILER = "no compiler"
    COMPILER_FAILED = "the compiler failed"
    DECODER = "a decoder of its own"
    OTHER_DEVICE = "another device"
    ASKED = "asked for"

    @property
    def asked(self) -> bool:
        """Whether the caller asked for what makes it slow, so that it comes as no surprise."""
        return self in _ASKED


_ASKED = {
    *(Code.NOTHING_TO_RUN, Code.TRANSFORM, Code.TRACER, Code.HOOKS, Code.LAZY, Code.NO_VALUES, Code.ASKED),
    *(Code.NO_COMPILER, Code.COMPILED_CELL, Code.DECODER, Code.OTHER_DEVICE),
}


@dataclass(frozen=True)
class Line:
    """A line of the user's code.

    >>> str(Line("cell.py", 7, "h = h.mean(0)"))
    'in `h = h.mean(0)` (cell.py:7)'
    """

    file: str
    number: int
    text: str

    def __str__(self) -> str:
        place = f"{Path(self.file).name}:{self.number}"
        return f"in `{self.text}` ({place})" if self.text else f"at {place}"


@dataclass(frozen=True)
class Reason:
    """Why something cannot be planned or emitted.

    Args:
        code: its kind.
        message: what stands in the way.
        operation: the operation of torch that does, if it is one.
        line: the line of the user's code, if it is known.

    >>> reason = Reason(Code.MIXED_ROWS, "mean works across rows", "aten.mean.dim", Line("cell.py", 7, "h = h.mean(0)"))
    >>> str(reason)
    'mean works across rows, in `h = h.mean(0)` (cell.py:7)'
    >>> reason.advice[:53]
    'Let the step treat every row of the batch by itself: '
    """

    code: Code
    message: str
    operation: str | None = None
    line: Line | None = None

    @property
    def advice(self) -> str | None:
        """What to change, if anything is known to help."""
        advice, line = ADVICE.get(self.code.name), self.line
        selection = as_selection(line.file, line.number) if self.code is Code.VALUES and line is not None else None
        return f"{advice} {selection}" if selection else advice

    def __str__(self) -> str:
        return self.message if self.line is None else f"{self.message}, {self.line}"


class CannotPlanError(Exception):
    """A cell's step does not hold what a plan needs; the plain loop runs it instead."""

    def __init__(self, code: Code, message: str, *, operation: str | None = None, line: Line | None = None) -> None:
        self.reason = Reason(code, message, operation, line)
        super().__init__(str(self.reason))

    @classmethod
    def of(cls, reason: Reason) -> CannotPlanError:
        """The error for a reason that is known already."""
        return cls(reason.code, reason.message, operation=reason.operation, line=reason.line)


def line_of(error: BaseException) -> Line | None:
    """The innermost line of the user's code that an error passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_users(frame.filename) and frame.line]
    return Line(own[-1].filename, own[-1].lineno or 0, own[-1].line or "") if own else None


def line_of_frame(frame: types.FrameType) -> Line:
    """The line that a frame is at."""
    file, number = frame.f_code.co_filename, frame.f_lineno
    return Line(file, number, linecache.getline(file, number).strip())


def is_users(file: str) -> bool:
    """Whether a file has the user's code, or a cell of the library's."""
    return not file.startswith(NOBODYS)


def why(error: BaseException, code: Code, what: str) -> Reason:
    """The reason behind an error that a tracer or a rewrite raised."""
    kind, text = type(error).__name__, str(error).strip().split("\n")[0]
    if kind in DATA_DEPENDENT:
        message = "the step's control flow or shapes depend on the values of tensors"
        return Reason(Code.VALUES, message, None, line_of(error))
    return Reason(code, f"{what}: {kind}: {text}", None, line_of(error))


DATA_DEPENDENT = ("GuardOnDataDependentSymNode", "DataDependentOutputException", "DynamicOutputShapeException")
