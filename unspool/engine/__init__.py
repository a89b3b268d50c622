"""How a cell runs through time.

Loops use two functions of it: `run`, and `explain.explain`, which says how it would. Both take a `Request`. Decoding
takes a `Stepper`: one step at a time.
"""

from unspool.engine.execute.policies import Checkpoint, Keep, Memory, Recompute, check_memory
from unspool.engine.explain.explanation import Explanation
from unspool.engine.fallbacks import PerformanceWarning, StrictError, fall_back, strict
from unspool.engine.reasons import CannotPlanError, Code, Line, Reason
from unspool.engine.request import Options, Request
from unspool.engine.run import run
from unspool.engine.stepper import Stepper

__all__ = [
    "CannotPlanError",
    "Checkpoint",
    "Code",
    "Explanation",
    "Keep",
    "Line",
    "Memory",
    "Options",
    "PerformanceWarning",
    "Reason",
    "Recompute",
    "Request",
    "Stepper",
    "StrictError",
    "check_memory",
    "fall_back",
    "run",
    "strict",
]
