"""Which line of the user's code is running: for a reason that is found in the middle of a step."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import FrameType

from unspool.engine.reasons import TORCH, Line, line_of_frame

_ENGINE = Path(__file__).parent
_CALLERS = (str(_ENGINE / "trace.py"), str(_ENGINE.parent / "step.py"))
"""What calls steps: whatever called that is no part of one."""


def is_users(frame: FrameType) -> bool:
    """Whether a frame runs the user's code, or a cell of the library."""
    return not frame.f_code.co_filename.startswith((TORCH, str(_ENGINE), *_CALLERS))


def line_now() -> Line | None:
    """The innermost line of the step that is running; None where there is none."""
    frame = inspect.currentframe()
    while frame is not None and not is_users(frame):
        if frame.f_code.co_filename in _CALLERS:
            return None
        frame = frame.f_back
    return None if frame is None else line_of_frame(frame)
