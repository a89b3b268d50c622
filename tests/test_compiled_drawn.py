"""Compiled loops never compute anything but what the interpreter computes: cells drawn at random.

Several cells are compiled together, which takes far less time than one after another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.comparison import results, wanting_gradients
from tests.drawn_cells import DrawnCell
from tests.emitting import assert_equals_interpreter, compiled_together, difference, drawn, interpreter
from tests.profiles import cases
from unspool import Checkpoint, Keep, Recompute, dynamic_rnn
from unspool.engine import Options, Request
from unspool.engine.emit.cpp.loop import Compiled
from unspool.engine.emit.interpreted import Interpreted
from unspool.engine.emit.protocol import Chunk
from unspool.engine.emit.stages.lowering import is_row_sum
from unspool.engine.execute.call import Call
from unspool.engine.execute.counts import Counts
from unspool.engine.execute.phase import Phase
from unspool.engine.plans.plan import Schedule
from unspool.engine.reasons import CannotPlanError
from unspool.engine.run import prepare
from unspool.structure import map_structure

pytestmark = [pytest.mark.compiled, pytest.mark.drawn]

CELLS = int(os.environ.get("UNSPOOL_DRAWN_CELLS", cases(30, 270)))
"""How many are drawn; thousands were, with other seeds."""
FIRST = int(os.environ.get("UNSPOOL_DRAWN_FIRST", "0"))
"""The seed of the first."""
TOGETHER = 15
"""How many are compiled at once."""

STEPS = 4
POLICIES = [Keep(), Recompute(), Checkpoint(every=3)]
FEW, MANY = 4, 17
"""Rows: with many, products of inputs are in the core too."""


class Case:
    """A drawn cell with what it runs on."""

    def __init__(self, seed: int) -> None:
        self.cell = DrawnCell(seed, operations=4 + seed % 7)
        self.memory = POLICIES[seed // 2 % 3]
        rows = MANY if seed % 2 else FEW
        self.lengths = None if seed % 5 == 0 else [STEPS, 0, *(1 + k % STEPS for k in range(rows - 2))]
        drawn = [
            [torch.randn(rows, *steps, *shape, dtype=torch.float64) for shape in shapes]
            for steps, shapes in (((STEPS,), self.cell.input_shapes), ((), self.cell.state_shapes))
        ]
        self.inputs, self.state = map(wanting_gradients, drawn)

    def prepare(self, made: list[Compiled]) -> bool:
        """Plans the cell, and adds what it needs to the module; False if it has no plan.

        Args:
            made: where compiled loops are noted.
        """
        before, lengths = len(made), None if self.lengths is None else torch.tensor(self.lengths)
        inputs = map_structure(lambda leaf: leaf.transpose(0, 1), self.inputs)
        try:
            call, _ = prepare(
                Request(self.cell, inputs, lengths, self.state, torch.float64, Options(memory=self.memory))
            )
        except CannotPlanError as reason:
            self.reason = str(reason)
            return False
        self.emitters = {each.parts(call.layout.mean_rows, call.emitter).emitter.name for each in self._phases(call)}
        self.loops = made[before:]
        return True

    def _phases(self, call: Call) -> list[Phase]:
        schedules: list[Schedule] = [call.schedule]
        if self.memory.reruns:
            schedules.append(call.plan.inference)
        return [each for one in schedules for each in (one.forward, one.adjoint) if each is not None]

    def results(self) -> dict[str, Any]:
        return results(self._run, self.cell, torch.float64, self.lengths, self.inputs, self.state)

    def _run(self, cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> Any:
        return dynamic_rnn(cell, inputs, lengths, state, dtype, memory=self.memory)


def check_core(loop: Compiled, seed: int) -> None:
    """The same core by both emitters, on any numbers: rows end early, time runs either way."""
    torch.manual_seed(seed)
    counts = Counts([[5, 5, 2, 1], [3, 3], [9, 8, 8], [1, 1, 1]][seed % 4])
    core = loop.core
    summed = {each.results[0]: each for each in core.instructions if is_row_sum(each)}
    rest = tuple(each for each in core.instructions if each not in summed.values())
    emitted_rows = tuple(summed[each].arguments[0] if each in summed else each for each in core.emitted)
    interpreted = Interpreted(replace(core, instructions=rest, emitted=emitted_rows), torch.device("cpu"))
    shared = [drawn(each, 0) for each in core.shared]
    streamed = [drawn(each, sum(counts)) for each in core.streamed]
    carried = [drawn(each, counts[0]) for each in core.carried]
    names = [f"carried {each}" for each in core.carried] + [f"emitted {each}" for each in core.emitted]
    groups = shared, streamed, carried
    nudged = [[_nudged(each) for each in group] for group in groups]

    def interpret(shared: list[Tensor], streamed: list[Tensor], carried: list[Tensor], reverse: bool) -> list[Tensor]:
        state, emitted = interpreted(interpreted.prepare(shared), Chunk(counts, streamed, carried, reverse))
        like = zip(emitted, core.emitted, strict=True)
        return [*state, *(rows.sum(0).reshape(each.shape) if each in summed else rows for rows, each in like)]

    for reverse in (False, True):
        try:
            state, emitted = loop(loop.prepare(shared), Chunk(counts, streamed, carried, reverse))
        except IndexError:  # numbers may be places, and out of range
            with pytest.raises((IndexError, RuntimeError)):
                interpret(*groups, reverse)
            continue
        right, about = interpret(*groups, reverse), interpret(*nudged, reverse)
        for name, own, expected, near in zip(names, [*state, *emitted], right, about, strict=True):
            off = difference(own, expected, least=1)  # what is given is of that size
            # Unless rounding decides: which is the largest of numbers that differ in their last bits alone, say.
            assert off <= 1e-10 or difference(near, expected, least=1) > 1e-10, f"{name} differs by {off}"


def _nudged(tensor: Tensor) -> Tensor:
    """The same numbers but for their last bits."""
    return tensor * (1 + 1e-15 * torch.randn_like(tensor)) if tensor.is_floating_point() else tensor


@pytest.fixture(autouse=True)
def _as_many_threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def started(seeds: range) -> list[Case]:
    """Drawn cells that a compiler works on, all together."""
    made: list[Compiled] = []
    make = Compiled.__init__

    def note(loop: Compiled, *args: Any, **kwargs: Any) -> None:
        make(loop, *args, **kwargs)
        made.append(loop)

    with pytest.MonkeyPatch.context() as patch, compiled_together(near=0):
        patch.setattr(Compiled, "__init__", note)
        return [case for case in map(Case, seeds) if case.prepare(made)]


def check(*batches: range) -> None:
    """Compares whole runs with every gradient, and each core by itself."""
    torch.set_num_threads(1)  # so many rows are many
    for case in [case for seeds in batches for case in started(seeds)]:
        try:
            assert case.emitters == {"c++"} or "unknown" in case.cell.operations
            found = case.results()
            with interpreter():
                expected = case.results()
            assert_equals_interpreter(found, expected)
            for number, loop in enumerate(case.loops):
                check_core(loop, case.cell.seed + number)
        except Exception as error:
            raise AssertionError(f"{error}\n{case.cell}") from error


@pytest.mark.parametrize("first", range(FIRST, FIRST + CELLS, 3 * TOGETHER))
def test_drawn_cells_are_compiled_right(first: int) -> None:
    """The next ones are traced while compilers work on those before."""
    last = min(first + 3 * TOGETHER, FIRST + CELLS)
    check(*(range(start, min(start + TOGETHER, last)) for start in range(first, last, TOGETHER)))
