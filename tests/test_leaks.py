"""Plans, reasons and guards keep nothing alive: neither cells, nor what they were called with."""

from __future__ import annotations

import gc
import resource
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unspool
from unspool import dynamic_rnn
from unspool.engine import Request
from unspool.engine.plans import cache
from unspool.engine.reasons import CannotPlanError


def resident_memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class Centred(unspool.RNNCell):
    """Cannot be planned: takes the mean over the batch."""

    state_size = output_size = 3

    def forward(self, x: Tensor, h: Tensor) -> Any:
        h = torch.tanh(x + h - h.mean(0))
        return h, h


class Scaled(unspool.RNNCell):
    """Reads everything that a guard has to hold on to: closures, containers, methods of its own."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.state_size = self.output_size = 3
        self.mix = nn.Linear(6, 3)
        self.scales = {"own": [scale]}
        self.act = self.squash
        self.late = lambda t: t * scale

    def squash(self, t: Tensor) -> Tensor:
        return torch.tanh(t) * self.scales["own"][0]

    def forward(self, x: Tensor, h: Tensor) -> Any:
        h = self.late(self.act(self.mix(torch.cat([x, h], 1))))
        return h, h


def test_the_reason_of_a_cell_without_a_plan_keeps_no_input_alive() -> None:
    cell, inputs = Centred(), torch.zeros(2, 5, 3)
    dynamic_rnn(cell, inputs, dtype=torch.float32)
    inputs = torch.zeros(2, 5, 3)
    gone = weakref.ref(inputs)
    dynamic_rnn(cell, inputs, dtype=torch.float32)
    del inputs
    assert gone() is None  # at once, and not when cycles are collected


def test_the_error_of_a_cell_without_a_plan_does_not_grow() -> None:
    cell, inputs, state = Centred(), torch.zeros(5, 2, 3), torch.zeros(2, 3)
    depths: list[int] = []
    for _ in range(4):
        with pytest.raises(CannotPlanError) as caught:
            cache.plan_of(Request(cell, inputs, None, state, torch.float32))
        depths.append(len(caught.traceback))
    assert depths[1:] == depths[1:2] * 3


def test_ten_thousand_calls_of_a_cell_without_a_plan_take_no_memory() -> None:
    cell, inputs = Centred(), torch.zeros(2, 2, 3)
    with torch.no_grad():
        for _ in range(500):
            dynamic_rnn(cell, inputs, dtype=torch.float32)
        before = resident_memory()
        for _ in range(9_500):
            dynamic_rnn(cell, inputs, dtype=torch.float32)
    assert resident_memory() - before < 4 << 20  # a traceback and its inputs for each call would be 60 MiB


def test_cells_are_gone_when_nobody_holds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_EMIT", "interpreted")
    inputs, seen = torch.zeros(2, 4, 3), list[weakref.ref[Any]]()
    for number in range(4):
        cell = Scaled(1.0 + number % 2)
        for _ in range(2):
            outputs, state = dynamic_rnn(cell, inputs, dtype=torch.float32)
            outputs.sum().backward()
        seen.append(weakref.ref(cell))
        del cell, outputs, state
    gc.collect()
    assert [each() for each in seen] == [None] * 4


def test_two_thousand_cells_made_and_dropped_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_EMIT", "interpreted")
    inputs, keeper = torch.zeros(2, 2, 3), Scaled(0.5)
    traced = cache.traces
    with torch.no_grad():
        dynamic_rnn(keeper, inputs, dtype=torch.float32)  # so that there is always one, and its plan
        for number in range(2_000):
            if number == 200:
                gc.collect()
                before = resident_memory()
            dynamic_rnn(Scaled(0.5), inputs, dtype=torch.float32)
    gc.collect()
    assert cache.traces == traced + 1  # all share one plan
    assert resident_memory() - before < 8 << 20
