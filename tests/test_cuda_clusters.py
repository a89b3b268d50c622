"""Blocks of the CUDA loop emitter that divide the terms of their products, and hand each other their sums."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from tests.comparison import engine_loop, results
from tests.device_lengths import keep_on_device
from tests.emulator import Emulated, emulated
from tests.emulator.cells import UNITS, problem
from tests.test_cuda_queue import BATCH, RAGGED, STEPS, assert_same_bits, found_by
from tests.test_cuda_tiles import H200, binary, cores, lowered, used
from unspool import cell
from unspool.engine.emit.cuda.loop.cost.options import tilings
from unspool.engine.emit.cuda.loop.division import Units
from unspool.engine.emit.cuda.loop.lowered import lower
from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.tiles import Tiling, registers, row_tiles
from unspool.engine.emit.errors import CannotEmitError

HALVES = torch.bfloat16
ALONE = Tiling(Units(UNITS, 8), rows=8, warps=2)
PAIRS = replace(ALONE, warps=1, cluster=2)
"""Each column has two sums of the same terms: their sum is the same to the last bit."""


@pytest.mark.parametrize("lengths", [RAGGED, None], ids=["ragged", "full"])
@pytest.mark.parametrize(
    ("name", "dtype", "changed"),
    [
        ("lstm", torch.bfloat16, {}),
        ("lstm", torch.bfloat16, {"rows": 32, "one_first": True}),
        ("lstm", torch.float16, {"kept": "shared", "rows": 16}),
        ("lstm", torch.bfloat16, {"rows": 32, "ahead": True}),
        ("gru", torch.float16, {}),
        ("rnn", torch.float32, {"tf32": True}),
        ("layer norms", torch.bfloat16, {}),
        ("architecture search", torch.bfloat16, {"rows": 16}),
        ("two layers", torch.bfloat16, {}),
    ],
)
def test_results_are_the_same_bits_as_where_a_block_has_all_terms(
    name: str, dtype: torch.dtype, changed: dict[str, object], lengths: Sequence[int] | None
) -> None:
    alone, pairs = (replace(each, **changed) for each in (ALONE, PAIRS))
    expected = found_by(Emulated(), alone, name, dtype, lengths)
    for seed, blocks in ((1, 64), (2, 8), (3, 5)):
        assert_same_bits(found_by(Emulated(seed=seed, blocks=blocks), pairs, name, dtype, lengths), expected)


@pytest.mark.parametrize("warps", [1, 2])
@pytest.mark.parametrize("slow", range(8))
def test_a_warp_may_be_behind_in_any_block(slow: int, warps: int) -> None:
    pairs = replace(PAIRS, warps=warps)
    expected = found_by(Emulated(), ALONE if warps == 1 else pairs, "lstm", HALVES, RAGGED)
    assert_same_bits(found_by(Emulated(blocks=4, slow=slow), pairs, "lstm", HALVES, RAGGED), expected)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_blocks_with_several_warps_and_several_neighbours_are_right(name: str) -> None:
    units = Units(UNITS, 4)  # fewer than a plan would take
    expected = found_by(Emulated(), replace(ALONE, units=units, tf32=True), name, torch.float32, RAGGED)
    found = found_by(
        Emulated(), replace(ALONE, units=units, tf32=True, warps=3, cluster=4), name, torch.float32, RAGGED
    )
    for key, value in expected.items():  # the same terms of TF32, summed in another order
        torch.testing.assert_close(found[key], value, rtol=2e-3, atol=2e-4)


def test_blocks_of_a_cluster_meet_before_and_after_all_steps_only() -> None:
    text, alone = (KernelText(lowered(64, 1), Tiling(Units(64, 16), 8, 4, cluster=each)).body for each in (2, 1))
    assert text.count("sync_cluster") == 2
    assert text.count("sync_block") == 1
    assert alone.count("sync_block") == 3
    assert "UNSPOOL_CLUSTER(2)" in text
    assert "UNSPOOL_CLUSTER" not in alone


class TwoStates(nn.Module):
    """Multiplies two states before either is changed."""

    def __init__(self, units: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = (nn.Parameter(torch.randn(units, units) / 6) for _ in range(2))

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        one, other = state[0] @ self.first, state[1] @ self.second
        new = torch.tanh(one + x), torch.tanh(other - one)
        return new[1], new


def test_all_sums_of_a_stage_are_sent_before_any_is_waited_for() -> None:
    own = cell(TwoStates(UNITS), state_size=(UNITS, UNITS))
    inputs = torch.randn(18, STEPS, UNITS, requires_grad=True)
    state = tuple(torch.randn(18, UNITS, requires_grad=True) for _ in range(2))
    alone, pairs = (replace(each, tf32=True) for each in (ALONE, PAIRS))
    with emulated(tiling=alone):
        expected = results(engine_loop, own, torch.float32, None, inputs, state)
    with emulated(tiling=pairs) as emitter:
        assert_same_bits(results(engine_loop, own, torch.float32, None, inputs, state), expected)
    for core in emitter.cores:
        calls = re.findall(r"_(?:by|arrivals)\.(run|hand_over|wait)\(", KernelText(lower(core), pairs).body)
        assert calls == ["run", "run", "hand_over", "hand_over", "wait", "wait"]


@pytest.mark.parametrize(
    ("tiling", "why"),
    [
        (replace(PAIRS, cluster=3), "clusters of 3"),
        (Tiling(rows=2, warps=2, cluster=2), "clusters of 2"),
        (replace(PAIRS, kept="memory"), "near, for tensor cores"),
    ],
)
def test_what_has_no_clusters_is_refused(tiling: Tiling, why: str) -> None:
    with pytest.raises(CannotEmitError, match=why):
        KernelText(lower(cores("lstm", UNITS, HALVES)[0]), tiling)


def test_exact_products_are_not_divided() -> None:
    with pytest.raises(CannotEmitError, match="near, for tensor cores"):
        KernelText(lower(cores("lstm", UNITS, torch.float32)[0]), PAIRS)


@pytest.mark.parametrize("tiling", [PAIRS, replace(PAIRS, rows=32, ahead=True)])
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_lengths_may_be_on_the_device(name: str, tiling: Tiling, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = found_by(Emulated(), tiling, name, HALVES, RAGGED)
    keep_on_device(monkeypatch)
    assert_same_bits(found_by(Emulated(seed=2, blocks=8), tiling, name, HALVES, RAGGED), expected)


@pytest.mark.parametrize("tiling", [replace(PAIRS, warps=2), replace(PAIRS, rows=16)])
def test_a_cluster_that_never_comes_is_an_error_and_no_hang(tiling: Tiling) -> None:
    """Its neighbours give up waiting for words, and go on to the end with each other."""
    own, inputs, state = problem("lstm", HALVES)
    stuck = "loop of .* waited for another block for ten seconds"
    with emulated(Emulated(withheld=2, tick=10**10), tiling), pytest.warns(RuntimeWarning, match=stuck):
        engine_loop(own, inputs, None, state, HALVES)


def test_a_device_without_clusters_has_none() -> None:
    for rows, units in ((64, 1024), (16, 1024), (16, 768)):
        found, without = (tilings(lowered(units, 1), rows, replace(H200, clusters=each)) for each in (True, False))
        assert found[0].cluster == 2
        assert {each.cluster for each in without} == {1}


@pytest.mark.parametrize(("rows", "warps"), [(8, 8), (8, 16), (32, 8), (32, 16)])
def test_kernels_of_clusters_have_the_registers_that_the_model_says(rows: int, warps: int) -> None:
    own, tiling = lowered(1024, 1), Tiling(Units(1024, 16), rows, warps, shared_bytes=227 * 1024, cluster=2)
    found, stack = used(binary(KernelText(own, tiling), "sm_90"))
    most = min(255, 65536 // (32 * warps))
    assert found <= most
    assert abs(found - min(most, registers(own, tiling, row_tiles(own, tiling)))) <= 16
    assert stack <= 32


def test_batches_and_steps_of_these_tests_leave_the_last_blocks_with_few_rows() -> None:
    assert BATCH % 32
    assert STEPS % 2


# -- all units of a row in one cluster -------------------------------------------------------------------------------


def near(cluster: int, warps: int = 2) -> Tiling:
    return Tiling(Units(UNITS, UNITS // cluster), rows=8, warps=warps, cluster=cluster, tf32=True)


@pytest.mark.parametrize("lengths", [RAGGED, None], ids=["ragged", "full"])
@pytest.mark.parametrize("name", ["lstm", "gru", "rnn", "architecture search", "two layers"])
@pytest.mark.parametrize("cluster", [2, 4])
def test_a_cluster_with_all_of_a_row_computes_what_one_block_does(
    name: str, cluster: int, lengths: Sequence[int] | None
) -> None:
    expected = found_by(Emulated(), near(1), name, torch.float32, lengths)
    assert near(cluster).near
    for seed, blocks in ((1, 64), (2, 2 * cluster), (3, cluster)):
        found = found_by(Emulated(seed=seed, blocks=blocks), near(cluster), name, torch.float32, lengths)
        for key, value in expected.items():  # the same terms, summed in another order, and rounded to TF32 then
            torch.testing.assert_close(found[key], value, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("name", ["lstm", "gru"])
@pytest.mark.parametrize("slow", range(8))
def test_a_warp_may_be_behind_where_a_cluster_has_all_of_a_row(name: str, slow: int) -> None:
    expected = found_by(Emulated(), near(4), name, HALVES, RAGGED)
    assert_same_bits(found_by(Emulated(blocks=4, slow=slow), near(4), name, HALVES, RAGGED), expected)


@pytest.mark.parametrize("rows", [16, 32])
@pytest.mark.parametrize("cluster", [1, 4])
def test_taller_blocks_that_have_rows_near_have_neighbouring_ones(cluster: int, rows: int) -> None:
    expected = found_by(Emulated(), near(1), "lstm", torch.float32, RAGGED)
    found = found_by(Emulated(), replace(near(cluster), rows=rows), "lstm", torch.float32, RAGGED)
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize(("name", "units"), [("lstm", 128), ("lstm", 256), ("gru", 256), ("rnn", 256)])
def test_kernels_of_whole_clusters_have_registers_enough(name: str, units: int) -> None:
    for which in range(2):
        own = lower(cores(name, units, HALVES)[which])
        best = tilings(own, 64, H200)[0]
        assert best.sends
        assert used(binary(KernelText(own, best), "sm_90"))[1] <= 32
