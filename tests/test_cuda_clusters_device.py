"""Clusters of blocks of the CUDA loop emitter on a GPU: what they send each other."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from weakref import WeakValueDictionary

import pytest
import torch
from torch import Tensor

from tests.comparison import plain_loop, results
from tests.emulator.cells import UNITS, problem
from tests.on_gpu import LIMITS, assert_near, by_loops, found_by_kernels, in_float64
from unspool.engine.emit.cuda.loop.division import Units
from unspool.engine.emit.cuda.loop.driver import CLUSTERS
from unspool.engine.emit.cuda.loop.emitter import CudaLoops
from unspool.engine.emit.cuda.loop.tiles import Tiling
from unspool.engine.plans import cache

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] < CLUSTERS,
    reason="needs a CUDA device with clusters",
)


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from by_loops(monkeypatch)


@pytest.mark.parametrize("name", ["lstm", "gru", "layer norms", "two layers"])
@pytest.mark.parametrize("rows", [8, 16, 32])
@pytest.mark.parametrize("kept", ["registers", "shared"])
def test_blocks_of_a_cluster_hand_each_other_their_sums(
    name: str, rows: int, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One warp in each of two blocks has the sums of two warps in one block."""
    lengths = [k * 7 % 5 for k in range(70)]
    found: list[dict[str, Tensor]] = []
    for warps, cluster, ahead in ((2, 1, False), (1, 2, False), (1, 2, rows > 8)):
        tiling = Tiling(Units(UNITS, 8), rows, warps, kept, ahead=ahead, cluster=cluster)
        monkeypatch.setattr(CudaLoops, "tiling", tiling)
        monkeypatch.setattr(cache, "_shared", WeakValueDictionary())  # or an earlier cell's plan would have kernels
        own, inputs, state = problem(name, torch.bfloat16, batch=70)
        found.append(found_by_kernels(own, torch.bfloat16, lengths, inputs, state))
    for each in found[1:]:
        assert all(torch.equal(each[key], found[0][key]) for key in found[0])


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn", "two layers"])
@pytest.mark.parametrize("cluster", [2, 4, 8])
@pytest.mark.parametrize(("dtype", "limit"), LIMITS[1:])
def test_a_cluster_with_all_units_of_a_row_is_near_float64(
    name: str, cluster: int, dtype: torch.dtype, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    units, lengths = 64, [k * 7 % 5 for k in range(70)]
    monkeypatch.setattr(CudaLoops, "tiling", Tiling(Units(units, units // cluster), 8, 4, cluster=cluster))
    own, inputs, state = problem(name, dtype, batch=70, units=units)
    expected = in_float64(own, lengths, inputs, state)
    torchs = results(plain_loop, copy.deepcopy(own), dtype, lengths, inputs, state)
    first = found_by_kernels(own, dtype, lengths, inputs, state)
    assert_near(first, expected, limit, torchs)
    for _ in range(5):
        again = found_by_kernels(own, dtype, lengths, inputs, state)
        assert all(torch.equal(again[key], first[key]) for key in first)
