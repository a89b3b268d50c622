"""What crosses between blocks of the CUDA loop emitter: how words lie, how many crossings a step has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.comparison import check
from tests.emulator import emulated
from tests.emulator.cells import UNITS, problem
from tests.test_cuda_tiles import cores
from unspool import Keep, Recompute, cell, dynamic_rnn
from unspool.engine.emit.cuda.loop import launch
from unspool.engine.emit.cuda.loop.division import Units
from unspool.engine.emit.cuda.loop.lowered import lower
from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.tiles import Tiling
from unspool.engine.emit.stages.passes import Pass
from unspool.engine.memory import policies

DIVIDED = Tiling(Units(UNITS, 16), rows=8, warps=2)
LENGTHS = [4, 0, 2]


def text(name: str, which: int, dtype: torch.dtype = torch.bfloat16, tiling: Tiling = DIVIDED) -> KernelText:
    """The kernel of a cell's forward core, or of its adjoint."""
    return KernelText(lower(cores(name, UNITS, dtype)[which]), tiling)


@pytest.mark.parametrize(
    ("name", "which", "dtype", "turns"),
    [
        ("lstm", 0, torch.bfloat16, []),  # a state, which has one number a unit
        ("lstm", 1, torch.bfloat16, [4]),  # the gradients of four gates
        ("lstm", 1, torch.float32, [4]),
        ("lstm", 1, torch.float64, []),  # 32 bytes are no single word
        ("gru", 1, torch.float16, []),  # one of its gates is known later than the other
    ],
)
def test_numbers_of_a_unit_lie_side_by_side_and_are_posted_at_once(
    name: str, which: int, dtype: torch.dtype, turns: list[int]
) -> None:
    found = text(name, which, dtype)
    assert list(found.places.woven.values()) == turns
    assert found.body.count("_unit[] = {") == len(turns)


@pytest.mark.parametrize("kept", ["registers", "shared", "memory"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_matrices_are_read_in_the_order_of_woven_words(kept: str, dtype: torch.dtype) -> None:
    own, inputs, state = problem("lstm", torch.float32)
    if dtype == torch.float32:
        with emulated(tiling=Tiling(Units(UNITS, 16), rows=8, warps=2, kept=kept)):
            check(own, dtype, LENGTHS, inputs, state)
    else:  # the same numbers, wherever a matrix is kept
        own, inputs, state = problem("lstm", dtype)
        found: list[Tensor] = []
        for where in ("registers", kept):
            with emulated(tiling=Tiling(Units(UNITS, 16), rows=8, warps=2, kept=where)):
                outputs, _ = dynamic_rnn(own, inputs, LENGTHS, state, dtype)
                found.append(torch.autograd.grad(outputs.float().sum(), inputs)[0])
        assert torch.equal(*found)


@pytest.mark.parametrize(("which", "loops", "words"), [(0, 2, 4), (1, 2, 4)])
def test_a_norm_crosses_once_with_two_words(which: int, loops: int, words: int) -> None:
    found = text("layer norms", which)
    assert len(found.places.folds) == words
    folding = [loop for loop in found.division.mapped if any(found.division.posts(loop, s) for s in loop.statements)]
    assert len(folding) == loops


def test_folds_are_posted_before_any_is_waited_for() -> None:
    body = text("layer norms", 1).body
    posts = [at for at in range(len(body)) if body.startswith("_at + tile", at)]
    assert posts[1] < body.index("unspool::wait_for(")


@pytest.mark.parametrize("number", [0.1, 1e4, -3e-5])
def test_the_variance_of_equal_numbers_is_zero(number: float) -> None:
    def step(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        spread = torch.var(h, 1, keepdim=True)
        return x + spread, h * 1

    own: Any = cell(step, state_size=48, output_size=1)
    state = torch.full((2, 48), number)
    with emulated(tiling=Tiling(rows=2, warps=2)) as emitter:
        outputs, _ = dynamic_rnn(own, torch.zeros(2, 3, 1), None, state, torch.float32)
        assert emitter.emulated.launches
    assert torch.equal(outputs, torch.zeros(2, 3, 1))


def test_a_variance_has_the_digits_of_its_numbers() -> None:
    def step(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return x + torch.var(h, 1, keepdim=True), h * 1

    torch.manual_seed(0)
    own: Any = cell(step, state_size=48, output_size=1)
    state = 1000 + torch.randn(3, 48)  # of squares, six digits are lost
    with emulated(tiling=Tiling(rows=2, warps=2)):
        outputs, _ = dynamic_rnn(own, torch.zeros(3, 1, 1), None, state, torch.float32)
    expected = state.double().var(1).float()
    torch.testing.assert_close(outputs[:, 0, 0], expected, rtol=1e-6, atol=0)


def test_chunks_that_32_bits_do_not_count_have_wider_indices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "typedef int Index;" in text("lstm", 0).text()
    own, inputs, state = problem("lstm", torch.float64)
    monkeypatch.setattr(launch, "COUNTED", 64)
    with emulated(tiling=DIVIDED) as emitter:
        check(own, torch.float64, LENGTHS, inputs, state)
        core = emitter.cores[0]
    assert "typedef long Index;" in KernelText(lower(core), DIVIDED, wide=True).text()


def test_streams_are_fetched_only_where_a_chunk_is_larger_than_a_cache() -> None:
    body = text("lstm", 1).body
    assert "if (far) fetch_for_0(unspool::later(chunk, step, next), next.rows);" in body
    assert "const bool far = chunk.total * " in body


def test_a_gpu_keeps_everything_where_that_is_little_of_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "device_bytes", lambda device: 64 << 30)
    gpu = torch.device("cuda", 0)
    assert policies.default_memory(gpu, 1 << 30) == Keep()
    assert policies.default_memory(gpu, (1 << 30) + 1) == Recompute()
    assert policies.default_memory(gpu) == Recompute()
    assert policies.default_memory(torch.device("cpu"), 1 << 50) == Keep()


@pytest.mark.parametrize("which", [0, 1])
def test_norms_of_a_product_that_is_cut_into_gates_are_loops_over_units(which: int) -> None:
    stages = text("layer norms", which).lowered.stages
    assert {loop.domain for stage in stages if isinstance(stage, Pass) for loop in stage.loops} <= {(UNITS,), ()}


def test_what_all_rows_share_is_copied_to_a_block_where_it_is_small() -> None:
    found = text("layer norms", 0)
    copied = [each.name for each in found.places.vectors]
    assert copied
    assert all(f"{name}_copy[unit" in found.body for name in copied)
    assert "unspool::given(" not in found.body
    less = text("layer norms", 0, tiling=replace(DIVIDED, shared_bytes=found.places.shared.size - 1))
    assert len(less.places.vectors) < len(copied)
