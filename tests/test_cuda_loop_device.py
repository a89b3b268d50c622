"""Kernels of the CUDA loop emitter on a GPU: from one block to many launches; `make gpu-test` runs class by class."""

from __future__ import annotations

import copy
import gc
import threading
import warnings
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

import pytest
import torch
from torch import Tensor, nn

from tests.comparison import (
    CERTAIN,
    assert_same,
    engine_loop,
    made,
    plain_loop,
    results,
    wanting_gradients,
)
from tests.drawn_cells import DrawnCell
from tests.emitting import assert_equals_interpreter
from tests.emulator.cells import MAKE, UNITS, problem
from tests.on_gpu import (
    LIMITS,
    assert_near,
    by_loops,
    distance,
    found_by_kernels,
    in_float64,
    on_device,
    on_host,
    plain_on_device,
)
from unspool import (
    BasicLSTMCell,
    Checkpoint,
    GRUCell,
    Keep,
    Recompute,
    bidirectional_dynamic_rnn,
    cell,
    dynamic_rnn,
    explain,
)
from unspool.engine.emit.cuda.loop.division import Units
from unspool.engine.emit.cuda.loop.driver import Cuda
from unspool.engine.emit.cuda.loop.emitter import CudaLoops
from unspool.engine.emit.cuda.loop.running import CudaLoop
from unspool.engine.emit.cuda.loop.tiles import Tiling
from unspool.engine.emit.graphs.recorder import GraphRecorder
from unspool.engine.emit.protocol import Chunk
from unspool.engine.execute.counts import Counts
from unspool.engine.fallbacks import PerformanceWarning
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Instruction, Kind, Value
from unspool.engine.plans import cache
from unspool.engine.trace.graph import aten
from unspool.structure import flatten

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

LENGTHS = [4, 0, 2]
TORCHS = ("weight_normed",)
"""Cells that call what torch computes otherwise on a GPU: its norms of weights in float64 are float32's."""


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from by_loops(monkeypatch)


class TestOneBlock:
    """The driver: a kernel is compiled, loaded and launched, and numbers come back."""

    @pytest.mark.parametrize(("rows", "steps", "warps"), [(1, 1, 1), (5, 3, 4)])
    def test_states_are_summed_up(self, rows: int, steps: int, warps: int) -> None:
        h, x, y = (Value(name, (3,), torch.float32) for name in "hxy")
        add = Instruction(Kind.POINTWISE, aten.add.Tensor, (h, x), {}, (y,))
        loop = CudaLoop(Core((h,), (x,), (), (add,), (y,), (y,)), Cuda(torch.device("cuda")), Tiling(None, rows, warps))
        loop.wait()
        given = torch.arange(rows * steps * 3, dtype=torch.float32).reshape(-1, 3).cuda()
        chunk = Chunk(Counts([rows] * steps), [given], [torch.ones(rows, 3).cuda()])
        (final,), (emitted,) = loop(loop.prepare([]), chunk)
        expected = 1 + given.reshape(steps, rows, 3).cumsum(0)
        assert torch.equal(emitted.reshape(steps, rows, 3), expected)
        assert torch.equal(final, expected[-1])


