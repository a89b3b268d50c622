"""Saves and restores the random generators outside of a step's graph: Python's, NumPy's, torch's seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


@contextmanager
def generators_restored() -> Generator[Callable[[], list[str]], None, None]:
    """Puts the generators back after the block; yields what tells which of them were drawn from.

    Operations of torch draw nothing while they are traced: if its generator has moved, it was seeded.

    >>> with generators_restored() as drawn:
    ...     _ = random.random()
    ...     drawn()
    ["Python's random"]
    """
    python, numpy, own = random.getstate(), _numpy_state(), torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def drawn() -> list[str]:
        names = ["Python's random"] if random.getstate() != python else []
        names += ["NumPy's random"] if _numpy_state() != numpy else []
        return names + ([] if torch.equal(torch.get_rng_state(), own) else ["torch's generator, which it seeds"])

    try:
        yield drawn
    finally:
        random.setstate(python)
        kind, key, *rest = numpy
        np.random.set_state((kind, np.frombuffer(key, np.uint32), *rest))
        torch.set_rng_state(own)
        if devices:
            torch.cuda.set_rng_state_all(devices)


def _numpy_state() -> tuple[Any, ...]:
    state: Any = np.random.get_state()
    kind, key, *rest = state
    return (kind, key.tobytes(), *rest)
