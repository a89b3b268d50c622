"""Cells in compiled loops: the numbers of the interpreter, which all other tests of the engine are about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch

from tests.comparison import Run, data_for, results, wanting_gradients
from tests.emitting import assert_compiled, assert_equals_interpreter, interpreter
from tests.user_cells import USER_CELLS
from tests.zoo import ZOO, inputs_for
from unspool import Checkpoint, Keep, Recompute, dynamic_rnn, explain
from unspool.engine import Memory, Options
from unspool.engine.run import prepare
from unspool.structure import map_structure

pytestmark = pytest.mark.compiled

STEPS = 7
FEW, MANY = 5, 33
"""Rows: with few, products of the inputs are computed for many steps at once; with many, at every step."""
LENGTHS = [7, 0, 3, 3, 1]
POLICIES = [Keep(), Recompute(), Checkpoint(every=3)]

UNPLANNED = {
    "locked_dropout": "the step changes the cell: mask",
    "branching": "the step's control flow or shapes depend on the values of tensors",
    "clockwork": "the step changes the cell: time",
}
"""Cells that the plain loop runs, with what `explain` says of them."""

INTERPRETED = {
    "conv_lstm": "aten.convolution.default has no C++ form",
    "top_k": "aten.topk.default has no C++ form",
    "lstm-softplus": "aten.logaddexp.default has no C++ form",
}
"""Cells whose forward cores have no form in C++, with what `explain` says of them."""

CELLS = [name for name in (*USER_CELLS, *ZOO) if name not in {*UNPLANNED, *INTERPRETED}]


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    """How many rows are many depends on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Case:
    """A cell, and what it runs on."""

    cell: Any
    dtype: torch.dtype
    inputs: Any
    lengths: Any
    state: Any

    def results(self, memory: Memory | None = None) -> dict[str, Any]:
        """Outputs, final states and every gradient."""
        return results(_loop(memory), self.cell, self.dtype, self.lengths, self.inputs, self.state)

    def check(self, memory: Memory | None = None) -> None:
        """Asserts that compiled loops run it, and that they compute what the interpreter does."""
        assert_compiled(self.cell, self.inputs, self.lengths, self.state, self.dtype, memory=memory)
        found = self.results(memory)
        with interpreter():
            expected = self.results(memory)
        assert_equals_interpreter(found, expected)

    def start(self, memories: Any) -> None:
        """Lets compilers begin, and does not wait for them."""
        lengths = None if self.lengths is None else torch.tensor(self.lengths)
        inputs = map_structure(lambda leaf: leaf.transpose(0, 1), self.inputs)
        for memory in memories:
            call, _ = prepare(self.cell, inputs, lengths, self.state, self.dtype, Options(memory=memory))
            forward = call.plan.inference.forward if isinstance(memory, Checkpoint) else call.schedule.forward
            for phase in (forward, call.schedule.forward, call.schedule.adjoint):
                if phase is not None:
                    phase.parts(call.layout.mean_rows)


def _loop(memory: Memory | None) -> Run:
    def run(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> tuple[Any, Any]:
        return dynamic_rnn(cell, inputs, lengths, state, dtype, memory=memory)

    return run


def made(name: str, dtype: torch.dtype, batch: int, lengths: Any) -> Case:
    """A cell of a user or of the zoo."""
    torch.manual_seed(0)
    if name in USER_CELLS:
        cell = USER_CELLS[name].make()
        inputs, state = data_for(USER_CELLS[name], batch, STEPS)
    else:
        cell, inputs = ZOO[name](), wanting_gradients(inputs_for(name, batch, STEPS))
        with interpreter():
            dynamic_rnn(cell, map_structure(lambda leaf: leaf[:, :0], inputs), dtype=torch.float64)  # builds it
        cell = cell.double()
        state = map_structure(torch.randn_like, cell.zero_state(batch, torch.float64))
    if dtype == torch.float32:
        cell = cell.float()
        inputs, state = (
            map_structure(lambda leaf: leaf.float() if leaf.is_floating_point() else leaf, each)
            for each in (inputs, state)
        )
    return Case(cell, dtype, wanting_gradients(inputs), lengths, wanting_gradients(state))


@cache
def started(name: str, dtype: torch.dtype) -> Case:
    """A case that compilers work on: one plan for all that it is run with.

    In float64 with few rows, some of which end early; in float32 with many that do not.
    """
    single = dtype == torch.float32
    case = made(name, dtype, MANY if single else FEW, None if single else LENGTHS)
    case.start(_policies(name, dtype))
    return case


def _policies(name: str, dtype: torch.dtype) -> list[Any]:
    return POLICIES if dtype == torch.float64 and name in USER_CELLS else POLICIES[:1]


def _next(name: str) -> str:
    return CELLS[(CELLS.index(name) + 1) % len(CELLS)]


# -- every cell --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", CELLS)
def test_equals_the_interpreter(name: str, dtype: torch.dtype) -> None:
    case = started(name, dtype)
    # A compiler works in the background, and so it should while the next step is traced.
    started(name, torch.float32) if dtype == torch.float64 else started(_next(name), torch.float64)
    for memory in _policies(name, dtype):
        case.check(memory)
