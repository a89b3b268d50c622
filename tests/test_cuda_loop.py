"""Kernels of the CUDA loop emitter, run by an emulator: every interleaving gives the plain loop's numbers."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import test_convolutions as geometries
from tests.comparison import CERTAIN, check, engine_loop, plain_loop, results, shared, wanting_gradients
from tests.drawn_cells import DrawnCell
from tests.emitting import assert_equals_interpreter, difference, interpreter
from tests.emulator import Emulated, EmulatedEmitter, emulated
from tests.emulator.cells import UNITS, problem
from tests.idioms import IDIOMS
from tests.profiles import cases
from unspool import Checkpoint, Recompute, cell, dynamic_rnn, explain
from unspool.engine import chunks
from unspool.engine.chunks import longest_chunk
from unspool.engine.emit import registry
from unspool.engine.emit.cuda.loop.division import Units
from unspool.engine.emit.cuda.loop.emitter import chunk_room
from unspool.engine.emit.cuda.loop.printer import kernel
from unspool.engine.emit.cuda.loop.printer.meeting import Meeting
from unspool.engine.emit.cuda.loop.running import CudaLoop
from unspool.engine.emit.cuda.loop.tiles import Tiling
from unspool.engine.emit.interpreted import Interpreted
from unspool.engine.emit.protocol import Chunk, CoreEmitter
from unspool.engine.execute.counts import Counts
from unspool.engine.fallbacks import PerformanceWarning
from unspool.engine.ir.core import Core
from unspool.engine.reasons import Reason
from unspool.structure import map_structure

UNPLANNED = ("branching", "clockwork")
LENGTHS = [4, 0, 2]


def reasons(own: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> set[str | None]:
    """Why the emulator does not run a cell, forwards and backwards; None where it does."""
    found = explain(own, inputs, lengths, state, dtype)
    assert found.planned, found.reason
    parts = [each for each in (found.forward, found.again, found.backward) if each is not None]
    return {dict(each.passed_over).get("emulated") for each in parts}


# -- whole rows in one block -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [each for each in CERTAIN if each not in UNPLANNED])
def test_blocks_of_whole_rows_equal_the_plain_loop(name: str) -> None:
    own, dtype, inputs, state = shared(name)
    lengths = [7, 0, 3, 3, 1]
    with emulated(Emulated(seed=len(name)), Tiling(rows=2, warps=2)) as emitter:
        assert reasons(own, inputs, lengths, state, dtype) == {None}
        check(own, dtype, lengths, inputs, state)
        assert emitter.emulated.launches == 2


def test_convolutions_of_drawn_geometries_are_torchs() -> None:
    draw = random.Random(5)
    torch.manual_seed(0)
    for seed in range(cases(6, 60)):
        geometry = geometries.drawn(draw)
        image, *weights = given = geometry.arguments(rows=3)
        expected = torch.ops.aten.convolution.default(*given)
        core, more = geometries.core_of(geometry, given, expected), torch.randn_like(expected)
        loop = CudaLoop(core, Emulated(seed=seed), Tiling(rows=2, warps=1))
        shared = loop.prepare([each for each in weights[:2] if each is not None])
        _, (found,) = loop(shared, Chunk(Counts([2, 1]), [image, more], ()))
        # In float32, up to a thousand terms are added one after another.
        assert difference(found, expected + more) <= (1e-12 if geometry.dtype is torch.float64 else 5e-6), geometry


@pytest.mark.parametrize("name", ["a convolution of several images a row", "a pyramid of costs"])
def test_several_images_a_row_equal_the_plain_loop(name: str) -> None:
    torch.manual_seed(0)
    own, inputs = IDIOMS[name].make().double(), IDIOMS[name].inputs(3, 4).double()
    state = wanting_gradients(torch.randn_like(own.zero_state(3, torch.float64)))
    with emulated(Emulated(seed=1), Tiling(rows=2, warps=2)):
        assert reasons(own, inputs, LENGTHS, state, torch.float64) == {None}
        check(own, torch.float64, LENGTHS, wanting_gradients(inputs), state)


def spectrum(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """A step that has no kernel."""
    new = torch.tanh(x + torch.fft.rfft(h, dim=1).abs().sum(1, keepdim=True))
    return new, new


def test_what_has_no_kernel_says_why() -> None:
    own = cell(spectrum, state_size=4, output_size=4)
    with emulated():
        found = reasons(own, torch.randn(2, 3, 4), None, torch.zeros(2, 4), torch.float32)
    assert found == {"aten._fft_r2c.default has no compiled form"}


class StandIn(CoreEmitter):
    """The graph emitter, where there are no graphs."""

    name = "stand-in"

    def refusal(self, device: torch.device) -> Reason | None:
        return None

    def cost(self, core: Core) -> float:
        return 1.0

    def core(self, core: Core, device: torch.device) -> Interpreted:
        return Interpreted(core, device)


def test_what_has_no_kernel_is_run_by_the_emitter_instead_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    own = cell(spectrum, state_size=4, output_size=4)
    given = (own, torch.randn(2, 3, 4), None, torch.zeros(2, 4), torch.float32)
    monkeypatch.setattr(EmulatedEmitter, "instead", StandIn.name)
    registry.register(StandIn())
    try:
        with emulated():
            dynamic_rnn(*given)  # and no warning, which would be an error
            found = explain(*given).forward
    finally:
        registry.unregister(StandIn.name)
    assert found.emitter == "stand-in"
    assert dict(found.passed_over)["emulated"] == "aten._fft_r2c.default has no compiled form"


def test_what_does_not_fit_in_shared_memory_is_in_scratch() -> None:
    own, dtype, inputs, state = shared("ntm")
    with emulated(Emulated(shared_bytes=256), Tiling(rows=2, warps=1, shared_bytes=256)):
        assert "chunk.scratch" in explain(own, inputs, None, state, dtype).forward.source
        check(own, dtype, [7, 0, 3, 3, 1], inputs, state)


# -- units divided among blocks ----------------------------------------------------------------------------------------

HALVED = ["lstm", "gru", "rnn", "peepholes and projection", "layer norms"]
DIVIDED = Tiling(Units(UNITS, 16), rows=8, warps=2)


@pytest.mark.parametrize(
    ("name", "dtype", "tiling"),
    [
        ("lstm", torch.float64, DIVIDED),
        ("lstm", torch.float32, Tiling(Units(UNITS, 8), rows=8, warps=3)),
        ("lstm", torch.float64, Tiling(Units(UNITS, 16), rows=8, warps=2, kept="shared")),
        ("gru", torch.float64, Tiling(Units(UNITS, 8), rows=8, warps=1)),
        ("gru", torch.float32, Tiling(Units(UNITS, 16), rows=8, warps=2, kept="memory")),
        ("rnn", torch.float64, Tiling(Units(UNITS, 8), rows=8, warps=4)),
        ("peepholes and projection", torch.float64, Tiling(Units(UNITS // 2, 8), rows=8, warps=2)),
        ("layer norms", torch.float32, DIVIDED),
        ("two layers", torch.float64, DIVIDED),
        ("architecture search", torch.float32, DIVIDED),
        ("matrix memory", torch.float32, Tiling(Units(UNITS, 8), rows=8, warps=2)),
        ("product plus product", torch.float64, DIVIDED),
    ],
)
def test_divided_units_equal_the_plain_loop(name: str, dtype: torch.dtype, tiling: Tiling) -> None:
    own, inputs, state = problem(name, dtype)
    with emulated(tiling=tiling):
        assert reasons(own, inputs, LENGTHS, state, dtype) == {None}
        check(own, dtype, LENGTHS, inputs, state)


@pytest.mark.parametrize("name", HALVED)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_as_near_to_float64_as_their_rounding(name: str, dtype: torch.dtype) -> None:
    own, inputs, state = problem(name, dtype)
    units = UNITS // 2 if "projection" in name else UNITS
    with emulated(tiling=Tiling(Units(units, 8), rows=8, warps=2)):
        assert reasons(own, inputs, LENGTHS, state, dtype) == {None}
        found = results(engine_loop, own, dtype, LENGTHS, inputs, state)
    wide = torch.float64
    exact = [wanting_gradients(map_structure(lambda leaf: leaf.to(wide), each)) for each in (inputs, state)]
    expected = results(plain_loop, copy.deepcopy(own).to(wide), wide, LENGTHS, *exact)
    torchs = results(plain_loop, own, dtype, LENGTHS, inputs, state)
    # A number is rounded to 8 or 11 bits where it leaves a kernel: a few times from the first step to the last. Where
    # terms cancel, torch's results in halves are further off than that, and ours may be about as far.
    limit = {torch.bfloat16: 1e-2, torch.float16: 1.5e-3}[dtype]
    for key, value in expected.items():
        off, own_off = ((each[key].detach().to(wide) - value).norm() / value.norm() for each in (found, torchs))
        assert off < max(limit, 1.1 * own_off), f"{key} differs by {off}, torch's by {own_off}"


def test_tf32_products_have_eleven_bits() -> None:
    own, inputs, state = problem("lstm", torch.float32)
    expected = results(plain_loop, own, torch.float32, LENGTHS, inputs, state)
    with emulated(tiling=Tiling(Units(UNITS, 16), rows=8, warps=2, tf32=True)):
        found = results(engine_loop, own, torch.float32, LENGTHS, inputs, state)
    for key, value in expected.items():
        off = ((found[key] - value).norm() / value.norm()).item()
        assert off < 2e-3
        if key == "outputs 0":
            assert off > 1e-6  # they are not exact


@pytest.mark.parametrize("seed", range(4))
def test_results_are_the_same_bits_in_any_order(seed: int) -> None:
    own, inputs, state = problem("layer norms", torch.float32)
    found = []
    for each in (0, seed + 1):
        with emulated(Emulated(seed=each), DIVIDED):
            found.append(results(engine_loop, own, torch.float32, LENGTHS, inputs, state))
    assert all(torch.equal(found[0][key], found[1][key]) for key in found[0])


def test_a_block_may_have_more_rows_than_a_tile_of_tensor_cores() -> None:
    own, inputs, state = problem("gru", torch.float32, batch=18)
    with emulated(tiling=Tiling(Units(UNITS, 16), rows=16, warps=4)) as emitter:
        check(own, torch.float32, [4, 0, 2, *[3] * 15], inputs, state)
        assert emitter.emulated.launches == 2


def test_rows_that_do_not_fit_at_once_run_one_after_another() -> None:
    own, inputs, state = problem("gru", torch.float32, batch=18)
    lengths = [4, 0, 2, *[3] * 15]
    with emulated(Emulated(blocks=2), DIVIDED) as emitter:
        check(own, torch.float32, lengths, inputs, state)
        assert emitter.emulated.launches == 2  # forward and backward


def test_blocks_that_do_not_fit_are_refused() -> None:
    own, inputs, state = problem("gru", torch.float32)
    with emulated(Emulated(blocks=1), DIVIDED), pytest.warns(UserWarning, match="2 blocks have a row together, and 1"):
        dynamic_rnn(own, inputs, LENGTHS, state, torch.float32)


def test_a_nan_with_the_empty_pattern_is_handed_on_as_another() -> None:
    own, inputs, state = problem("rnn", torch.float32)
    state = torch.full_like(state, torch.nan).view(torch.int32).fill_(-1).view(torch.float32)
    with emulated(tiling=DIVIDED):
        outputs, final = dynamic_rnn(own, inputs, None, state, torch.float32)
    assert outputs.isnan().all()
    assert final.isnan().all()


def test_the_source_is_the_kernel_with_the_lines_of_the_cell() -> None:
    own, inputs, state = problem("lstm", torch.bfloat16)
    with emulated(tiling=DIVIDED):
        source = explain(own, inputs, None, state, torch.bfloat16).forward.source
    assert "UNSPOOL_KERNEL loop_state_0(" in source
    assert "TensorProduct<unspool::bfloat16, 32, 4, 8, 2, unspool::Kept::registers, 1, false, false, 1>" in source
    assert "// c = c * torch.sigmoid(f + self.forget_bias)" in source


@pytest.mark.drawn
@pytest.mark.parametrize("seed", range(cases(8, 200)))
def test_drawn_cells_equal_the_interpreter(seed: int) -> None:
    torch.manual_seed(seed)
    own = DrawnCell(seed, operations=4 + seed % 7)
    inputs = wanting_gradients([torch.randn(4, 3, *shape, dtype=torch.float64) for shape in own.input_shapes])
    state = wanting_gradients([torch.randn(4, *shape, dtype=torch.float64) for shape in own.state_shapes])
    told = (own, torch.float64, [3, 0, 2, 1], inputs, state)
    with interpreter():
        expected = results(engine_loop, *told, optional=True)
    with emulated(Emulated(seed=seed), Tiling(rows=1 + seed % 3, warps=1 + seed % 2)), warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceWarning)  # of what has no compiled form
        found = results(engine_loop, *told, optional=True)
    found = {key: value for key, value in found.items() if value is not None}
    assert_equals_interpreter(found, {key: value for key, value in expected.items() if value is not None})


@pytest.mark.parametrize("memory", [Recompute(), Checkpoint(every=2)])
def test_every_policy_has_kernels(memory: Any) -> None:
    own, inputs, state = problem("gru", torch.float64)

    def loop(own: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> Any:
        return dynamic_rnn(own, inputs, lengths, state, dtype, memory=memory)

    with emulated(tiling=DIVIDED):
        check(own, torch.float64, LENGTHS, inputs, state, run=loop)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_waiting_ends_with_an_error_that_names_the_cell() -> None:
    own, inputs, state = problem("rnn", torch.float32)
    machine = Emulated(tick=10**10, withheld=1)
    with emulated(machine, DIVIDED), pytest.warns(RuntimeWarning, match="loop of .* waited for another block"):
        dynamic_rnn(own, inputs, None, state, torch.float32)


def test_indices_out_of_range_are_errors() -> None:
    def looks_up(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        new = torch.tanh(x + h)
        return new, new.gather(1, torch.full_like(new, 4, dtype=torch.int64))

    own = cell(looks_up, state_size=4, output_size=4)
    with emulated(), pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        dynamic_rnn(own, torch.randn(2, 3, 4), dtype=torch.float32)


def test_threads_that_do_not_meet_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    own, inputs, state = problem("gru", torch.float32)
    with monkeypatch.context() as patch, emulated(tiling=DIVIDED):
        patch.setattr(kernel, "meetings", lambda parts: [Meeting.NONE] * len(parts))
        with pytest.raises(AssertionError, match="are not close"):
            check(own, torch.float32, LENGTHS, inputs, state)


def test_a_deadlock_says_who_waits_where() -> None:
    own, inputs, state = problem("rnn", torch.float32)
    stuck = "nobody can go on: .* threads of block 0 for state_0"
    with emulated(Emulated(withheld=1), DIVIDED), pytest.warns(RuntimeWarning, match=stuck):
        dynamic_rnn(own, inputs, None, state, torch.float32)


def test_loops_on_a_gpu_are_kernels_and_single_steps_are_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    own, inputs, state = problem("rnn", torch.float32)
    monkeypatch.delenv("UNSPOOL_EMIT", raising=False)
    with emulated() as emitter:
        dynamic_rnn(own, inputs, None, state, torch.float32)
        core, *_ = emitter.cores
    cuda, cpu = torch.device("cuda"), torch.device("cpu")
    monkeypatch.delenv("UNSPOOL_EMIT", raising=False)
    found, _ = registry.candidates(core, cuda, None)
    assert [each.name for each in found] == ["cuda-loop", "CUDA graph", "interpreted"]
    assert registry.for_single_steps(cuda) == "CUDA graph"
    assert registry.for_single_steps(cpu) is None
    assert registry.runs_at_once(cuda)
    assert not registry.runs_at_once(cpu)
    monkeypatch.setenv("UNSPOOL_EMIT", "cuda-loop")
    assert registry.for_single_steps(cuda) == "cuda-loop"
    monkeypatch.setenv("UNSPOOL_EMIT", "CUDA graph")
    assert not registry.runs_at_once(cuda)


def test_chunks_are_few_of_much_the_same_length_and_short_where_residuals_are_swapped() -> None:
    halves, floats = ([(chunk_room(141 << 30), width * 1024 * size) for width in (7, 13)] for size in (2, 4))
    assert longest_chunk(halves, 256, 64, 32) == 256  # training of 256 steps, 1024 units and 64 rows is one chunk
    assert longest_chunk(floats, 1024, 64, 32) == 128  # more would grow the peaks of benchmarks/results/peaks-cuda.json
    assert longest_chunk(floats, 1024, 64, 32, swap=True) == 38
    assert longest_chunk(floats, 1024, 4096, 32) == 32
    assert longest_chunk([(0, 1024)], 1024, 1, 32) == 32  # of another emitter


def test_a_chunk_is_as_long_as_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.zeros(3, 100, 4)
    monkeypatch.setattr(chunks, "ENOUGH_ROWS", 1)  # as on a GPU
    with emulated(tiling=DIVIDED) as emitter, torch.no_grad():
        for room, launches in ((0, 4), (1 << 20, 1)):  # chunks of a few steps, or all of them
            monkeypatch.setattr(EmulatedEmitter, "chunk_bytes", lambda emitter, device, room=room: room)
            before = emitter.emulated.launches
            own, _, state = problem("rnn", torch.float32)  # another one, since calls are remembered
            dynamic_rnn(own, inputs, None, state, torch.float32)
            assert emitter.emulated.launches == before + launches
        dynamic_rnn(own, inputs, None, state, torch.float32, 50)
        assert emitter.emulated.launches == before + launches + 2


def test_a_call_has_few_operations_of_torch_around_its_launches() -> None:
    own, _, _ = problem("lstm", torch.float32)
    inputs = torch.zeros(2, 3, 4)

    def train() -> None:
        dynamic_rnn(own, inputs, memory=Recompute(), time_major=True)[0].sum().backward()

    with emulated(tiling=Tiling(None, 4, 1)):  # of whole rows, whose matrices are taken as they are
        with torch.no_grad():
            assert operations_of(lambda: dynamic_rnn(own, inputs, time_major=True)) <= 16
        assert operations_of(train) <= 62


def operations_of(call: Callable[[], object]) -> int:
    """How many operations of torch a call is, each with those that it is made of, once everything is compiled."""
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        call()
    of_torch = [each for each in seen.events() or () if each.name.startswith("aten::")]
    return sum(each.cpu_parent is None or not each.cpu_parent.name.startswith("aten::") for each in of_torch)
