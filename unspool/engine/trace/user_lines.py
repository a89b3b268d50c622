"""Finds the user's line that is running, for reasons found in the middle of a step."""

from __future__ import annotations

import inspect
from pathlib import Path

from unspool.engine.reasons import UNSPOOL, Line, is_users, line_of_frame

CALLERS = (Path(__file__).parent / "trace.py", Path(UNSPOOL) / "step.py")
"""What calls steps: whatever called that is no part of one."""


def line_now() -> Line | None:
    """The innermost line of the step that is running; None where there is none."""
    frame = inspect.currentframe()
    while frame is not None and not is_users(frame.f_code.co_filename):
        if Path(frame.f_code.co_filename) in CALLERS:
            return None
        frame = frame.f_back
    return None if frame is None else line_of_frame(frame)
