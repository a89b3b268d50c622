"""Calls at random, which `make conformance` compares with TensorFlow: that they can be drawn, and reach all of tf1."""

from __future__ import annotations

from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import pytest

from tests.tf1_ops import CALLS
from tests.tf1_ops.call import HOW, kind_of, outcome
from tests.tf1_ops.drawn import DRAWN, drawn
from tests.tf1_ops.elsewhere import ELSEWHERE
from unspool import tf1

MODULES = ["", "nn", "math", "linalg", "random", "strings", "metrics", "distributions", "losses", "sparse", "lookup"]
MODULES += ["initializers"]
SEEDS = range(6)


class Recorder:
    """A module that remembers which functions were asked of it."""

    def __init__(self, module: ModuleType, asked: set[int]) -> None:
        self._module, self._asked = module, asked

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        self._asked.add(id(found))
        return Recorder(found, self._asked) if isinstance(found, ModuleType) else found


@cache
def reached() -> set[int]:
    asked: set[int] = set()
    recorder = Recorder(tf1, asked)
    recorded = [call for calls in CALLS.values() for call in calls.values()]
    for call in [*recorded, *(drawn(name, seed) for name in DRAWN for seed in SEEDS)]:
        with tf1.Graph().as_default():
            fed = [tf1.placeholder(kind_of(each), each.shape) for each in call.values]
            try:
                call.function(recorder, *fed)
            except Exception:
                continue  # some calls are mistakes
    return asked


def test_every_function_is_reached_or_compared_elsewhere():
    left = set[str]()
    for path in MODULES:
        module = getattr(tf1, path) if path else tf1
        functions = [name for name in module.__all__ if isinstance(getattr(module, name), FunctionType)]
        left |= {f"{path}.{name}".strip(".") for name in functions if id(getattr(module, name)) not in reached()}
    assert left == {name for names in ELSEWHERE.values() for line in names for name in line.split()}


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawn_call_is_not_always_a_mistake(name: str):
    assert any("values" in outcome(tf1, drawn(name, seed), HOW[seed % len(HOW)]) for seed in range(8))
