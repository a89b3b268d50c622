"""The engine on a GPU: graphs, swapping and every policy against the plain loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.user_cells import RANDOM, USER_CELLS
from tests.zoo import ZOO, inputs_for
from unspool import (
    AttentionWrapper,
    BahdanauAttention,
    Checkpoint,
    Keep,
    LSTMCell,
    LuongAttention,
    Recompute,
    dynamic_rnn,
)
from unspool.engine import Options, Request
from unspool.engine.emit.graphs.graphed import Graphed
from unspool.engine.execute import plain
from unspool.engine.run import run
from unspool.structure import flatten, map_structure

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.compiled,
]

POLICIES = [Keep(), Recompute(), Checkpoint(every=5)]
PLANNED = sorted({*ZOO, *USER_CELLS} - {"device", "locked_dropout", "branching", "clockwork"})


def problem(name: str, rows: int, steps: int) -> tuple[Any, Any, Any, torch.dtype]:
    """A cell with time-major inputs and a state, all on the GPU."""
    if name in ZOO:
        cell, dtype = ZOO[name]().double(), torch.float64
        inputs, state = inputs_for(name, rows, steps), map_structure(torch.randn_like, cell.zero_state(rows, dtype))
    else:
        user = USER_CELLS[name]
        cell, inputs, state, dtype = user.make(), user.inputs(rows, steps), user.state(rows), user.dtype
    inputs = map_structure(lambda leaf: leaf.transpose(0, 1).contiguous().cuda(), inputs)
    state = map_structure(lambda leaf: leaf.cuda(), state)
    with torch.no_grad():
        plain.run(cell.cuda(), inputs, None, state, dtype)  # builds it
    leaves = [*flatten(inputs), *flatten(state)]
    for leaf in leaves:
        leaf.requires_grad_(leaf.is_floating_point())
    return cell, inputs, state, dtype


def results(cell: Any, inputs: Any, state: Any, outputs: Any, final: Any) -> list[Any]:
    leaves = [leaf for leaf in [*flatten(outputs), *flatten(final)] if leaf.requires_grad]
    loss = torch.stack([(leaf * leaf.detach().cos()).sum().double() for leaf in leaves]).sum()
    sources = [leaf for leaf in [*flatten(inputs), *flatten(state), *cell.parameters()] if leaf.requires_grad]
    return [*leaves, *torch.autograd.grad(loss, sources, allow_unused=True)]


@pytest.mark.parametrize("lengths", [None, [11, 0, 2, 7, 2]], ids=["full", "lengths"])
@pytest.mark.parametrize("name", PLANNED)
def test_equals_the_plain_loop(name: str, lengths: Any) -> None:
    torch.manual_seed(0)
    cell, inputs, state, dtype = problem(name, 5, 11)
    rows = None if lengths is None else torch.tensor(lengths, device="cuda")
    torch.manual_seed(1)
    expected = results(cell, inputs, state, *plain.run(cell, inputs, rows, state, dtype))
    if name in RANDOM and lengths is not None:
        pytest.skip("with lengths, the plain loop draws for rows that have ended too")
    # Sums in another order, on matrix units in float64: a few parts in 1e16 each.
    tight = {"rtol": 1e-9, "atol": 1e-11} if name != "dict_state_dtypes" else {"rtol": 1e-4, "atol": 1e-5}
    for memory in POLICIES:
        for swap in (False, True):
            for _ in range(3):  # interpreted, recorded, replayed
                torch.manual_seed(1)
                found = run(Request(cell, inputs, rows, state, dtype, Options(3, swap, memory)))
                torch.testing.assert_close(results(cell, inputs, state, *found), expected, **tight)


@pytest.mark.parametrize("lengths", [None, [11, 0, 2, 7, 2]], ids=["full", "lengths"])
@pytest.mark.parametrize("mechanism", [BahdanauAttention, LuongAttention])
def test_the_gradients_of_a_memory(mechanism: Any, lengths: Any) -> None:
    torch.manual_seed(0)
    attention = mechanism(6, dtype=torch.float64)
    cell = AttentionWrapper(LSTMCell(6, input_size=8), attention, attention_layer_size=5).cuda().double()
    inputs = torch.randn(11, 5, 3, dtype=torch.float64, device="cuda", requires_grad=True)
    memory = torch.randn(5, 9, 6, dtype=torch.float64, device="cuda", requires_grad=True)
    rows = None if lengths is None else torch.tensor(lengths, device="cuda")

    def everything(loop: Any) -> list[Any]:
        attention.setup_memory(memory, [9, 1, 4, 9, 7])
        outputs, _ = loop(cell.zero_state(5, torch.float64))
        return [outputs, *torch.autograd.grad(outputs.sin().sum(), [inputs, memory, *cell.parameters()])]

    expected = everything(lambda state: plain.run(cell, inputs, rows, state, torch.float64))
    for policy in POLICIES:
        how = {"memory": policy, "parallel_iterations": 4, "time_major": True}
        for _ in range(3):  # the third time by a graph
            found = everything(lambda state, how=how: dynamic_rnn(cell, inputs, rows, state, torch.float64, **how))
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_graphs_follow_the_weights_and_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replayed graph reads what is there now."""
    monkeypatch.setenv("UNSPOOL_EMIT", "CUDA graph")
    torch.manual_seed(0)
    cell = LSTMCell(8, input_size=6).cuda()
    for rows in (4, 4, 4, 3, 3, 4):
        inputs = torch.randn(rows, 40, 6, device="cuda")
        found, _ = dynamic_rnn(cell, inputs, dtype=torch.float32, parallel_iterations=8)
        time_major = inputs.transpose(0, 1)
        expected, _ = plain.run(cell, time_major, None, cell.zero_state(rows, torch.float32, "cuda"), torch.float32)
        torch.testing.assert_close(found, expected.transpose(0, 1), rtol=1e-5, atol=1e-5)
        with torch.no_grad():
            cell.kernel.mul_(0.9)


