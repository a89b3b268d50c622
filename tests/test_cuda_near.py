"""Blocks of the CUDA loop emitter that have all units of their rows: nothing crosses, streamed values wait near."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.comparison import engine_loop, plain_loop, results, wanting_gradients
from tests.emulator import Emulated, emulated
from tests.emulator.cells import UNITS, problem
from unspool.engine.emit.cuda.loop.division import Units
from unspool.engine.emit.cuda.loop.lowered import lower
from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.tiles import Tiling
from unspool.engine.emit.errors import CannotEmitError
from unspool.structure import map_structure

NAMES = ["lstm", "gru", "rnn", "peepholes and projection"]
OTHERS = ["architecture search", "two layers", "product plus product"]
LENGTHS = [4, 0, 2, *[3] * 15]


def near(name: str, warps: int, **options: Any) -> Tiling:
    units = UNITS // 2 if "projection" in name else UNITS
    return Tiling(Units(units, units), 8, warps, **options)


def found_by(tiling: Tiling, name: str, dtype: torch.dtype, seed: int = 0) -> dict[str, Any]:
    own, inputs, state = problem(name, dtype, batch=18)
    with emulated(Emulated(seed=seed), tiling) as emitter:
        found = results(engine_loop, own, dtype, LENGTHS, inputs, state)
    assert emitter.emulated.launches == 2
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_they_are_as_near_to_float64_as_halves_are(name: str, dtype: torch.dtype) -> None:
    found = found_by(near(name, 2), name, dtype)
    own, inputs, state = problem(name, dtype, batch=18)
    wide = torch.float64
    exact = [wanting_gradients(map_structure(lambda leaf: leaf.to(wide), each)) for each in (inputs, state)]
    expected = results(plain_loop, copy.deepcopy(own).to(wide), wide, LENGTHS, *exact)
    torchs = results(plain_loop, own, dtype, LENGTHS, inputs, state)
    limit = {torch.bfloat16: 1e-2, torch.float16: 1.5e-3}[dtype]  # of a few numbers of 8 and of 11 bits
    for key, value in expected.items():
        off, own_off = ((each[key].detach().to(wide) - value).norm() / value.norm() for each in (found, torchs))
        assert off < max(limit, 1.1 * own_off), f"{key} differs by {off}, torch's by {own_off}"


@pytest.mark.parametrize("name", [*NAMES, *OTHERS])
def test_they_are_as_blocks_are_that_have_some_of_the_units(name: str) -> None:
    units = UNITS // 2 if "projection" in name else UNITS
    found = found_by(near(name, 2), name, torch.bfloat16)
    expected = found_by(Tiling(Units(units, 8), 8, 2), name, torch.bfloat16)
    for key, value in expected.items():  # terms are added in another order
        torch.testing.assert_close(found[key], value, rtol=2**-7, atol=2**-7 * value.abs().max().item())


@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_warps_have_columns_of_their_own_or_other_terms_of_the_same(name: str, warps: int) -> None:
    found, expected = found_by(near(name, warps), name, torch.bfloat16), found_by(near(name, 2), name, torch.bfloat16)
    for key, value in expected.items():  # terms are added in another order
        torch.testing.assert_close(found[key], value, rtol=2**-7, atol=2**-7 * value.abs().max().item())


@settings(deadline=None)  # the first example compiles
@given(st.integers(0, 1000))
def test_results_are_the_same_bits_in_whatever_order_threads_run(seed: int) -> None:
    first, again = (found_by(near("gru", 2), "gru", torch.bfloat16, each) for each in (0, seed))
    assert all(torch.equal(first[key], again[key]) for key in first)


def test_tf32_products_have_eleven_bits() -> None:
    found = found_by(near("lstm", 2, tf32=True), "lstm", torch.float32)
    own, inputs, state = problem("lstm", torch.float32, batch=18)
    expected = results(plain_loop, own, torch.float32, LENGTHS, inputs, state)
    for key, value in expected.items():
        off = ((found[key] - value).norm() / value.norm()).item()
        assert off < 2e-3
        if key == "outputs 0":
            assert off > 1e-6  # they are not exact


def test_streamed_values_may_begin_anywhere() -> None:
    """What is copied 16 bytes at a time is moved first where it begins elsewhere."""
    own, inputs, _ = problem("rnn", torch.bfloat16)
    with torch.no_grad():
        apart = torch.zeros(inputs.numel() + 1, dtype=inputs.dtype)[1:].view(inputs.shape).copy_(inputs)
    assert apart.data_ptr() % 16
    with emulated(tiling=near("rnn", 2)):
        found, expected = (engine_loop(own, each.detach(), None, None, torch.bfloat16)[0] for each in (apart, inputs))
    assert torch.equal(found, expected)


def test_folds_over_units_are_left_to_blocks_of_whole_rows() -> None:
    own, inputs, state = problem("layer norms", torch.bfloat16)
    with emulated(tiling=Tiling(rows=1, warps=1)) as emitter:
        engine_loop(own, inputs, None, state, torch.bfloat16)
    with pytest.raises(CannotEmitError, match="folds over units"):
        KernelText(lower(emitter.cores[0]), near("layer norms", 2))
