"""Rows that have a warp to themselves in the CUDA loop emitter: between two folds, no other threads are waited for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.comparison import assert_same, engine_loop, plain_loop, results
from tests.emulator import Emulated, EmulatedError, emulated
from tests.emulator.cells import problem
from tests.test_cuda_tiles import cores
from unspool.engine.emit.cuda.loop.division import Units
from unspool.engine.emit.cuda.loop.lowered import lower
from unspool.engine.emit.cuda.loop.printer import kernel
from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.printer.meeting import Meeting
from unspool.engine.emit.cuda.loop.tiles import Tiling

UNITS = 64
TILING = Tiling(Units(UNITS, 32), rows=8, warps=8)
LENGTHS = [4, 0, 3, 1, 4, 2, 4, 4, 3, 1, 2]


@pytest.mark.parametrize("warps", [8, 16])
@pytest.mark.parametrize("which", [0, 1])
def test_a_step_with_norms_has_all_threads_meet_once(which: int, warps: int) -> None:
    tiling = Tiling(TILING.units, 8, warps, shared_bytes=227 << 10)
    body = KernelText(lower(cores("layer norms", UNITS, torch.bfloat16)[which]), tiling).body
    loop = body.partition("for (int k = ")[2].rpartition("step = next")[0]
    assert loop.count("unspool::sync_block()") == 1  # behind the product
    assert loop.count("unspool::sync_warp()") == 2  # behind each norm


@pytest.mark.parametrize("tiling", [Tiling(Units(UNITS, 16), 8, 8), Tiling(Units(UNITS, 32), 8, 4)])
def test_rows_that_share_warps_or_have_several_passes_wait_for_all(tiling: Tiling) -> None:
    body = KernelText(lower(cores("layer norms", UNITS, torch.bfloat16)[0]), tiling).body
    loop = body.partition("for (int k = ")[2].rpartition("step = next")[0]
    assert loop.count("unspool::sync_block()") == 3


def test_lanes_without_a_unit_have_read_before_others_write() -> None:
    """They take part in folds with what another lane has, which then stores the next step's in its place."""
    tiling = Tiling(Units(UNITS, 16), 8, 8)
    body = KernelText(lower(cores("layer norms", UNITS, torch.bfloat16)[0]), tiling).body
    loop = body.partition("for (int k = ")[2].rpartition("step = next")[0]
    stores = [
        block.partition("sync_warp();")[2] for block in loop.split("for (int pass = 0;") if "sync_warp();" in block
    ]
    assert stores
    assert all("const " not in each.partition("}")[0] for each in stores)  # nothing is read behind


@pytest.mark.parametrize("slow", [-1, 0, 3, 9])
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_they_equal_the_plain_loop_whoever_is_slow(lengths: Any, slow: int) -> None:
    own, inputs, state = problem("layer norms", torch.float32, batch=11, units=UNITS)
    with emulated(Emulated(seed=5, slow=slow), TILING) as emitter:
        found = results(engine_loop, own, torch.float32, lengths, inputs, state)
    assert emitter.emulated.launches == 2
    assert_same(found, results(plain_loop, own, torch.float32, lengths, inputs, state))


def test_warps_that_do_not_meet_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes read what another one of their warp has folded: were they not to meet, some would be too early."""
    meetings = kernel.meetings
    own, inputs, state = problem("layer norms", torch.float32, batch=11, units=UNITS)
    expected = results(plain_loop, own, torch.float32, None, inputs, state)

    def without_warps(parts: Any) -> list[Meeting]:
        return [Meeting.NONE if each is Meeting.WARP else each for each in meetings(parts)]

    monkeypatch.setattr(kernel, "meetings", without_warps)
    with emulated(Emulated(seed=5), TILING), pytest.raises((AssertionError, EmulatedError)):
        assert_same(results(engine_loop, own, torch.float32, None, inputs, state), expected)


def test_warps_without_an_element_leave_a_loop_in_which_others_wait() -> None:
    """64 elements of 256 threads: six warps would read, and wait for, what is another's."""
    few, many = (Tiling(Units(32, 8), 8, warps) for warps in (2, 8))
    found: list[dict[str, Any]] = []
    for tiling in (few, many):
        own, inputs, state = problem("lstm", torch.bfloat16, batch=5, units=32)
        with emulated(tiling=tiling) as emitter:
            found.append(results(engine_loop, own, torch.bfloat16, [4, 0, 3, 1, 2], inputs, state))
        assert emitter.emulated.launches == 2
    assert "warp * 32 >= step.rows * 8) break;" in KernelText(lower(emitter.cores[0]), many).body
    for key, value in found[0].items():  # terms are added in another order
        torch.testing.assert_close(found[1][key], value, rtol=2**-7, atol=2**-7 * value.abs().max().item())
