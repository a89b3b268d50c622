"""Chunks in which rows end, run as larger ones in which every step has all rows: what a CUDA graph does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.emitting import drawn
from tests.user_cells import USER_CELLS
from tests.zoo import ZOO, inputs_for
from unspool import RNNCell
from unspool.engine import Request
from unspool.engine.emit.graphs.padded import Padded, can_pad, rounded_up
from unspool.engine.emit.interpreted import Interpreted
from unspool.engine.emit.protocol import Chunk, Results
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.run import prepare
from unspool.structure import flatten, map_structure

CPU = torch.device("cpu")
CELLS = ["lstm", "gru", "stack", "attention_memory", "dict_state_dtypes", "scalar_state"]
COUNTS = st.lists(st.integers(1, 20), min_size=1, max_size=12).map(lambda counts: Counts(sorted(counts, reverse=True)))


@given(st.integers(1, 5000))
def test_numbers_are_rounded_up_to_few(count: int) -> None:
    rounded = rounded_up(count)
    assert count <= rounded < 2 * count
    assert rounded_up(rounded) == rounded
    if count > 8:
        assert 2 * rounded <= 3 * count  # no more than half of them are too many


def test_there_are_few_of_these_numbers() -> None:
    assert len({rounded_up(count) for count in range(1, 65)}) == 10
    assert len({rounded_up(count) for count in range(1, 1025)}) == 30


@given(COUNTS, st.integers(1, 3), st.sampled_from([(), (2,), (0,), (2, 3)]))
def test_rows_are_put_where_they_are_taken_from(counts: Counts, times: int, shape: tuple[int, ...]) -> None:
    padded = Padded.of(counts, CPU)
    given = torch.randn(counts.total * times, *shape)
    own = padded.around(given).fill_(7)
    padded.put(own, given)
    assert torch.equal(padded.take(own), given)
    at_steps = own.reshape(padded.steps, padded.rows, times, *shape)
    for time, rows in enumerate(at_steps):
        count = counts[time] if time < len(counts) else 0
        start = counts.starts[time] if time < len(counts) else counts.total
        assert torch.equal(rows[:count].flatten(0, 1), given[start * times : (start + count) * times])
        assert (rows[count:] == 7).all()
        assert padded.runs[time].tolist() == [True] * count + [False] * (padded.rows - count)


def cores(name: str) -> list[Core]:
    """Of a cell's step and its adjoint, as they are on a GPU."""
    torch.manual_seed(0)
    if name in ZOO:
        cell, dtype = ZOO[name]().double(), torch.float64
        inputs, state = inputs_for(name, 3, 2), cell.zero_state(3, torch.float64)
    else:
        user = USER_CELLS[name]
        cell, inputs, state, dtype = user.make(), user.inputs(3, 2), user.state(3), user.dtype
    with torch.no_grad():
        cell(map_structure(lambda leaf: leaf[:, 0], inputs), state)  # builds it
    for leaf in [*flatten(inputs), *flatten(state)]:
        leaf.requires_grad_(leaf.is_floating_point())
    call, _ = prepare(Request(cell, map_structure(lambda leaf: leaf.transpose(0, 1), inputs), None, state, dtype))
    phases = (call.schedule.forward, call.schedule.adjoint)
    return [phase.core for phase in phases if phase is not None]


def run_padded(loop: Interpreted, shared: list[Tensor], chunk: Chunk, beside: float) -> Results:
    """As a graph would, on memory with something else in it."""
    padded = Padded.of(chunk.counts, CPU)
    streamed = [padded.around(each).fill_(beside) for each in chunk.streamed]
    carried = [padded.around_state(each).fill_(beside) for each in chunk.carried]
    for own, each in zip(streamed, chunk.streamed, strict=True):
        padded.put(own, each)
    for own, each in zip(carried, chunk.carried, strict=True):
        own[: chunk.counts[0]] = each
    larger = Chunk(Counts([padded.rows] * padded.steps), streamed, carried, chunk.reverse)
    new, emitted = loop(shared, larger, padded.runs)
    return [each[: chunk.counts[0]] for each in new], [padded.take(each) for each in emitted]


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
def test_a_padded_chunk_computes_the_same(name: str, reverse: bool) -> None:
    for core in cores(name):
        assert can_pad(core)
        loop = Interpreted(core, CPU)
        shared = loop.prepare([drawn(each, 0) for each in core.shared])
        for counts in map(Counts, ([5, 5, 2], [9, 8, 3, 3, 1], [1, 1], [3])):
            streamed = [drawn(each, counts.total) for each in core.streamed]
            carried = [drawn(each, counts[0]) for each in core.carried]
            chunk = Chunk(counts, streamed, carried, reverse)
            expected, found = loop(shared, chunk), run_padded(loop, shared, chunk, beside=1)
            # The same operations on other numbers of rows, which a library may multiply in another order. A count below
            # zero, as it is drawn here, is none that a cell has, and may have no average.
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9, equal_nan=True)


def test_rows_that_are_not_in_front_are_not_padded() -> None:
    assert not all(map(can_pad, cores("multi_head")))


class Positions(RNNCell):
    """Reads a row of a table that is as long as the longest sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 4)
        self.state_size, self.output_size = (4, torch.Size([])), 4

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> Any:
        h, position = state
        h = torch.tanh(x + h + self.table(position))
        return h, (h, position + 1)


def test_rows_are_not_padded_where_an_index_could_go_too_far() -> None:
    """A row that has ended is at the end of the table."""
    state = (torch.zeros(3, 4), torch.zeros(3, dtype=torch.int64))
    call, _ = prepare(Request(Positions(), torch.randn(5, 3, 4), None, state, torch.float32))
    assert not can_pad(call.schedule.forward.core)


def test_what_does_not_run_leaves_no_trace() -> None:
    """Not even as NaN."""
    (core, *_) = cores("lstm")
    loop, counts = Interpreted(core, CPU), Counts([3, 1])
    shared = loop.prepare([drawn(each, 0) for each in core.shared])
    streamed = [drawn(each, counts.total) for each in core.streamed]
    chunk = Chunk(counts, streamed, [drawn(each, 3) for each in core.carried])
    torch.testing.assert_close(run_padded(loop, shared, chunk, beside=torch.nan), loop(shared, chunk))
