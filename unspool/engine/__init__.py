"""How a cell runs through time. The loops use two functions of it: `run`, and `explain`, which says how it would."""

from unspool.engine.explain import explain
from unspool.engine.explanation import Explanation
from unspool.engine.memory import Checkpoint, Keep, Memory, Recompute, check_memory
from unspool.engine.run import Options, run

__all__ = [
    "Checkpoint",
    "Explanation",
    "Keep",
    "Memory",
    "Options",
    "Recompute",
    "check_memory",
    "explain",
    "run",
]
