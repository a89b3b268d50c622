"""Where rows are, by step: every question to a `Layout` against loops over steps and rows in plain Python."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unspool.engine.execute.device_layout import DeviceLayout
from unspool.engine.execute.layout import Layout

CPU = torch.device("cpu")
STEPS = 6

LENGTHS = st.one_of(
    st.lists(st.integers(0, STEPS), min_size=1, max_size=6),
    st.builds(lambda length, rows: [length] * rows, st.integers(0, STEPS), st.integers(1, 5)),
    st.builds(
        lambda rows, one: [STEPS if k == one % rows else 0 for k in range(rows)], st.integers(1, 5), st.integers(0, 4)
    ),
    st.builds(
        lambda rows, one: [STEPS if k == one % rows else 1 for k in range(rows)], st.integers(1, 5), st.integers(0, 4)
    ),
)
"""Any lengths; all equal, also all zero; one long row among empty ones; one long row among short ones."""

FEATURES = st.sampled_from([(), (0,), (1,), (3,), (2, 3)])


# -- the reference -----------------------------------------------------------------------------------------------------


def by_length(lengths: Sequence[int]) -> list[int]:
    """The numbers of the rows, longest row first; rows of the same length stay in order."""
    return sorted(range(len(lengths)), key=lambda row: -lengths[row])


def places(lengths: Sequence[int], start: int, stop: int) -> list[tuple[int, int]]:
    """(time, row) of everything that runs at the steps from `start` to `stop`, in the order in which parts see it."""
    return [(time, row) for time in range(start, stop) for row in by_length(lengths) if time < lengths[row]]


def numbered(shape: Sequence[int]) -> Tensor:
    """A tensor no two elements of which are the same."""
    return torch.arange(math.prod(shape)).reshape(tuple(shape))


def time_major(batch_size: int, features: Sequence[int], *, stored_by_batch: bool) -> Tensor:
    """`[time, batch, ...]`; as users pass it with `time_major=False`, it is a transposed view."""
    if stored_by_batch:
        return numbered((batch_size, STEPS, *features)).transpose(0, 1)
    return numbered((STEPS, batch_size, *features))


def stacked(rows: Sequence[Tensor], features: Sequence[int]) -> Tensor:
    return torch.stack(list(rows)) if rows else torch.zeros(0, *features, dtype=torch.int64)


def a_chunk(data: st.DataObject, layout: Layout) -> tuple[int, int]:
    start = data.draw(st.integers(0, layout.steps), label="start")
    return start, data.draw(st.integers(start, layout.steps), label="stop")


# -- counts ------------------------------------------------------------------------------------------------------------


@given(LENGTHS)
def test_counts_are_the_rows_longer_than_each_step(lengths: list[int]) -> None:
    layout = Layout.of(torch.tensor(lengths), STEPS, CPU)
    assert layout.steps == max(lengths)
    assert list(layout.counts) == [sum(length > time for length in lengths) for time in range(max(lengths))]
    assert layout.batch_size == len(lengths)


@given(LENGTHS, st.data())
def test_the_rows_of_a_chunk_are_counted(lengths: list[int], data: st.DataObject) -> None:
    layout = Layout.of(torch.tensor(lengths), STEPS, CPU)
    start, stop = a_chunk(data, layout)
    assert layout.rows(start, stop) == len(places(lengths, start, stop))


@given(st.lists(st.integers(-3, 2 * STEPS), min_size=1, max_size=6))
def test_lengths_outside_of_the_sequence_are_those_of_its_ends(lengths: list[int]) -> None:
    layout = Layout.of(torch.tensor(lengths), STEPS, CPU)
    within = Layout.of(torch.tensor([min(max(length, 0), STEPS) for length in lengths]), STEPS, CPU)
    assert layout.counts == within.counts


@given(st.integers(1, 5), st.integers(0, STEPS))
def test_rows_of_one_length_stay_where_they_are(rows: int, length: int) -> None:
    """Then nothing is copied: a chunk is a view of the batch."""
    layout = Layout.of(torch.tensor([length] * rows), STEPS, CPU)
    full = Layout.full(rows, length, CPU)
    assert not layout.sorted
    assert list(layout.counts) == list(full.counts) == [rows] * length
    batch = numbered((STEPS, rows, 2))
    row = batch[0]
    assert layout.sort(row) is layout.unsort(row) is row
    assert layout.take(batch, 0, length).data_ptr() == batch[:length].data_ptr()


def test_rows_of_different_lengths_are_sorted() -> None:
    assert Layout.of(torch.tensor([3, 3, 2]), STEPS, CPU).sorted


# -- order -------------------------------------------------------------------------------------------------------------


@given(LENGTHS, FEATURES)
def test_sort_puts_the_longest_row_first_and_unsort_undoes_it(lengths: list[int], features: tuple[int, ...]) -> None:
    layout = Layout.of(torch.tensor(lengths), STEPS, CPU)
    leaf = numbered((len(lengths), *features))
    assert torch.equal(layout.sort(leaf), stacked([leaf[row] for row in by_length(lengths)], features))
    assert torch.equal(layout.unsort(layout.sort(leaf)), leaf)
    assert torch.equal(layout.sort(layout.unsort(leaf)), leaf)


# -- chunks ------------------------------------------------------------------------------------------------------------


@given(LENGTHS, FEATURES, st.booleans(), st.data())
def test_take_reads_the_rows_that_run_step_after_step(
    lengths: list[int], features: tuple[int, ...], stored_by_batch: bool, data: st.DataObject
) -> None:
    layout = Layout.of(torch.tensor(lengths), STEPS, CPU)
    leaf = time_major(len(lengths), features, stored_by_batch=stored_by_batch)
    for _ in range(2):  # indices are kept for the next chunk
        start, stop = a_chunk(data, layout)
        expected = stacked([leaf[time, row] for time, row in places(lengths, start, stop)], features)
        assert torch.equal(layout.take(leaf, start, stop), expected)


@given(LENGTHS, FEATURES, st.data())
def test_take_reads_batches_of_both_storages_one_after_the_other(
    lengths: list[int], features: tuple[int, ...], data: st.DataObject
) -> None:
    layout = Layout.of(torch.tensor(lengths), STEPS, CPU)
    for stored_by_batch in data.draw(st.permutations([True, False, True])):
        leaf = time_major(len(lengths), features, stored_by_batch=stored_by_batch)
        expected = stacked([leaf[time, row] for time, row in places(lengths, 0, layout.steps)], features)
        assert torch.equal(layout.take(leaf, 0, layout.steps), expected)


def test_take_reads_batch_major_leaves_of_different_lengths() -> None:
    layout = Layout.of(torch.tensor([1, 3]), 3, CPU)
    for steps in (3, 5):
        leaf = numbered((2, steps)).transpose(0, 1)
        assert torch.equal(layout.take(leaf, 0, 3), torch.stack([leaf[0, 1], leaf[0, 0], leaf[1, 1], leaf[2, 1]]))


@given(LENGTHS, FEATURES, st.data())
def test_put_writes_what_take_reads_and_nothing_else(
    lengths: list[int], features: tuple[int, ...], data: st.DataObject
) -> None:
    layout = Layout.of(torch.tensor(lengths), STEPS, CPU)
    start, stop = a_chunk(data, layout)
    leaf = -1 - time_major(len(lengths), features, stored_by_batch=False)
    rows = numbered((layout.rows(start, stop), *features))
    expected = leaf.clone()
    for (time, row), value in zip(places(lengths, start, stop), rows, strict=True):
        expected[time, row] = value
    layout.put(leaf, start, stop, rows)
    assert torch.equal(leaf, expected)
    assert torch.equal(layout.take(leaf, start, stop), rows)


@given(LENGTHS, FEATURES, st.integers(0, 2))
def test_spread_leaves_zeros_where_no_row_runs(lengths: list[int], features: tuple[int, ...], longer: int) -> None:
    layout = Layout.of(torch.tensor(lengths), STEPS, CPU)
    if layout.steps == 0:
        return  # the engine has nothing to run there
    steps = layout.steps + longer
    rows = 1 + numbered((layout.rows(0, layout.steps), *features))
    expected = torch.zeros(steps, len(lengths), *features, dtype=torch.int64)
    for (time, row), value in zip(places(lengths, 0, layout.steps), rows, strict=True):
        expected[time, row] = value
    assert torch.equal(layout.spread(rows, 0, steps), expected)


@given(LENGTHS, FEATURES, st.data())
def test_previous_reads_the_same_rows_one_step_earlier(
    lengths: list[int], features: tuple[int, ...], data: st.DataObject
) -> None:
    """Before step 0 there is the initial state, which the engine has sorted already."""
    layout = Layout.of(torch.tensor(lengths), STEPS, CPU)
    if layout.steps == 0:
        return  # as above
    start = data.draw(st.integers(0, layout.steps - 1), label="start")
    stop = data.draw(st.integers(start + 1, layout.steps), label="stop")
    leaf = time_major(len(lengths), features, stored_by_batch=False)
    initial = -1 - numbered((len(lengths), *features))
    before = [leaf[time - 1, row] if time else initial[row] for time, row in places(lengths, start, stop)]
    assert torch.equal(layout.previous(leaf, layout.sort(initial), start, stop), stacked(before, features))


def test_the_default_device_of_torch_does_not_matter() -> None:
    inputs = torch.arange(12.0).reshape(STEPS, 2)
    expected = Layout.of(torch.tensor([2, 5]), STEPS, CPU).take(inputs, 0, 5)
    lengths = torch.tensor([2, 5])
    with torch.device("meta"):  # as torch.set_default_device would have it
        found = Layout.of(lengths, STEPS, CPU).take(inputs, 0, 5)
    assert torch.equal(found, expected)


def test_lengths_on_the_host_are_not_captured_in_a_cuda_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match=r"sequence_length: .* cannot be captured .* expected them on cuda:0"):
        Layout.of(torch.tensor([1, 3]), 3, device)
    assert Layout.of(torch.tensor([2, 2]), 3, device).counts == (2, 2)


# -- lengths that only a device knows ----------------------------------------------------------------------------------


def lent_places(lengths: Sequence[int], start: int, stop: int) -> list[tuple[int, int]]:
    """`places`, with all rows at every step: the longest one at the first step for those that have ended."""
    rows = by_length(lengths)
    return [(time, row) if time < lengths[row] else (start, rows[0]) for time in range(start, stop) for row in rows]


@given(LENGTHS, FEATURES, st.sampled_from(["steps", "rows", "one step"]), st.data())
def test_a_device_takes_all_rows(
    lengths: list[int], features: tuple[int, ...], stored_by: str, data: st.DataObject
) -> None:
    layout = DeviceLayout(torch.tensor(lengths), STEPS, CPU)
    leaf = time_major(len(lengths), features, stored_by_batch=stored_by == "rows")
    leaf = leaf[:1].expand_as(leaf) if stored_by == "one step" else leaf
    for _ in range(2):  # places are kept for the next chunk
        start = data.draw(st.integers(0, STEPS - 1), label="start")
        stop = data.draw(st.integers(start + 1, STEPS), label="stop")
        places = lent_places(lengths, start, stop)
        assert torch.equal(layout.take(leaf, start, stop), stacked([leaf[time, row] for time, row in places], features))
        rows = by_length(lengths)
        initial = -1 - numbered((len(lengths), *features))
        own = leaf.contiguous()
        before = [own[time - 1, row] if time else initial[row] for time, row in places]
        assert torch.equal(layout.previous(own, layout.sort(initial), start, stop), stacked(before, features))
        numbers = [(time - start) * len(rows) + rows.index(row) for time, row in places]
        assert layout.lent(start, stop).tolist() == numbers
        running = [sum(length > time for length in lengths) for time in range(start, stop)]
        assert layout.running(start, stop).tolist() == running


@given(LENGTHS, FEATURES, st.data())
def test_a_device_puts_zeros_where_no_row_runs(
    lengths: list[int], features: tuple[int, ...], data: st.DataObject
) -> None:
    layout = DeviceLayout(torch.tensor(lengths), STEPS, CPU)
    start = data.draw(st.integers(0, STEPS - 1), label="start")
    stop = data.draw(st.integers(start + 1, STEPS), label="stop")
    leaf = -1 - time_major(len(lengths), features, stored_by_batch=False)
    rows = 1 + numbered(((stop - start) * len(lengths), *features))
    order = by_length(lengths)
    expected = leaf.clone()
    for time in range(start, stop):
        for place, row in enumerate(order):
            own = rows[(time - start) * len(order) + place]
            expected[time, row] = own if time < lengths[row] else torch.zeros_like(own)
    assert torch.equal(layout.spread(rows, start, stop), expected[start:stop])
    zeros = layout.take_gradient(expected, start, stop)
    layout.put(leaf, start, stop, rows)
    assert torch.equal(leaf, expected)
    layout.put(leaf.fill_(-1), start, stop, zeros, zero=True)
    assert torch.equal(leaf[start:stop], expected[start:stop])
    total = numbered((2,)) + 1
    assert torch.equal(layout.if_any_runs(total, start), total if max(lengths) > start else torch.zeros_like(total))
    states = numbered((len(lengths), *features))
    assert torch.equal(layout.unsort(layout.sort(states)), states)


@given(st.lists(st.integers(-3, 2 * STEPS), min_size=1, max_size=6))
def test_a_device_may_have_lengths_outside_of_the_sequence(lengths: list[int]) -> None:
    layout = DeviceLayout(torch.tensor(lengths), STEPS, CPU)
    within = [min(max(length, 0), STEPS) for length in lengths]
    assert layout.running(0, STEPS).tolist() == [sum(length > time for length in within) for time in range(STEPS)]
    assert layout.counted.counts == Layout.of(torch.tensor(within), STEPS, CPU).counts
