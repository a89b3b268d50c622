"""How the CUDA loop emitter divides cores: its cost model beside measurements, and what NVRTC makes of kernels."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from benchmarks.cells import LayerNormLSTM
from tests.comparison import shared
from tests.emulator import emulated
from tests.emulator.cells import MAKE
from unspool import dynamic_rnn, explain
from unspool.engine.emit.cuda.loop.cost.estimate import estimate, teams, turns
from unspool.engine.emit.cuda.loop.cost.options import tilings
from unspool.engine.emit.cuda.loop.division import Units
from unspool.engine.emit.cuda.loop.lowered import Lowered, lower
from unspool.engine.emit.cuda.loop.nvrtc import compiled
from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.tiles import Limits, Tiling, registers, row_tiles
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.ir.core import Core
from unspool.engine.reasons import Code

Measured = tuple[int, int, int, Mapping[str, Any], float]
Case = tuple[int, int, int, Measured]
H200 = Limits(processors=132, shared_bytes=227 * 1024, clusters=True)

PAIR, EIGHT, AHEAD = {"cluster": 2}, {"cluster": 8}, {"ahead": True}
MEASURED: dict[tuple[int, int], tuple[Measured, Measured]] = {
    # rows, units: (units and rows a block, warps, how, microseconds a step) of the forward loop and of the adjoint
    (16, 128): ((16, 8, 4, EIGHT, 0.59), (16, 8, 4, EIGHT, 0.57)),
    (64, 256): ((32, 8, 8, EIGHT, 0.96), (32, 8, 8, EIGHT, 1.20)),
    (64, 512): ((32, 8, 8, {}, 1.54), (32, 8, 16, {}, 1.82)),
    (16, 768): ((16, 8, 8, {}, 1.33), (16, 8, 8, PAIR, 1.80)),
    (16, 1024): ((16, 8, 8, {}, 1.60), (16, 8, 8, PAIR, 2.21)),
    (64, 1024): ((16, 32, 8, AHEAD, 3.36), (16, 32, 8, PAIR | AHEAD, 4.52)),
    (1, 512): ((8, 8, 8, {}, 0.80), (16, 8, 16, {}, 1.05)),
    (256, 256): ((32, 16, 8, AHEAD, 2.09), (64, 8, 16, {}, 1.85)),
}
"""An LSTM in bfloat16 on an H200, with the steps of benchmarks/cuda/calls.py; benchmarks/results/cuda.json has them."""

SLOWER: list[Case] = [
    # rows, units, direction, then as above: what others take
    (16, 128, 0, (8, 8, 4, {}, 0.92)),
    (16, 128, 0, (32, 8, 4, {"cluster": 4}, 0.90)),
    (16, 128, 0, (64, 16, 2, PAIR, 1.03)),
    (16, 128, 1, (16, 8, 8, {}, 0.83)),
    (16, 128, 1, (32, 8, 8, {"cluster": 4}, 0.62)),
    (16, 768, 1, (16, 8, 16, {}, 2.04)),
    (16, 1024, 0, (16, 8, 8, PAIR, 1.69)),
    (16, 1024, 1, (16, 8, 16, {}, 2.59)),
    (64, 256, 0, (16, 8, 8, {}, 1.04)),
    (64, 256, 0, (64, 8, 16, {"cluster": 4}, 1.48)),
    (64, 256, 1, (32, 8, 8, PAIR, 1.45)),
    (64, 256, 1, (64, 8, 16, {"cluster": 4}, 1.64)),
    (64, 512, 0, (32, 8, 8, PAIR, 2.17)),
    (64, 512, 0, (32, 8, 16, {}, 2.01)),
    (16, 1024, 0, (16, 8, 16, {}, 2.06)),
    (64, 512, 1, (32, 8, 8, PAIR, 1.86)),
    (64, 512, 0, (16, 16, 8, AHEAD, 1.78)),
    (64, 512, 1, (16, 16, 8, PAIR | AHEAD, 2.22)),
    (64, 1024, 0, (16, 32, 8, {}, 3.51)),
    (64, 1024, 1, (16, 32, 16, {}, 6.63)),
    (64, 1024, 1, (16, 32, 8, PAIR, 4.64)),
    (256, 256, 0, (64, 8, 8, {}, 2.36)),
    (256, 256, 1, (32, 16, 8, AHEAD, 2.08)),
]
MEASURED_RAGGED: list[Case] = [
    # rows, units, direction, then as above: lengths uniform in 1..256 or, of 256 rows, in 1..100
    (64, 1024, 0, (16, 8, 8, {}, 3.87)),
    (64, 1024, 0, (16, 32, 8, AHEAD, 2.69)),
    (64, 1024, 1, (16, 8, 8, PAIR, 5.25)),
    (64, 1024, 1, (16, 32, 8, PAIR | AHEAD, 3.52)),
    (64, 512, 0, (32, 8, 8, {}, 1.62)),
    (64, 512, 0, (16, 8, 8, {}, 1.49)),
    (64, 512, 1, (32, 8, 16, {}, 1.74)),
    (64, 512, 1, (16, 16, 8, PAIR | AHEAD, 2.04)),
    (64, 256, 0, (16, 8, 8, {}, 1.15)),
    (256, 256, 0, (32, 8, 8, {}, 1.84)),
    (256, 256, 1, (64, 8, 16, {}, 2.02)),
]

MEASURED_CLUSTERS = {
    # cell, units: (rows, units a block, warps, blocks, microseconds a step) of the forward loop and of the adjoint
    ("lstm", 64): ((16, 16, 8, 4, 0.49), (16, 16, 8, 4, 0.45)),
    ("gru", 128): ((16, 16, 8, 8, 0.90), (16, 16, 8, 8, 1.03)),
    ("rnn", 128): ((16, 32, 8, 4, 0.45), (16, 32, 8, 4, 0.42)),
    ("gru", 256): ((64, 32, 8, 8, 1.26), (64, 32, 8, 8, 1.47)),
    ("rnn", 256): ((64, 32, 8, 8, 0.54), (64, 32, 8, 8, 0.48)),
}
"""Clusters that have all units of eight rows."""

MEASURED_NEAR = {
    # cell, units: (warps, microseconds a step) of the forward loop and of the adjoint
    ("rnn", 64): ((8, 0.46), (8, 0.55)),
    ("rnn", 128): ((16, 0.59), (16, 0.61)),
    ("rnn", 256): ((16, 1.15), (16, 1.15)),
    ("gru", 64): ((16, 0.82), (8, 0.93)),
    ("gru", 128): ((16, 1.29), (16, 1.44)),
    ("lstm", 64): ((16, 0.72), (8, 0.66)),
    ("lstm", 128): ((16, 1.46), (16, 1.27)),
}
"""Blocks that have all units of eight rows, in bfloat16 on an H200."""

MEASURED_NORMS = (3.74, 4.63)
"""A LayerNorm LSTM of 64 rows and 512 units, 32 of them a block, forward and adjoint: two norms, each in both."""


@cache
def cores(name: str, units: int, dtype: torch.dtype) -> tuple[Core, Core]:
    """The forward core of a cell, and its adjoint."""
    own: Any = (LayerNormLSTM(4, units) if name == "norms" else MAKE[name](units)).to(dtype)
    with emulated(tiling=Tiling(rows=1, warps=1)) as emitter:
        outputs, _ = dynamic_rnn(own, torch.zeros(1, 1, 4, dtype=dtype), dtype=dtype)
        outputs.sum().backward()
    return emitter.cores[0], emitter.cores[-1]


@cache
def lowered(units: int, which: int) -> Lowered:
    return lower(cores("lstm", units, torch.bfloat16)[which])


CASES = [(rows, units, which) for rows, units in MEASURED for which in range(2)]


def tiling_of(units: int, measured: Measured) -> Tiling:
    each, height, warps, how, _ = measured
    return Tiling(Units(units, each), height, warps, **how)


@pytest.mark.parametrize(("rows", "units", "which"), CASES)
def test_estimates_are_within_a_third_of_what_was_measured(rows: int, units: int, which: int) -> None:
    measured = MEASURED[rows, units][which]
    found = estimate(lowered(units, which), tiling_of(units, measured), rows, H200)
    assert measured[-1] / 1.33 < found < measured[-1] * 1.33


@pytest.mark.parametrize(("rows", "units", "which", "measured"), SLOWER)
def test_what_was_measured_slower_is_thought_slower(rows: int, units: int, which: int, measured: Measured) -> None:
    best, other = tiling_of(units, MEASURED[rows, units][which]), tiling_of(units, measured)
    assert measured[-1] > MEASURED[rows, units][which][-1]
    assert estimate(lowered(units, which), best, rows, H200) < estimate(lowered(units, which), other, rows, H200)


@pytest.mark.parametrize(("rows", "units", "which", "measured"), MEASURED_RAGGED)
def test_estimates_of_ragged_rows_are_within_a_third(rows: int, units: int, which: int, measured: Measured) -> None:
    found = estimate(lowered(units, which), tiling_of(units, measured), rows, H200, ragged=True)
    assert measured[-1] / 1.33 < found < measured[-1] * 1.33


@pytest.mark.parametrize(("rows", "units", "which"), CASES)
def test_the_tiling_that_was_measured_is_chosen(rows: int, units: int, which: int) -> None:
    own, measured = lowered(units, which), tiling_of(units, MEASURED[rows, units][which])
    best = tilings(own, rows, H200)[0]
    assert replace(best, shared_bytes=measured.shared_bytes, one_first=False) == measured
    KernelText(own, best)  # can be printed


@pytest.mark.parametrize(("name", "units", "which"), [(*key, which) for key in MEASURED_NEAR for which in range(2)])
def test_estimates_of_blocks_with_all_units_are_within_a_third_of_what_was_measured(
    name: str, units: int, which: int
) -> None:
    warps, time = MEASURED_NEAR[name, units][which]
    own = lower(cores(name, units, torch.bfloat16)[which])
    found = estimate(own, Tiling(Units(units, units), 8, warps), 16, H200)
    assert time / 1.35 < found < time * 1.35


@pytest.mark.parametrize(("name", "units", "which"), [(*key, which) for key in MEASURED_CLUSTERS for which in range(2)])
def test_estimates_of_clusters_with_all_units_are_within_a_third(name: str, units: int, which: int) -> None:
    rows, each, warps, cluster, time = MEASURED_CLUSTERS[name, units][which]
    own = lower(cores(name, units, torch.bfloat16)[which])
    found = estimate(own, Tiling(Units(units, each), 8, warps, cluster=cluster), rows, H200)
    assert time / 1.33 < found < time * 1.33
    best = tilings(own, rows, H200)[0]
    assert best.near
    assert best.cluster > 1
    KernelText(own, best)  # can be printed


@pytest.mark.parametrize(
    ("rows", "units", "which", "most"),
    [(64, 512, 0, 0.9), (256, 256, 0, 0.75), (256, 256, 1, 0.9)],
)
def test_groups_of_ragged_rows_wait_in_turn_for_narrower_blocks(rows: int, units: int, which: int, most: float) -> None:
    own = lowered(units, which)
    full, ragged = (tilings(own, rows, H200, ragged=each)[0] for each in (False, True))
    assert -(-rows // full.rows) == teams(full, rows, H200)
    assert -(-rows // ragged.rows) >= 2 * teams(ragged, rows, H200)
    KernelText(own, ragged)  # can be printed
    assert estimate(own, ragged, rows, H200, ragged=True) < most * estimate(own, full, rows, H200)


@pytest.mark.parametrize(("rows", "units"), [(64, 256), (16, 128), (1, 512), (16, 768), (16, 1024), (64, 1024)])
def test_one_kernel_is_enough_where_another_would_save_little(rows: int, units: int) -> None:
    for which in range(2):
        own = lowered(units, which)
        assert tilings(own, rows, H200, ragged=True) == tilings(own, rows, H200)


@pytest.mark.parametrize("rows", [1, 8, 61, 64, 256])
@pytest.mark.parametrize("at_once", [1, 2, 3, 5])
def test_ragged_rows_take_as_long_as_the_team_with_the_most_steps(rows: int, at_once: int) -> None:
    lengths = [1 - begin / rows for begin in range(0, rows, 8)]
    order = [*range(at_once), *reversed(range(at_once))]
    teams = [sum(each for k, each in enumerate(lengths) if order[k % len(order)] == team) for team in range(at_once)]
    assert turns(Tiling(rows=8), rows, at_once, ragged=True) == pytest.approx(max(teams))
    assert turns(Tiling(rows=8), rows, at_once, ragged=False) == -(-len(lengths) // at_once)


@pytest.mark.parametrize("which", [0, 1])
def test_estimates_count_norms(which: int) -> None:
    own, time = lower(cores("norms", 512, torch.bfloat16)[which]), MEASURED_NORMS[which]
    best = tilings(own, 64, H200)[0]
    assert best.units == Units(512, 32)
    assert time / 1.35 < estimate(own, best, 64, H200) < time * 1.35


def test_units_are_divided_where_tensor_cores_would_take_longer_than_words() -> None:
    without = replace(H200, clusters=False)
    assert tilings(lowered(64, 0), 16, without)[0].alone
    assert not tilings(lowered(128, 0), 16, without)[0].near


def test_small_cells_have_all_units_of_a_row_in_a_cluster() -> None:
    for rows, units in ((16, 64), (16, 128), (64, 256)):
        for which in range(2):
            best = tilings(lowered(units, which), rows, H200)[0]
            assert best.near
            assert not best.alone
    assert not tilings(lowered(512, 0), 64, H200)[0].near  # no block has room for a part of the matrix


def test_small_cells_have_whole_rows_in_a_block() -> None:
    assert tilings(lowered(32, 0), 8, H200)[0].near
    assert lower(cores("rnn", 32, torch.float32)[0]).products
    assert tilings(lower(cores("rnn", 32, torch.float32)[0]), 8, H200)[0].units is None


def test_what_fits_in_no_block_is_read_from_memory() -> None:
    own = lower(cores("lstm", 1024, torch.float32)[1])
    best = tilings(own, 16, H200)[0]
    assert best.units is not None
    assert best.kept == "memory"
    assert estimate(own, best, 16, H200) < 30


def test_fewer_processors_have_wider_blocks() -> None:
    wide = tilings(lowered(512, 0), 8, Limits(processors=8, shared_bytes=227 * 1024))[0]
    assert wide.units is None or wide.units.tiles <= 8


# -- what NVRTC makes of them ------------------------------------------------------------------------------------------


def binary(text: KernelText, architecture: str) -> bytes:
    try:
        return compiled(text.text(), architecture)
    except CannotEmitError as error:
        if error.reason.code is Code.NO_COMPILER:
            pytest.skip(str(error))
        raise


def used(cubin: bytes) -> tuple[int, int]:
    """Registers of a thread, and bytes of its stack, where it keeps those that there are too few of."""
    (sections,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, sections + k * size) for k in range(count)]
    found: dict[int, int] = {}
    for each in headers:
        start = headers[names][4] + each[0]
        if cubin[start : cubin.index(b"\0", start)] != b".nv.info":
            continue
        at, end = each[4], each[4] + each[5]
        while at < end:
            form, attribute, length = struct.unpack_from("<BBH", cubin, at)
            if form == 4:  # an attribute of a function: which one, and a number
                found[attribute] = struct.unpack_from("<I", cubin, at + 8)[0]
            at += 4 + (length if form == 4 else 0)
    return found[0x2F], found[0x11]


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("name", "dtype"), [("gru", torch.bfloat16), ("layer norms", torch.float32)])
@pytest.mark.parametrize("units", [None, Units(32, 8)])
def test_kernels_compile_without_a_device(
    name: str, dtype: torch.dtype, units: Units | None, architecture: str
) -> None:
    for core in cores(name, 32, dtype):
        _, stack = used(binary(KernelText(lower(core), Tiling(units, 8, 4)), architecture))
        assert stack == 0


@pytest.mark.parametrize("name", ["ntm", "top_k", "dict_state_dtypes", "conv_lstm", "attention_memory"])
def test_kernels_of_all_kinds_of_statements_compile(name: str) -> None:
    own, dtype, inputs, state = shared(name)
    with emulated(tiling=Tiling(rows=2, warps=2)) as emitter:
        explain(own, inputs, None, state, dtype)
    assert len(emitter.cores) == 2
    for core in emitter.cores:
        binary(KernelText(lower(core), Tiling(rows=2, warps=2)), "sm_80")


def test_kernels_beside_a_core_compile() -> None:
    own, dtype, inputs, state = shared("layer_norm_lstm")
    with emulated(tiling=Tiling(rows=2, warps=2)) as emitter:
        explain(own, inputs, None, state, dtype)
    assert emitter.beside
    for core in emitter.beside:
        assert not core.carried
        binary(KernelText(lower(core), Tiling(rows=2, warps=2)), "sm_80")


@pytest.mark.parametrize(("rows", "units", "which"), CASES)
def test_kernels_have_the_registers_that_the_model_says(rows: int, units: int, which: int) -> None:
    own, tiling = lowered(units, which), replace(tiling_of(units, MEASURED[rows, units][which]), shared_bytes=227 << 10)
    found, stack = used(binary(KernelText(own, tiling), "sm_90"))
    most = min(255, 65536 // (32 * tiling.warps))
    assert found <= most
    assert abs(found - min(most, registers(own, tiling, row_tiles(own, tiling)))) <= 16
    assert stack <= 32  # a few addresses


def test_a_text_that_is_refused_is_an_error_with_its_line() -> None:
    try:
        with pytest.raises(CannotEmitError, match=r"NVRTC failed: core.cu\(1\): error: "):
            compiled("nonsense;", "sm_90")
    except CannotEmitError as error:
        pytest.skip(str(error))
