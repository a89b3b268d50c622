"""How a cell runs through time. The loops use one function of it, `run`."""

from unspool.engine.memory import Checkpoint, Keep, Memory, Recompute, check_memory
from unspool.engine.run import Options, run

__all__ = ["Checkpoint", "Keep", "Memory", "Options", "Recompute", "check_memory", "run"]
