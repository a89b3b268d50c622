"""Values between parts of a step that are computed again of narrower ones: who puts them out, and what that saves."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.comparison import assert_same, engine_loop, plain_loop, results, wanting_gradients
from tests.device_lengths import by_lengths, keep_on_device
from tests.emulator import emulated
from unspool import Checkpoint, Keep, Recompute, RNNCell
from unspool.engine.emit.cuda.loop import emitter
from unspool.engine.emit.cuda.loop.division import Units
from unspool.engine.emit.cuda.loop.rewrites.narrow import with_narrow_reads
from unspool.engine.emit.cuda.loop.tiles import Tiling
from unspool.engine.partition.residuals import row_bytes
from unspool.engine.partition.split import Split
from unspool.engine.rows.labels import Axis, Label
from unspool.structure import map_structure

UNITS, KEYS, ROWS, STEPS = 32, 8, 4, 6
TILINGS = [Tiling(rows=2, warps=2), Tiling(Units(UNITS, 16), rows=8, warps=2)]
LENGTHS = [[6, 0, 3, 1], [6, 6, 6, 6], [0, 0, 0, 0]]


class Outer(RNNCell):
    """A state and a memory, to which an outer product is added: as wide as all of it, and known by two vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = torch.Size([KEYS, UNITS])
        self.state_size: Any = (UNITS, self.memory)
        self.output_size: Any = (self.memory, self.memory)
        self.from_inputs, self.from_state = nn.Linear(4, UNITS), nn.Linear(UNITS, UNITS)
        self.keys, self.scale = nn.Linear(4, KEYS), nn.Parameter(torch.rand(UNITS) + 1)


class PutOutByTheCore(Outer):
    """The product is made in the core, is an output, and what comes after the core reads it."""

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> Any:
        h, memory = state
        h = torch.tanh(self.from_state(h) + self.from_inputs(x) + 0.1 * memory.sum(1))
        made = torch.tanh(h[:, :KEYS])[:, :, None] * h[:, None, :]
        return (made, torch.sin(made) * self.scale), (h, 0.9 * memory + made)


class PutOutBefore(Outer):
    """The product is known before the loop, is an output, and the core reads it."""

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> Any:
        h, memory = state
        made = self.keys(x)[:, :, None] * self.from_inputs(x)[:, None, :]
        h = torch.tanh(self.from_state(h) + 0.1 * memory.sum(1))
        memory = 0.9 * memory + made * torch.cos(h)[:, None, :] * self.scale
        return (made, memory), (h, memory)


class CarriedOn(Outer):
    """The product is known before the loop and carried on, and the core reads it."""

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> Any:
        h, memory = state
        made = self.keys(x)[:, :, None] * self.from_inputs(x)[:, None, :]
        h = torch.tanh(self.from_state(h) + 0.1 * (memory * made).sum(1))
        return (memory, torch.sin(memory) * self.scale), (h, made)


class ReachesSums(Outer):
    """What comes after the core computes the product again, and it reaches sums over rows by functions with poles."""

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> Any:
        h, memory = state
        h = torch.tanh(self.from_state(h) + self.from_inputs(x) + 0.1 * memory.sum(1))
        key = torch.tanh(h[:, :KEYS]) + 2
        made = key[:, :, None] * h[:, None, :]
        root = torch.rsqrt(made * made + 0.1 * self.scale) * self.scale
        return (root, root + 1 / (key[:, :, None] + self.scale)), (h, 0.9 * memory + made)


CELLS = [PutOutByTheCore, PutOutBefore, CarriedOn, ReachesSums]


def problem_of(kind: type[Outer]) -> tuple[Outer, Tensor, Any]:
    torch.manual_seed(0)
    own = kind().double()
    state = map_structure(lambda leaf: torch.randn_like(leaf) / 2, own.zero_state(ROWS, torch.float64))
    return own, torch.randn(ROWS, STEPS, 4, dtype=torch.float64), state


def results_of(kind: type[Outer], loop: Any, lengths: list[int], padding: float | None = None) -> dict[str, Any]:
    own, inputs, state = problem_of(kind)
    if padding is not None:
        for row, length in enumerate(lengths):
            inputs[row, length:] = padding
    return results(
        loop, copy.deepcopy(own), torch.float64, lengths, wanting_gradients(inputs), wanting_gradients(state)
    )


@pytest.mark.parametrize("tiling", TILINGS, ids=["whole rows", "divided"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("kind", CELLS)
def test_results_and_gradients_are_the_plain_loops(
    kind: type[Outer], lengths: list[int], tiling: Tiling, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = results_of(kind, plain_loop, lengths)
    with emulated(tiling=tiling):
        assert_same(results_of(kind, engine_loop, lengths), expected)
    keep_on_device(monkeypatch)
    for options in ({}, dict(parallel_iterations=4)):
        with emulated(tiling=tiling) as found:
            assert_same(results_of(kind, by_lengths(**options), lengths, float("nan")), expected)
        assert found.emulated.launches == 2 * (1 + len(options))


@pytest.mark.parametrize("memory", [Keep(), Recompute(), Checkpoint(every=2)], ids=str)
@pytest.mark.parametrize("kind", CELLS)
def test_whatever_is_kept_for_backward(kind: type[Outer], memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = results_of(kind, plain_loop, LENGTHS[0])
    keep_on_device(monkeypatch)
    with emulated(tiling=TILINGS[0]):
        assert_same(results_of(kind, by_lengths(memory=memory), LENGTHS[0]), expected)


def moved(split: Split, labels: dict[Any, Label]) -> int:
    """Bytes of a row and step that its parts read and write."""
    values = [each for part in (split.before, split.core, split.after) for each in (*part.inputs, *part.outputs)]
    return sum(row_bytes(each, labels) for each in values if isinstance(labels[each], Axis))


@pytest.mark.parametrize("kind", CELLS)
def test_parts_read_and_write_less(kind: type[Outer], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []

    def watched(split: Split, labels: dict[Any, Label]) -> Split:
        narrowed = with_narrow_reads(split, labels)
        seen.append((moved(narrowed, labels), moved(split, labels)))
        return narrowed

    monkeypatch.setattr(emitter, "with_narrow_reads", watched)
    with emulated(tiling=TILINGS[0]):
        results_of(kind, engine_loop, LENGTHS[1])
    assert all(now <= before for now, before in seen)
    assert any(now < before for now, before in seen)
