"""Groups of rows that blocks of the CUDA loop emitter run one after another, where not all of them fit at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.comparison import check, engine_loop, plain_loop, results, wanting_gradients
from tests.device_lengths import keep_on_device
from tests.emulator import Emulated, emulated
from tests.emulator.cells import MAKE, UNITS, problem
from unspool import Checkpoint, Recompute, dynamic_rnn, explain
from unspool.engine.emit.cpp.libraries.build import Build
from unspool.engine.emit.cuda.loop import running
from unspool.engine.emit.cuda.loop.division import Units
from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.tiles import Tiling
from unspool.structure import map_structure

DIVIDED = Tiling(Units(UNITS, 16), rows=8, warps=2)
BATCH = 37
STEPS = 5
"""Odd, so that a group's last step and the next one's first have the same buffers of sums."""
RAGGED = [0, 5, 1, 3, 5, 0, 3, 4, 1, 0, 2, 3] * 3 + [3]
"""Of 28 rows that have steps; only where lengths are on the device, the others are in a group too."""


class Watched(Emulated):
    """Notes down what is compiled, how many blocks loops are launched with, and whether these have to be together."""

    def __init__(self, blocks: int) -> None:
        super().__init__(blocks=blocks)
        self.seen: list[tuple[int, bool]] = []
        self.compiled = 0
        """Kernels in which blocks work together."""

    def compile(self, text: KernelText) -> Build:
        self.compiled += text.together
        return super().compile(text)

    def launch(
        self, kernel: Build, chunk: Sequence[int], blocks: int, threads: int, shared_bytes: int, *, together: bool
    ) -> None:
        if chunk[0] > 1:  # steps
            self.seen.append((blocks, together))
        super().launch(kernel, chunk, blocks, threads, shared_bytes, together=together)


@cache
def cell_of(name: str, dtype: torch.dtype) -> Any:
    torch.manual_seed(3)
    own: Any = MAKE[name](UNITS)
    return own.to(dtype)


def found_by(
    machine: Emulated, tiling: Tiling, name: str, dtype: torch.dtype, lengths: Sequence[int] | None, batch: int = BATCH
) -> dict[str, Any]:
    """All results of a cell that starts from states of its own; forward and backward are one launch each."""
    own = cell_of(name, dtype)
    torch.manual_seed(batch)
    inputs = torch.randn(batch, STEPS, 4).to(dtype)
    state = map_structure(lambda leaf: (torch.randn(leaf.shape) / 2).to(dtype), own.zero_state(batch, dtype))
    with emulated(machine, tiling):
        before = machine.launches
        found = results(engine_loop, own, dtype, lengths, *map(wanting_gradients, (inputs, state)))
        assert machine.launches - before == 2
    return found


def assert_same_bits(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    assert [key for key in expected if not torch.equal(found[key], expected[key])] == []


@pytest.mark.parametrize("lengths", [RAGGED, None], ids=["ragged", "full"])
@pytest.mark.parametrize(
    ("name", "dtype", "tiling"),
    [
        ("lstm", torch.bfloat16, DIVIDED),
        ("lstm", torch.bfloat16, Tiling(Units(UNITS, 8), rows=16, warps=2, one_first=True)),
        ("lstm", torch.float32, Tiling(Units(UNITS, 16), rows=8, warps=2, shared_bytes=10 << 10)),
        ("gru", torch.float16, Tiling(Units(UNITS, 16), rows=8, warps=2, kept="shared")),
        ("gru", torch.float32, Tiling(Units(UNITS, 16), rows=8, warps=3, kept="memory")),
        ("rnn", torch.float32, Tiling(Units(UNITS, 16), rows=8, warps=2, tf32=True)),
        ("layer norms", torch.float32, Tiling(Units(UNITS, 8), rows=8, warps=2)),
        ("layer norms", torch.bfloat16, Tiling(Units(UNITS, 16), rows=16, warps=4)),
        ("architecture search", torch.float32, DIVIDED),
        ("two layers", torch.float32, DIVIDED),
    ],
)
def test_results_are_the_same_bits_as_where_all_groups_fit(
    name: str, dtype: torch.dtype, tiling: Tiling, lengths: Sequence[int] | None
) -> None:
    assert tiling.units is not None
    expected = found_by(Emulated(), tiling, name, dtype, lengths)
    for teams in (1, 2):
        machine = Emulated(seed=teams, blocks=teams * tiling.units.tiles + 1)  # a block more is of no use
        assert_same_bits(found_by(machine, tiling, name, dtype, lengths), expected)


@pytest.mark.parametrize("name", ["lstm", "gru"])
@pytest.mark.parametrize("height", [16, 32])
@pytest.mark.parametrize("lengths", [RAGGED, [1 + (k < 9) + (k < 22) for k in range(BATCH)]], ids=["any", "nine"])
def test_taller_blocks_of_which_few_rows_are_left_are_the_same_bits(name: str, height: int, lengths: list[int]) -> None:
    expected = found_by(Emulated(), DIVIDED, name, torch.bfloat16, lengths)
    found = found_by(Emulated(), Tiling(Units(UNITS, 16), height, warps=2), name, torch.bfloat16, lengths)
    assert_same_bits(found, expected)


@pytest.mark.parametrize("name", ["lstm", "gru", "layer norms"])
@pytest.mark.parametrize("slow", range(4))
def test_a_warp_may_be_behind_when_others_begin_the_next_group(name: str, slow: int) -> None:
    expected = found_by(Emulated(), DIVIDED, name, torch.float32, None)
    assert_same_bits(found_by(Emulated(blocks=2, slow=slow), DIVIDED, name, torch.float32, None), expected)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, STEPS), min_size=1, max_size=40),
    st.integers(2, 9),
    st.integers(0, 1000),
    st.sampled_from([(8, 2), (16, 4)]),
)
def test_any_rows_on_any_number_of_blocks_are_the_same_bits(
    lengths: list[int], blocks: int, seed: int, shape: tuple[int, int]
) -> None:
    lengths = [STEPS, *lengths]
    tiling = Tiling(Units(UNITS, 16), *shape)
    machines = Emulated(), Emulated(seed=seed, blocks=blocks)
    expected, found = (found_by(each, tiling, "gru", torch.float32, lengths, len(lengths)) for each in machines)
    assert_same_bits(found, expected)


@pytest.mark.parametrize("memory", [Recompute(), Checkpoint(every=3)])
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_groups_in_turn_equal_the_plain_loop(name: str, memory: Any) -> None:
    own, inputs, state = problem(name, torch.float64, batch=BATCH)
    lengths = [min(each, 4) for each in RAGGED]

    def loop(own: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> Any:
        return dynamic_rnn(own, inputs, lengths, state, dtype, parallel_iterations=3, memory=memory)

    with emulated(Emulated(blocks=4), DIVIDED):
        check(own, torch.float64, lengths, inputs, state, run=loop)


def test_lengths_on_the_device_are_read_by_each_group(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_on_device(monkeypatch)
    own, inputs, state = problem("lstm", torch.float64, batch=BATCH)

    def loop(own: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> Any:
        return dynamic_rnn(own, inputs, torch.tensor(lengths), state, dtype)

    with emulated(Emulated(blocks=4), DIVIDED) as emitter:
        for lengths in ([min(each, 4) for each in RAGGED], [1] + [0] * (BATCH - 1), [0] * BATCH):
            check(own, torch.float64, lengths, inputs, state, run=loop)
        assert emitter.emulated.launches == 6


def test_the_longest_group_is_followed_by_the_shortest_of_the_next_turn() -> None:
    own, inputs, state = problem("rnn", torch.float32, batch=BATCH)
    found: list[Tensor] = []
    for machine in (Emulated(blocks=4, withheld=2), Emulated(blocks=4)):  # first without the second team
        with emulated(machine, DIVIDED), torch.no_grad():
            found.append(dynamic_rnn(own, inputs, None, state, torch.float32)[1])
    groups = [torch.equal(*each) for each in zip(*(each.split(8) for each in found), strict=True)]
    assert groups == [True, False, False, True, True]


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("alike", [False, True])
def test_ragged_rows_have_a_kernel_of_their_own_where_that_is_cheaper(
    alike: bool, on_device: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, inputs, state = problem("rnn", torch.float64, batch=BATCH)
    other = DIVIDED if alike else Tiling(Units(UNITS, 8), rows=16, warps=2)
    monkeypatch.setattr(running, "tilings", lambda *told, ragged=False: [other if ragged else DIVIDED])
    lengths = [min(each, 4) for each in RAGGED]
    if on_device:
        keep_on_device(monkeypatch)
    with emulated(Watched(blocks=64)) as emitter, torch.no_grad():
        machine = emitter.emulated
        assert isinstance(machine, Watched)
        explain(own, inputs, None, state, torch.float64)
        assert machine.compiled == 1
        for told in (None, lengths, None, lengths):
            given = torch.tensor(told) if on_device and told else told
            outputs, _ = dynamic_rnn(own, inputs, given, state, torch.float64)
            torch.testing.assert_close(outputs, plain_loop(own, inputs, told, state, torch.float64)[0])
        assert machine.compiled == (1 if alike else 2)
        rows = BATCH if on_device else sum(each > 0 for each in lengths)
        ragged = -(-rows // other.rows) * (2 if alike else 4)
        assert machine.seen == [(5 * 2, True), (ragged, True)] * 2


@pytest.mark.parametrize(
    ("tiling", "blocks", "together"),
    [
        (DIVIDED, 4, True),
        (Tiling(rows=2, warps=2), 19, False),
        (Tiling(Units(UNITS, UNITS), 8, 2), 5, False),
    ],
)
def test_blocks_that_have_their_rows_to_themselves_may_be_more_than_fit(
    tiling: Tiling, blocks: int, together: bool
) -> None:
    machine = Watched(blocks=4)
    found_by(machine, tiling, "gru", torch.bfloat16, None)
    assert machine.seen == [(blocks, together)] * 2