class TestWholeRows:
    """Blocks that have whole rows: nothing crosses, no launch is cooperative."""

    @pytest.mark.parametrize(("dtype", "limit"), LIMITS)
    def test_an_lstm_is_near_float64(self, dtype: torch.dtype, limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(CudaLoops, "tiling", Tiling(None, 2, 4, "memory"))
        own, inputs, state = problem("lstm", dtype)
        expected = in_float64(own, LENGTHS, inputs, state)
        assert_near(found_by_kernels(own, dtype, LENGTHS, inputs, state), expected, limit)


class Scaled(nn.Module):
    """Has numbers and indices on the host, as torch allows beside tensors on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(4))
        self.scale = torch.tensor(0.5)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(x[:, torch.tensor([3, 1, 0, 2])] * self.scale + h @ self.weight * torch.tensor(2))
        h = torch.where(h > 0.5, torch.tensor(0.1), h)
        return h, h


class TestNumbersOnTheHost:
    """Constants on the host are brought to the device, those that may change at every call."""

    def test_a_step_may_have_them(self) -> None:
        scaled, inputs = Scaled(), torch.randn(3, 5, 4)
        own = cell(scaled, state_size=4)
        for turn in range(4):
            scaled.scale.fill_(1 + turn)
            expected, _ = dynamic_rnn(own.cpu(), inputs)
            found, _ = dynamic_rnn(own.cuda(), inputs.cuda())
            torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-6)
        assert explain(own, inputs.cuda()).emitter == "cuda-loop"


class TestTwoBlocks:
    """Two blocks that hand words to each other: one step, a few, all dtypes, every place for weights."""

    @pytest.mark.parametrize("kept", ["registers", "shared", "memory"])
    @pytest.mark.parametrize(("dtype", "limit"), LIMITS)
    def test_an_lstm_is_near_float64(
        self, dtype: torch.dtype, limit: float, kept: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(CudaLoops, "tiling", Tiling(Units(UNITS, 16), 8, 2, kept))
        own, inputs, state = problem("lstm", dtype)
        for steps in (1, 4):
            lengths, part = [min(each, steps) for each in LENGTHS], wanting_gradients(inputs[:, :steps])
            expected = in_float64(own, lengths, part, state)
            assert_near(found_by_kernels(own, dtype, lengths, part, state), expected, limit)

    @pytest.mark.parametrize("name", ["lstm", "gru", "layer norms"])
    @pytest.mark.parametrize(
        ("lengths", "blocks"),
        [([4] * 70, 18), ([k * 7 % 5 for k in range(70)], 14)],  # the host leaves out rows that have no steps
        ids=["full", "ragged"],
    )
    def test_groups_that_follow_each_other_are_the_same_bits(
        self, name: str, lengths: list[int], blocks: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(CudaLoops, "tiling", Tiling(Units(UNITS, 16), 8, 2))
        launch, seen = Cuda.launch, list[int]()

        def watched(machine: Cuda, kernel: Any, chunk: Any, count: int, *told: Any, **options: Any) -> None:
            if options["together"]:
                seen.append(count)
            launch(machine, kernel, chunk, count, *told, **options)

        monkeypatch.setattr(Cuda, "launch", watched)
        found: list[dict[str, Tensor]] = []
        for resident in (132, 4):
            monkeypatch.setattr(Cuda, "resident", lambda *told, resident=resident: resident)
            monkeypatch.setattr(cache, "_shared", WeakValueDictionary())  # or an earlier cell's plan would have kernels
            own, inputs, state = problem(name, torch.bfloat16, batch=70)
            found.append(found_by_kernels(own, torch.bfloat16, lengths, inputs, state))
        assert seen == [blocks, blocks, 4, 4]
        assert all(torch.equal(found[1][key], found[0][key]) for key in found[0])


class TestCells:
    """Tilings as they are chosen."""

    @pytest.mark.parametrize("name", [each for each in CERTAIN if each not in ("branching", "clockwork")])
    def test_user_cells_equal_the_plain_loop(self, name: str) -> None:
        own, dtype, inputs, state = made(name)
        lengths = [7, 0, 3, 3, 1]
        expected = results(plain_loop, copy.deepcopy(own), dtype, lengths, inputs, state)
        if name in TORCHS:
            given = torch.tensor(lengths).cuda(), on_device(inputs), on_device(state)
            expected = results(plain_on_device, copy.deepcopy(own).cuda(), dtype, *given, on_host)
            expected = {key: value.detach().cpu() for key, value in expected.items()}
        assert explain(own.cuda(), on_device(inputs), None, on_device(state), dtype).emitter == "cuda-loop"
        assert_same(found_by_kernels(own, dtype, lengths, inputs, state), expected)

    @pytest.mark.parametrize("name", MAKE)
    @pytest.mark.parametrize(("dtype", "limit"), LIMITS)
    def test_divided_cells_are_near_float64(self, name: str, dtype: torch.dtype, limit: float) -> None:
        own, inputs, state = problem(name, dtype, units=256)
        expected = in_float64(own, LENGTHS, inputs, state)
        torchs = results(plain_loop, copy.deepcopy(own), dtype, LENGTHS, inputs, state)
        first = found_by_kernels(own, dtype, LENGTHS, inputs, state)
        assert_near(first, expected, limit, torchs)
        for _ in range(10):
            again = found_by_kernels(own, dtype, LENGTHS, inputs, state)
            assert all(torch.equal(again[key], first[key]) for key in first)


class TestDrawn:
    """Cells that are drawn at random, under every policy: 500 of them."""

    POLICIES = (Keep(), Recompute(), Checkpoint(every=2))

    @pytest.mark.parametrize("batch", range(20))
    def test_they_equal_the_interpreter(self, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """On the host: it is the plain loop, but for torch's gradient of hardsigmoid, whose sixth is a float32."""
        for seed in range(25 * batch, 25 * batch + 25):
            torch.manual_seed(seed)
            own = DrawnCell(seed, operations=4 + seed % 7)
            inputs = wanting_gradients([torch.randn(4, 3, *shape, dtype=torch.float64) for shape in own.input_shapes])
            state = wanting_gradients([torch.randn(4, *shape, dtype=torch.float64) for shape in own.state_shapes])
            with monkeypatch.context() as patch:
                patch.setenv("UNSPOOL_EMIT", "interpreted")
                expected = results(engine_loop, copy.deepcopy(own), torch.float64, [3, 0, 2, 1], inputs, state)

            def loop(*told: Any, policy: Any = self.POLICIES[seed % 3]) -> Any:
                return dynamic_rnn(*told, memory=policy)

            given = on_device(inputs), on_device(state)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PerformanceWarning)  # of what has no compiled form
                found = results(loop, own.cuda(), torch.float64, [3, 0, 2, 1], *given, on_host)
            try:
                assert_equals_interpreter({key: value.detach().cpu() for key, value in found.items()}, expected)
            except AssertionError as error:
                raise AssertionError(f"the cell of seed {seed}: {error}") from error


