"""Which line of the user's code is running: for a reason that is found in the middle of a step."""

from __future__ import annotations

import inspect
import linecache
from pathlib import Path
from types import FrameType

from unspool.engine.graph import TORCH

_ENGINE = Path(__file__).parent
_CALLERS = (str(_ENGINE / "trace.py"), str(_ENGINE.parent / "step.py"))
"""What calls steps: whatever called that is no part of one."""


def is_users(frame: FrameType) -> bool:
    """Whether a frame runs the user's code, or a cell of the library."""
    return not frame.f_code.co_filename.startswith((TORCH, str(_ENGINE), *_CALLERS))


def place_now() -> str:
    """Something like ", in `x = self.f(x)`": the innermost line of the step; empty where there is none, or no text."""
    frame = inspect.currentframe()
    while frame is not None and not is_users(frame):
        if frame.f_code.co_filename in _CALLERS:
            return ""
        frame = frame.f_back
    line = "" if frame is None else linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return f", in `{line}`" if line else ""
