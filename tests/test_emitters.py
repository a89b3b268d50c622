"""Emitters plug in: one that the library does not know registers, is chosen, runs, and is seen by `explain`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from tests.comparison import check
from unspool import GRUCell, dynamic_rnn, explain
from unspool.engine.emit import registry
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.interpreted import Interpreted
from unspool.engine.emit.protocol import Chunk, CoreEmitter, Results
from unspool.engine.ir.core import Core
from unspool.engine.plans import cache
from unspool.engine.reasons import Code, Reason


class CountedLoop(Interpreted):
    """The interpreter, with the steps and rows that it runs counted."""

    def __init__(self, core: Core, device: torch.device, counted: list[int]) -> None:
        super().__init__(core, device)
        self._counted = counted
        self.source = "# counted\n" + self.source

    def __call__(self, shared: Sequence[Tensor], chunk: Chunk, runs: Tensor | None = None) -> Results:
        self._counted += chunk.counts
        return super().__call__(shared, chunk, runs)


class Counting(CoreEmitter):
    """Costs nothing, and counts."""

    name = "counting"

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.waits_for: str | None = None

    def refusal(self, device: torch.device) -> Reason | None:
        return None if device.type == "cpu" else Reason(Code.OTHER_DEVICE, "it counts on CPUs")

    def cost(self, core: Core) -> float:
        return 0.0

    def core(self, core: Core, device: torch.device) -> CountedLoop:
        if self.waits_for is not None and any(each.name == self.waits_for for each in core.instructions):
            raise CannotEmitError(f"it cannot count {self.waits_for}")
        return CountedLoop(core, device, self.rows)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    monkeypatch.delenv("UNSPOOL_EMIT", raising=False)
    emitter = Counting()
    registry.register(emitter)
    yield emitter
    registry.unregister(emitter.name)


INPUTS = torch.randn(3, 5, 4, dtype=torch.float64)


def test_an_emitter_runs_what_it_is_cheapest_for_and_shows_up_in_explain(counting: Counting) -> None:
    cell = GRUCell(6, input_size=4).double()
    explanation = explain(cell, INPUTS, dtype=torch.float64)
    assert explanation.forward is not None
    assert explanation.emitter == explanation.forward.emitter == "counting"
    assert explanation.forward.source.startswith("# counted")
    check(cell, torch.float64, [5, 2, 1], INPUTS, cell.zero_state(3, torch.float64))
    assert counting.rows == [3, 2, 1, 1, 1] * 2  # forward and backward, no row past its end


def test_the_trace_is_the_same_for_all_emitters(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = GRUCell(7, input_size=4).double()
    dynamic_rnn(cell, INPUTS, dtype=torch.float64)
    traced, rows = cache.traces, len(counting.rows)
    monkeypatch.setenv("UNSPOOL_EMIT", "interpreted")
    interpreted, _ = dynamic_rnn(cell, INPUTS, dtype=torch.float64)
    assert len(counting.rows) == rows
    monkeypatch.setenv("UNSPOOL_EMIT", "counting")
    counted, _ = dynamic_rnn(cell, INPUTS, dtype=torch.float64)
    assert len(counting.rows) == rows + 5
    assert cache.traces == traced
    assert torch.equal(interpreted, counted)
    passed_over = dict(explain(cell, INPUTS, dtype=torch.float64).forward.passed_over)
    assert passed_over["c++"] == "the environment says UNSPOOL_EMIT=counting"


def test_what_an_emitter_has_no_form_for_goes_to_the_next_one(counting: Counting) -> None:
    counting.waits_for = "tanh"
    cell = GRUCell(5, input_size=4).double()
    explanation = explain(cell, INPUTS, dtype=torch.float64)
    assert dict(explanation.forward.passed_over)["counting"] == "it cannot count tanh"
    assert explanation.emitter in ("c++", "interpreted")
    assert not counting.rows


def test_an_emitter_that_is_gone_runs_nothing(counting: Counting) -> None:
    cell = GRUCell(3, input_size=4).double()
    dynamic_rnn(cell, INPUTS, dtype=torch.float64)
    rows = len(counting.rows)
    registry.unregister("counting")
    try:
        dynamic_rnn(cell, INPUTS, dtype=torch.float64)
        assert len(counting.rows) == rows
    finally:
        registry.register(counting)


def test_names_are_unique_and_the_interpreter_stays(counting: Counting) -> None:
    with pytest.raises(ValueError, match="there is an emitter named 'counting' already: Counting"):
        registry.register(Counting())
    for name in ("interpreted", "nothing"):
        with pytest.raises(ValueError, match=f"name is '{name}', but expected one of 'CUDA graph'"):
            registry.unregister(name)