class TestLengths:
    """Lengths on the GPU."""

    @pytest.mark.parametrize("batch", [3, 70])
    def test_they_are_those_on_the_host(self, batch: int) -> None:
        own, inputs, state = problem("lstm", torch.float32, batch=batch, units=256)
        generator = torch.Generator().manual_seed(1)
        lengths = torch.randint(0, 5, (batch,), generator=generator)
        expected = in_float64(own, lengths.tolist(), inputs, state)
        given = (own.cuda(), torch.float32, lengths.cuda(), on_device(inputs), on_device(state))
        found = results(engine_loop, *given, on_host)
        assert_near({key: value.cpu() for key, value in found.items()}, expected, 1e-5)

    def test_nothing_waits_for_them(self) -> None:
        own, inputs, state = problem("lstm", torch.bfloat16, units=256)
        own, inputs, state = own.cuda(), on_device(inputs), on_device(state)
        lengths = torch.tensor(LENGTHS).cuda()

        def train() -> None:
            outputs, _ = dynamic_rnn(own, inputs, lengths, state, torch.bfloat16)
            outputs.sum().backward()

        train()  # planned, and compiled
        torch.cuda.synchronize()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")
            torch.cuda.set_sync_debug_mode("error")
        try:
            for _ in range(4):  # as they are, recorded, and repeated
                train()
        finally:
            torch.cuda.set_sync_debug_mode("default")


