"""How a loop is to run, as the caller says."""

from __future__ import annotations

from dataclasses import dataclass

from unspool.engine.execute.policies import Memory


@dataclass(frozen=True)
class Options:
    """How a loop runs, which never changes its result.

    Args:
        parallel_iterations: how many steps are worked on at once; None for what suits the batch and the device.
        swap_memory: whether what backward needs waits in host memory.
        memory: what is kept for backward; None for what suits the device.
    """

    parallel_iterations: int | None = None
    swap_memory: bool = False
    memory: Memory | None = None