def test_graphs_serve_batches_of_any_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other rows end at other steps in every batch; few shapes are recorded, and all of it is replayed in the end."""
    monkeypatch.setenv("UNSPOOL_EMIT", "CUDA graph")
    torch.manual_seed(0)
    cell = LSTMCell(8, input_size=6).cuda().double()
    calls = {"_replay": 0, "_record": 0}
    for name in calls:
        original: Any = getattr(Graphed, name)

        def counted(*given: Any, name: str = name, original: Any = original) -> Any:
            calls[name] += 1
            return original(*given)

        monkeypatch.setattr(Graphed, name, counted)
    chunks = 0
    for _ in range(12):
        lengths = torch.randint(0, 41, (13,))
        lengths[0] = 40
        inputs = torch.randn(40, 13, 6, device="cuda", dtype=torch.float64, requires_grad=True)
        state = map_structure(torch.randn_like, cell.zero_state(13, torch.float64, "cuda"))
        found = run(Request(cell, inputs, lengths, state, torch.float64, Options(8)))
        expected = plain.run(cell, inputs, lengths.cuda(), state, torch.float64)
        torch.testing.assert_close(
            results(cell, inputs, state, *found), results(cell, inputs, state, *expected), rtol=1e-9, atol=1e-11
        )
        chunks += 2 * 5
        with torch.no_grad():
            cell.kernel.mul_(0.9)
    assert calls["_record"] <= 2 * 7  # 1, 2, 4, 8, 12 and 16 rows, and all 13 of them
    assert calls["_replay"] >= chunks // 2


def test_a_loop_on_another_stream_and_within_a_capture() -> None:
    torch.manual_seed(0)
    cell, inputs = LSTMCell(8, input_size=6).cuda(), torch.randn(4, 12, 6, device="cuda")

    def loop(x: Tensor) -> Tensor:
        with torch.no_grad():
            return dynamic_rnn(cell, x, dtype=torch.float32, parallel_iterations=4)[0]

    expected = loop(inputs)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            found = loop(inputs)
    torch.cuda.current_stream().wait_stream(stream)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = loop(inputs)
    inputs.mul_(2)
    graph.replay()
    torch.testing.assert_close(captured, loop(inputs), rtol=1e-5, atol=1e-5)


def test_swapped_states_leave_the_device() -> None:
    """What waits for backward on the device does not grow with the number of steps, inputs and outputs aside."""
    cell = LSTMCell(256, input_size=16).cuda()

    def kept(steps: int, swap: bool) -> int:
        inputs = torch.randn(steps, 64, 16, device="cuda")
        before = torch.cuda.memory_allocated()
        outputs, _ = dynamic_rnn(cell, inputs, dtype=torch.float32, time_major=True, swap_memory=swap, memory=Keep())
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated() - before - outputs.nbytes

    kept(64, True)
    assert kept(64, False) < kept(640, False) / 5
    assert abs(kept(64, True) - kept(640, True)) < 2**20
