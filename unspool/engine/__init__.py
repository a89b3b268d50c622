"""How a cell runs through time.

Loops use two functions of it: `run`, and `explain`, which says how it would. Decoding takes a `Stepper`: one step at a
time.
"""

from unspool.engine.explain import explain
from unspool.engine.explanation import Explanation
from unspool.engine.memory import Checkpoint, Keep, Memory, Recompute, check_memory
from unspool.engine.reasons import CannotPlanError
from unspool.engine.run import Options, run
from unspool.engine.stepper import Stepper, is_portable

__all__ = [
    "CannotPlanError",
    "Checkpoint",
    "Explanation",
    "Keep",
    "Memory",
    "Options",
    "Recompute",
    "Stepper",
    "check_memory",
    "explain",
    "is_portable",
    "run",
]
