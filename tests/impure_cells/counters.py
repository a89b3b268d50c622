"""Steps that count, or move an iterator on."""

from __future__ import annotations

import itertools
import types
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.cell_changes.table import made, module
from tests.impure_cells.table import Cells, Impure, impure, noted, shown


@impure
def counter_attribute(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        self.count += 1
        return t * self.count

    yield Impure(cell := made(act, count=0), lambda: cell.count)


@impure
def counter_attribute_that_does_not_matter(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        self.calls += 1
        return torch.tanh(t)

    yield Impure(cell := made(act, calls=0), lambda: cell.calls)


@impure
def counter_in_a_slot(patch: pytest.MonkeyPatch) -> Cells:
    kind: Any = type("Counter", (), {"__slots__": ("count",)})

    def act(self: Any, t: Tensor) -> Tensor:
        self.counter.count += 1
        return torch.tanh(t)

    counter = kind()
    counter.count = 0
    yield Impure(made(act, counter=counter), lambda: counter.count)


@impure
def counter_of_the_class(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        type(self).count += 1
        return torch.tanh(t)

    kind: Any = made(act).__class__
    kind.count = 0
    yield Impure(kind(), lambda: kind.count)


@impure
def counter_global(patch: pytest.MonkeyPatch) -> Cells:
    text = "COUNT = 0\ndef act(self, t):\n    global COUNT\n    COUNT += 1\n    return t * COUNT"
    own = module(patch, "user_counter", text)
    yield Impure(made(own.act), lambda: own.COUNT)


@impure
def counter_of_another_module(patch: pytest.MonkeyPatch) -> Cells:
    other = module(patch, "user_other", "COUNT = 0\ndef note():\n    global COUNT\n    COUNT += 1")
    own = module(patch, "user_own", "import user_other\ndef act(self, t):\n    user_other.note()\n    return t")
    yield Impure(made(own.act), lambda: other.COUNT)


@impure
def counter_as_an_attribute_of_a_module(patch: pytest.MonkeyPatch) -> Cells:
    other = module(patch, "user_other", "COUNT = 0")
    own = module(patch, "user_own", "import user_other\ndef act(self, t):\n    user_other.COUNT += 1\n    return t")
    yield Impure(made(own.act), lambda: other.COUNT)


@impure
def counter_in_a_closure(patch: pytest.MonkeyPatch) -> Cells:
    count = 0

    def act(self: Any, t: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return t * count

    yield Impure(made(act), lambda: count)


@impure
def counter_of_a_function(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        act.count += 1  # type: ignore[attr-defined]
        return torch.tanh(t)

    act.count = 0  # type: ignore[attr-defined]
    yield Impure(made(act), lambda: act.count)  # type: ignore[attr-defined]


@impure
def counter_in_a_dict(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        self.seen["steps"] = self.seen.get("steps", 0) + 1
        return t * self.seen["steps"]

    yield Impure(cell := made(act, seen={}), lambda: dict(cell.seen))


@impure
def counter_in_a_list_of_a_closure(patch: pytest.MonkeyPatch) -> Cells:
    count = [0]

    def act(self: Any, t: Tensor) -> Tensor:
        count[0] += 1
        return t

    yield Impure(made(act), lambda: list(count))


@impure
def counter_in_an_array(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        self.counts[0] += 1
        return torch.tanh(t)

    yield Impure(cell := made(act, counts=np.zeros(1)), lambda: cell.counts.tolist())


@impure
def counter_in_a_buffer(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        self.count += 1
        return t * self.count.clone()

    cell = made(act)
    cell.register_buffer("count", torch.zeros(1, dtype=torch.float64))
    yield Impure(cell, lambda: shown(cell.count))


@impure
def counter_in_a_buffer_that_is_replaced(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        self.count = self.count + 1
        return t * self.count

    cell = made(act)
    cell.register_buffer("count", torch.zeros(1, dtype=torch.float64))
    yield Impure(cell, lambda: shown(cell.count))


@impure
def counter_in_a_buffer_behind_a_closure(patch: pytest.MonkeyPatch) -> Cells:
    kept = nn.Module()
    kept.register_buffer("count", torch.zeros(1, dtype=torch.float64))

    def act(self: Any, t: Tensor) -> Tensor:
        kept.count = kept.count + 1
        return t * kept.count

    yield Impure(made(act), lambda: shown(kept.count))


@impure
def output_for_somebody_else_in_a_dict(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        self.seen["last"] = torch.tanh(t)
        return t

    yield Impure(cell := made(act, seen={}), lambda: noted(list(cell.seen.values())))


@impure
def counter_in_an_object(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        self.notes.count += 1
        return torch.tanh(t)

    yield Impure(cell := made(act, notes=types.SimpleNamespace(count=0)), lambda: cell.notes.count)


@impure
def counter_of_a_module_below(patch: pytest.MonkeyPatch) -> Cells:
    class Counting(nn.Module):
        calls = 0

        def forward(self, t: Tensor) -> Tensor:
            self.calls += 1
            return torch.tanh(t)

    yield Impure(cell := made(lambda self, t: self.squash(t), squash=Counting()), lambda: cell.squash.calls)


@impure
def iterator_that_moves(patch: pytest.MonkeyPatch) -> Cells:
    levels = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
    yield Impure(made(lambda self, t: t * next(self.levels), levels=levels), levels.__length_hint__)


@impure
def iterator_in_a_closure(patch: pytest.MonkeyPatch) -> Cells:
    count = itertools.count(1)
    yield Impure(made(lambda self, t: t * next(count)), lambda: repr(count))


@impure
def generator_that_moves(patch: pytest.MonkeyPatch) -> Cells:
    seen: list[int] = []

    def counting() -> Generator[int, None, None]:
        for k in range(1, 99):
            seen.append(k)
            yield k

    yield Impure(made(lambda self, t: t * next(self.levels), levels=counting()), lambda: list(seen))


@impure
def list_that_is_emptied(patch: pytest.MonkeyPatch) -> Cells:
    yield Impure(cell := made(lambda self, t: t * self.levels.pop(), levels=[*range(9)]), lambda: list(cell.levels))
