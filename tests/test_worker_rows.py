"""How the rows of a chunk are divided among the threads of a compiled loop."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterator
from itertools import accumulate

import pytest
import torch

from unspool.engine.emit.cpp.libraries.build import Build
from unspool.engine.emit.cpp.libraries.kernels import header
from unspool.engine.emit.cpp.libraries.runtime import Needs, Runtime

pytestmark = pytest.mark.compiled

# Every worker notes its first row at all of its rows, and fills its scratch: what another has there would be gone.
NOTES = """
extern "C" __attribute__((visibility("default")))
void note(const unspool::Chunk& chunk, const unspool::Worker& worker) {
  int64_t* const firsts = static_cast<int64_t*>(chunk.emitted[0]);
  int64_t* const block = reinterpret_cast<int64_t*>(worker.block);
  int64_t* const products = reinterpret_cast<int64_t*>(worker.products);
  for (int64_t k = 0; k < chunk.steps; k++) {
    const int64_t rows = worker.rows(chunk.counts[k]);
    for (int64_t q = 0; q < rows; q++) block[3 * q] = products[q] = worker.first;
    for (int64_t q = 0; q < rows; q++)
      firsts[worker.first + q] = block[3 * q] == products[q] ? block[3 * q] : -1;
  }
}
"""


@pytest.fixture(autouse=True)
def _as_many_threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def first_rows(counts: list[int], threads: int) -> list[int]:
    """For every row the first one of the worker that has it."""
    torch.set_num_threads(threads)
    library = Build.of(header("functions.h", "loop.h") + NOTES).library()
    steps = ctypes.cast(library.note, ctypes.c_void_p).value
    assert steps is not None
    firsts, none = array("q", [-1] * counts[0]), array("q", [0, 0, 0, 0])
    row_bytes = array("q", [8])
    given, starts = array("q", counts), array("q", accumulate(counts, initial=0))
    emitted = array("q", [firsts.buffer_info()[0]])
    needs = Needs(block=24, products=8, other_work=1 << 20, emitted_count=1, emitted_bytes=row_bytes.buffer_info()[0])
    places = [each.buffer_info()[0] for each in (given, starts, none, none, emitted, none, none, none, none)]
    chunk = array("q", [len(counts), 0, counts[0], *places])
    Runtime.get().run(steps, chunk.buffer_info()[0], needs)
    return list(firsts)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "lengths",
    [[5] * 8, [5] * 7, [100, *[3] * 60], list(range(100, 0, -1)), [9, 1], [4]],
    ids=["even", "odd", "one long", "falling", "two", "one"],
)
def test_a_worker_has_neighbouring_rows_and_its_share_of_the_steps(lengths: list[int], threads: int) -> None:
    counts = [sum(length > step for length in lengths) for step in range(lengths[0])]
    firsts = first_rows(counts, threads)
    assert firsts == sorted(firsts), "rows that are not neighbours"
    work = {first: sum(length for length, own in zip(lengths, firsts, strict=True) if own == first) for first in firsts}
    assert all(firsts[first] == first for first in work)
    assert len(work) == min(threads, len(lengths))
    # A row is not divided: half of the longest may be too much at either end.
    assert max(work.values()) <= sum(lengths) / threads + max(lengths)