class TestRecorded:
    """Calls that are repeated are one launch, and their bits are those of calls that are not."""

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    @pytest.mark.parametrize("ragged", [False, True], ids=["whole", "ragged"])
    @pytest.mark.parametrize("name", ["lstm", "layer norms"])
    def test_training_is_as_without(
        self, name: str, ragged: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own, _, state = problem(name, dtype, batch=16, units=256)
        own, state = own.cuda(), on_device(state, gradients=False)
        optimizer = torch.optim.SGD(own.parameters(), lr=1e-3)
        graphs, replayed = list[Any](), list[bool]()
        replay = torch.cuda.CUDAGraph.replay
        monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda graph: (replayed.append(True), replay(graph)))
        for turn in range(8):
            generator = torch.Generator().manual_seed(turn)
            inputs = torch.randn(16, 12, 4, generator=generator).to(dtype).cuda().requires_grad_()
            lengths = torch.randint(0, 13, (16,), generator=generator).cuda() if ragged else None

            def run(inputs: Tensor = inputs, lengths: Any = lengths) -> list[Tensor]:
                outputs, final = dynamic_rnn(own, inputs, lengths, state, dtype)
                total = torch.stack([each.float().square().sum() for each in [outputs, *flatten(final)]]).sum()
                return [outputs, *flatten(final), *torch.autograd.grad(total, [inputs, *own.parameters()])]

            before = len(replayed)
            with torch.autograd.graph.saved_tensors_hooks(lambda each: each, lambda each: each):
                expected = run()
            assert len(replayed) == before
            found = run()
            if turn > 2:
                assert len(replayed) == before + 2
            for one, other in zip(found, expected, strict=True):
                assert torch.equal(one, other), turn
            for weight, gradient in zip(own.parameters(), found[-len(list(own.parameters())) :], strict=True):
                weight.grad = gradient
            optimizer.step()
            graphs.append(dynamic_rnn(own, inputs, lengths, state, dtype)[0])  # whose backward pass never comes

    def test_repetitions_outlive_what_products_worked_in(self) -> None:
        inputs = torch.randn(64, 40, 256).cuda()
        cells = [BasicLSTMCell(256, input_size=256).cuda() for _ in range(2)]

        def run(own: Any) -> list[Tensor]:
            given = inputs.clone().requires_grad_()
            outputs, _ = dynamic_rnn(own, given)
            return [outputs.detach(), *torch.autograd.grad(outputs.square().sum(), [given, *own.parameters()])]

        expected = [[run(own) for _ in range(4)].pop() for own in cells]
        del cells[1]
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()  # type: ignore[attr-defined]  # as torch does, and compiled graphs
        torch.cuda.empty_cache()
        others = [torch.full((1 << 20,), -1, device="cuda") for _ in range(64)]  # whoever takes that memory now
        for one, other in zip(run(cells[0]), expected[0], strict=True):
            assert torch.equal(one, other)
        assert all(bool((each == -1).all()) for each in others)

    def test_a_capture_that_fails_leaves_nothing_behind(self) -> None:
        device, ones = torch.device("cuda", 0), torch.ones(4, device="cuda")
        recorder = GraphRecorder(device, lambda: None)
        with pytest.raises(RuntimeError):
            recorder.record(lambda: ones.sum().item())
        torch.cuda.empty_cache()
        replay, doubled = GraphRecorder(device, lambda: None).record(lambda: ones * 2)
        replay()
        assert doubled.tolist() == [2.0] * 4

    def test_tf32_may_be_asked_for_in_either_way(self, recwarn: pytest.WarningsRecorder) -> None:
        own, inputs = BasicLSTMCell(256, input_size=256).cuda(), torch.randn(16, 4, 256).cuda()
        exact, _ = dynamic_rnn(own, inputs)
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        try:
            found = [dynamic_rnn(own, inputs)[0] for _ in range(3)]
        finally:
            torch.backends.cuda.matmul.fp32_precision = "ieee"
        assert 1e-6 < distance(found[0], exact) < 1e-2
        assert all(torch.equal(each, found[0]) for each in found)
        assert torch.equal(dynamic_rnn(own, inputs)[0], exact)
        assert not [each for each in recwarn.list if each.category is PerformanceWarning]


