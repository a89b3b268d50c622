"""Steps that do more than compute, or that compute from more than they are given: none of them can be planned.

Each entry yields a cell once, and undoes what it did to anything global. The plain loop says what a run leaves behind.
"""

from __future__ import annotations

import datetime
import io
import itertools
import logging
import os
import pathlib
import random
import secrets
import sys
import tempfile
import time
import types
import uuid
import warnings
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.cell_changes.table import made, module


@dataclass(frozen=True)
class Impure:
    """A cell with effects.

    Args:
        cell: the cell.
        effects: what its runs have left behind so far.
        fresh: whether each step computes from something that is never the same again, so that no two runs are equal.
    """

    cell: Any
    effects: Callable[[], Any] = lambda: None
    fresh: bool = False


Entry = Callable[[pytest.MonkeyPatch], Generator[Impure, None, None]]
IMPURE: dict[str, Entry] = {}


def impure(entry: Entry) -> Entry:
    name = entry.__name__.replace("_", " ").strip()
    assert name not in IMPURE, name
    IMPURE[name] = entry
    return entry


@contextmanager
def impure_cell(name: str) -> Generator[Impure, None, None]:
    torch.manual_seed(0)
    with pytest.MonkeyPatch.context() as patch, closing(IMPURE[name](patch)) as entry:
        yield next(entry)


Cells = Generator[Impure, None, None]

# -- random numbers ---------------------------------------------------------------------------------------------------


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

# -- counters ---------------------------------------------------------------------------------------------------------


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
    yield Impure(cell, lambda: _shown(cell.count))


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


# -- notes ------------------------------------------------------------------------------------------------------------


@impure
def prints(patch: pytest.MonkeyPatch) -> Cells:
    out = io.StringIO()

    def act(self: Any, t: Tensor) -> Tensor:
        print("a step", file=out)
        return torch.tanh(t)

    yield Impure(made(act), out.getvalue)


@impure
def prints_to_standard_output(patch: pytest.MonkeyPatch) -> Cells:
    out = io.StringIO()

    def act(self: Any, t: Tensor) -> Tensor:
        print("a step")
        return torch.tanh(t)

    patch.setattr(sys, "stdout", out)
    yield Impure(made(act), out.getvalue)


@impure
def logs(patch: pytest.MonkeyPatch) -> Cells:
    log, records = logging.getLogger("user.steps"), list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    log.addHandler(handler)
    log.setLevel(logging.INFO)

    def act(self: Any, t: Tensor) -> Tensor:
        log.info("a step")
        return torch.tanh(t)

    try:
        yield Impure(made(act), lambda: list(records))
    finally:
        log.removeHandler(handler)


@impure
def warns(patch: pytest.MonkeyPatch) -> Cells:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")

        def act(self: Any, t: Tensor) -> Tensor:
            warnings.warn("a step", stacklevel=1)
            return torch.tanh(t)

        yield Impure(made(act), lambda: [str(each.message) for each in seen or () if each.category is UserWarning])


def _shown(tensor: Any) -> Any:
    """Its numbers, or what it is if it has none: a tracer's tensor, say."""
    return tensor.detach().tolist() if type(tensor) is Tensor else type(tensor).__name__


def _noted(notes: list[Any]) -> Any:
    return [_shown(each) for each in notes]


