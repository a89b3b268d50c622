"""The compiler and runtime behind the loops: traces a cell's step, splits it, compiles its core, runs it both ways.

Loops use `entry.run`, and `entry.explain`, which says how it would run; both take a `Request`. Decoding takes an
`entry.Stepper`: one step at a time. What is here is cheap to import; `entry` loads the rest with the first plan.
"""

from unspool.engine.explain.explanation import Explanation
from unspool.engine.fallbacks import PerformanceWarning, StrictError, fall_back, strict
from unspool.engine.known.cache import find as known_call
from unspool.engine.memory.policies import Checkpoint, Keep, Memory, Recompute, check_memory
from unspool.engine.reasons import CannotPlanError, Code, Line, Reason
from unspool.engine.request import Options, Request, stays_on_device

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
    "StrictError",
    "check_memory",
    "fall_back",
    "known_call",
    "stays_on_device",
    "strict",
]