class TestAtOnce:
    """Several loops, streams and threads, and a captured graph."""

    def test_loops_run_on_two_streams_and_in_a_captured_graph(self) -> None:
        own, inputs, state = problem("lstm", torch.bfloat16, units=256)
        own, inputs, state = own.cuda(), on_device(inputs, gradients=False), on_device(state, gradients=False)
        lengths = torch.tensor(LENGTHS).cuda()  # on the host they could not be captured
        with torch.no_grad():
            expected, _ = dynamic_rnn(own, inputs, lengths, state, torch.bfloat16)
            streams = [torch.cuda.Stream() for _ in range(2)]
            torch.cuda.synchronize()
            found = []
            for k in range(100):
                with torch.cuda.stream(streams[k % 2]):
                    found.append(dynamic_rnn(own, inputs, lengths, state, torch.bfloat16)[0])
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                captured, _ = dynamic_rnn(own, inputs, lengths, state, torch.bfloat16)
            for _ in range(10):
                graph.replay()
            torch.cuda.synchronize()
        assert all(torch.equal(each, expected) for each in [*found, captured])

    def test_both_directions_are_those_of_a_cpu(self) -> None:
        torch.manual_seed(0)
        cells = [GRUCell(256, input_size=16) for _ in range(2)]
        inputs, lengths = torch.randn(5, 20, 16), [20, 3, 0, 7, 20]

        def run(cells: list[Any], inputs: Tensor) -> list[Tensor]:
            outputs, states = bidirectional_dynamic_rnn(*cells, inputs, lengths, dtype=torch.float32)
            sources = [inputs, *cells[0].parameters(), *cells[1].parameters()]
            return [*outputs, *torch.autograd.grad(on_host(*outputs, *states), sources)]

        expected = run(copy.deepcopy(cells), wanting_gradients(inputs))
        cells, inputs = [each.cuda() for each in cells], on_device(inputs)
        first = run(cells, inputs)
        for one, other in zip(first, expected, strict=True):
            torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-4)
        for _ in range(20):
            assert all(torch.equal(a, b) for a, b in zip(run(cells, inputs), first, strict=True))

    def test_threads_may_run_loops(self) -> None:
        own, inputs, state = problem("gru", torch.float32, units=256)
        own, inputs, state = own.cuda(), on_device(inputs), on_device(state)
        expected, _ = dynamic_rnn(own, inputs, LENGTHS, state, torch.float32)
        wrong: list[str] = []

        def work() -> None:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(50):
                    outputs, _ = dynamic_rnn(own, inputs, LENGTHS, state, torch.float32)
                    outputs.sum().backward()
                torch.cuda.current_stream().synchronize()
                if not torch.equal(outputs, expected):
                    wrong.append(threading.current_thread().name)

        torch.cuda.synchronize()
        threads = [threading.Thread(target=work) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert not wrong


class TestManyLaunches:
    """No hang, and the same bits."""

    def test_ten_thousand_launches_of_mixed_shapes(self) -> None:
        torch.manual_seed(0)
        kinds = [(name, batch) for name in ("lstm", "gru", "rnn") for batch in (1, 9, 70)]
        problems = [problem(name, torch.bfloat16, batch, 256) for name, batch in kinds]
        moved = [(own.cuda(), *(on_device(each, gradients=False) for each in given)) for own, *given in problems]
        first: dict[int, list[Tensor]] = {}
        streams = [torch.cuda.Stream() for _ in range(2)]
        torch.cuda.synchronize()
        with torch.no_grad():
            for k in range(10_000):
                which = (7 * k) % len(moved)
                with torch.cuda.stream(streams[k % 2]):
                    outputs, final = dynamic_rnn(*moved[which][:2], None, moved[which][2], torch.bfloat16)
                    found = [outputs, *flatten(final)]
                if k < 100 or k % 500 == 0:
                    torch.cuda.synchronize()
                    known = first.setdefault(which, [each.clone() for each in found])
                    assert all(torch.equal(a, b) for a, b in zip(found, known, strict=True)), f"launch {k}"
        torch.cuda.synchronize()
