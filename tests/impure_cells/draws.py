"""Steps that draw random numbers, or read clocks and other sources that are never the same again."""

from __future__ import annotations

import datetime
import os
import random
import secrets
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.cell_changes.table import made
from tests.impure_cells.table import Cells, Entry, Impure, impure

DRAWS: dict[str, Callable[[Any], float]] = {
    "random": lambda self: random.random(),
    "random choice": lambda self: random.choice([0.5, 0.7, 0.9]),
    "random gauss": lambda self: random.gauss(0, 1),
    "random shuffle": lambda self: random.sample([0.1, 0.2, 0.3], 3)[0],
    "numpy rand": lambda self: float(np.random.rand()),
    "numpy normal": lambda self: np.random.normal(),
    "generator of numpy": lambda self: self.numpy.random(),
    "generator of python": lambda self: self.python.random(),
    "generator in a closure": lambda self: _GENERATOR.random(),
    "stochastic depth": lambda self: 1.0 if random.random() < 0.5 else 0.0,
    "branch on a draw of torch": lambda self: 1.0 if torch.rand(()) < 0.5 else 0.0,
    "number drawn by torch": lambda self: torch.rand(()).item(),
}
_GENERATOR = random.Random()


def _drawn(kind: str) -> Entry:
    def entry(patch: pytest.MonkeyPatch) -> Cells:
        draw = DRAWS[kind]
        cell = made(lambda self, t: t * draw(self), numpy=np.random.default_rng(3), python=random.Random(3))
        states = random.getstate(), np.random.get_state(), _GENERATOR.getstate()
        random.seed(3)
        np.random.seed(3)
        _GENERATOR.seed(3)
        try:
            yield Impure(
                cell,
                lambda: {
                    "random": hash(random.getstate()),
                    "numpy": hash(repr(np.random.get_state())),
                    "closure": hash(_GENERATOR.getstate()),
                    "numpy of the cell": repr(cell.numpy.bit_generator.state),
                    "random of the cell": hash(cell.python.getstate()),
                    "torch": hash(tuple(torch.get_rng_state().tolist())),
                },
            )
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
            _GENERATOR.setstate(states[2])

    entry.__name__ = kind
    return impure(entry)


for _kind in DRAWS:
    _drawn(_kind)

NEVER_AGAIN: dict[str, Callable[[], float]] = {
    "time": lambda: time.time() % 1000,
    "performance counter": lambda: time.perf_counter() % 1000,
    "nanoseconds": lambda: time.monotonic_ns() % 10**9 / 1e9,
    "processor time": lambda: time.process_time_ns() / 1e9,
    "now": lambda: datetime.datetime.now().microsecond / 1e6 + 1,
    "bytes of the system": lambda: int.from_bytes(os.urandom(4), "little") / 2**32,
    "uuid": lambda: uuid.uuid4().int / 2**128,
    "secrets": lambda: secrets.randbelow(2**32) / 2**32,
    "system random": lambda: random.SystemRandom().random(),
    "numpy of no seed": lambda: np.random.default_rng().random(),
}


def _fresh(kind: str) -> Entry:
    def entry(patch: pytest.MonkeyPatch) -> Cells:
        read = NEVER_AGAIN[kind]
        yield Impure(made(lambda self, t: torch.zeros_like(t) + read()), fresh=True)

    entry.__name__ = kind
    return impure(entry)


for _kind in NEVER_AGAIN:
    _fresh(_kind)