@impure
def tensors_in_a_list(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        self.notes.append(t)
        return torch.tanh(t)

    yield Impure(cell := made(act, notes=[]), lambda: _noted(cell.notes))


@impure
def tensors_in_a_list_of_a_closure(patch: pytest.MonkeyPatch) -> Cells:
    notes: list[Tensor] = []

    def act(self: Any, t: Tensor) -> Tensor:
        notes.append(t.detach())
        return torch.tanh(t)

    yield Impure(made(act), lambda: _noted(notes))


@impure
def tensors_in_a_global_list(patch: pytest.MonkeyPatch) -> Cells:
    own = module(patch, "user_own", "NOTES = []\ndef act(self, t):\n    NOTES.append(t.detach())\n    return t")
    yield Impure(made(own.act), lambda: _noted(own.NOTES))


@impure
def tensor_in_an_attribute(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        self.last = t.detach()
        return torch.tanh(t)

    yield Impure(cell := made(act, last=None), lambda: _shown(cell.last))


@impure
def tensor_in_an_attribute_that_is_new(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        self.last = t.detach()
        return torch.tanh(t)

    yield Impure(cell := made(act), lambda: _shown(getattr(cell, "last", None)))


@impure
def number_in_an_attribute(patch: pytest.MonkeyPatch) -> Cells:
    """The same at every step, and still not there before the first."""

    def act(self: Any, t: Tensor) -> Tensor:
        self.width = t.shape[1]
        return torch.tanh(t)

    yield Impure(cell := made(act), lambda: getattr(cell, "width", None))


@impure
def attribute_is_deleted(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        if hasattr(self, "first"):
            del self.first
            return t
        return torch.tanh(t)

    yield Impure(cell := made(act, first=True), lambda: hasattr(cell, "first"))


@impure
def attribute_of_an_input(patch: pytest.MonkeyPatch) -> Cells:
    seen: list[Tensor] = []

    class Cell(made(lambda self, t: t).__class__):  # type: ignore[misc]
        def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            seen.append(x)
            x.noted = True  # type: ignore[attr-defined]
            return super().forward(x, h)

    yield Impure(Cell(), lambda: [hasattr(each, "noted") for each in seen])


@impure
def gradient_hook(patch: pytest.MonkeyPatch) -> Cells:
    """Called in backward, once a step."""
    norms: list[Any] = []

    def act(self: Any, t: Tensor) -> Tensor:
        if t.requires_grad:
            t.register_hook(lambda gradient: norms.append(_shown(gradient)))
        return torch.tanh(t)

    yield Impure(made(act), lambda: list(norms))


# -- the world --------------------------------------------------------------------------------------------------------


@impure
def reads_a_file(patch: pytest.MonkeyPatch) -> Cells:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "gain")
        path.write_text("0.5")
        yield Impure(made(lambda self, t: t * float(path.read_text())))


@impure
def reads_an_open_file(patch: pytest.MonkeyPatch) -> Cells:
    text = io.StringIO("123456789")
    yield Impure(made(lambda self, t: t * float(text.read(1))), text.tell)


@impure
def writes_a_file(patch: pytest.MonkeyPatch) -> Cells:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "notes")
        path.touch()

        def act(self: Any, t: Tensor) -> Tensor:
            with path.open("a") as file:
                file.write("a step\n")
            return torch.tanh(t)

        yield Impure(made(act), path.read_text)


@impure
def lists_a_folder(patch: pytest.MonkeyPatch) -> Cells:
    with tempfile.TemporaryDirectory() as folder:
        yield Impure(made(lambda self, t: t * (1 + len(os.listdir(folder)))))


@impure
def writes_the_environment(patch: pytest.MonkeyPatch) -> Cells:
    patch.setenv("USER_STEPS", "")

    def act(self: Any, t: Tensor) -> Tensor:
        os.environ["USER_STEPS"] += "s"
        return torch.tanh(t)

    yield Impure(made(act), lambda: os.environ["USER_STEPS"])


@impure
def seeds_torch(patch: pytest.MonkeyPatch) -> Cells:
    """Every step draws the same: a plan that draws ahead would not."""

    def act(self: Any, t: Tensor) -> Tensor:
        torch.manual_seed(3)
        return t * torch.rand(3, dtype=t.dtype)

    yield Impure(made(act), lambda: hash(tuple(torch.get_rng_state().tolist())))


@impure
def sets_a_flag_of_torch(patch: pytest.MonkeyPatch) -> Cells:
    before = torch.get_default_dtype()

    def act(self: Any, t: Tensor) -> Tensor:
        torch.set_default_dtype(torch.float64)
        return torch.tanh(t)

    try:
        yield Impure(made(act), torch.get_default_dtype)
    finally:
        torch.set_default_dtype(before)


@impure
def measures_time_beside_the_numbers(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        start = time.perf_counter()
        t = torch.tanh(t)
        self.times.append(time.perf_counter() - start)
        return t

    yield Impure(cell := made(act, times=[]), lambda: len(cell.times))


@impure
def raises_after_a_while(patch: pytest.MonkeyPatch) -> Cells:
    """An exception that the step itself catches, by a counter."""
    levels = [0.5, 0.7]

    def act(self: Any, t: Tensor) -> Tensor:
        try:
            return t * levels.pop()
        except IndexError:
            return t

    yield Impure(made(act), lambda: list(levels))
