"""Finds the user's line that is running, for nodes of a graph and for reasons found in the middle of a step."""

from __future__ import annotations

import inspect
import linecache
from pathlib import Path
from typing import TypeAlias

from unspool.engine.reasons import UNSPOOL, Line, is_users

Place: TypeAlias = tuple[str, int]
"""A file and the number of a line in it."""

CALLERS = (
    str(Path(__file__).parent / "tracer.py"),
    str(Path(UNSPOOL) / "engine" / "plans" / "making.py"),
    str(Path(UNSPOOL) / "step.py"),
)
"""What calls steps: whatever called that is no part of one."""


def place_now() -> Place | None:
    """Where the innermost line of the step is that is running; None where there is none."""
    frame = inspect.currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if is_users(file):
            return file, frame.f_lineno
        if file in CALLERS:
            return None
        frame = frame.f_back
    return None


def line_at(place: Place | None) -> Line | None:
    """A line with its text, which is empty for code that was typed in, of which Python keeps none."""
    return None if place is None else Line(*place, linecache.getline(*place).strip())


def line_now() -> Line | None:
    """The innermost line of the step that is running; None where there is none."""
    return line_at(place_now())
