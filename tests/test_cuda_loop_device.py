"""Kernels of the CUDA loop emitter on a GPU."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.comparison import (
    CERTAIN,
    assert_same,
    engine_loop,
    loss_of,
    made,
    plain_loop,
    results,
    wanting_gradients,
)
from tests.emulator.cells import MAKE, problem
from unspool import dynamic_rnn, explain
from unspool.structure import map_structure

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

LENGTHS = [4, 0, 2]


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_EMIT", "cuda-loop")


def on_device(structure: Any) -> Any:
    return wanting_gradients(map_structure(lambda leaf: leaf.detach().cuda(), structure))


def on_host(*structures: Any) -> Tensor:
    """The number that gradients are of."""
    return loss_of(*(map_structure(lambda leaf: leaf.cpu(), each) for each in structures))


def found_by_kernels(own: Any, dtype: torch.dtype, lengths: Any, inputs: Any, state: Any) -> dict[str, Tensor]:
    """What the GPU computes, and every gradient, on the host."""
    found = results(engine_loop, own.cuda(), dtype, lengths, on_device(inputs), on_device(state), on_host)
    return {key: value.detach().cpu() for key, value in found.items()}


@pytest.mark.parametrize("name", [each for each in CERTAIN if each not in ("branching", "clockwork")])
def test_user_cells_equal_the_plain_loop(name: str) -> None:
    own, dtype, inputs, state = made(name)
    lengths = [7, 0, 3, 3, 1]
    expected = results(plain_loop, copy.deepcopy(own), dtype, lengths, inputs, state)
    assert explain(own.cuda(), on_device(inputs), None, on_device(state), dtype).emitter == "cuda-loop"
    assert_same(found_by_kernels(own, dtype, lengths, inputs, state), expected)


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-5), (torch.bfloat16, 1.5e-2), (torch.float16, 2e-3)])
def test_divided_cells_are_near_float64(name: str, dtype: torch.dtype, limit: float) -> None:
    own, inputs, state = problem(name, dtype, units=256)
    wide = torch.float64
    exact = [wanting_gradients(map_structure(lambda leaf: leaf.to(wide), each)) for each in (inputs, state)]
    expected = results(plain_loop, copy.deepcopy(own).to(wide), wide, LENGTHS, *exact)
    for _ in range(20):
        found = found_by_kernels(own, dtype, LENGTHS, inputs, state)
        for key, value in expected.items():
            assert (found[key].to(wide) - value).norm() < limit * value.norm(), key


def test_loops_run_on_two_streams_and_in_a_captured_graph() -> None:
    own, inputs, state = problem("lstm", torch.bfloat16, units=256)
    own, inputs, state = own.cuda(), inputs.detach().cuda(), map_structure(lambda leaf: leaf.detach().cuda(), state)
    with torch.no_grad():
        expected, _ = dynamic_rnn(own, inputs, None, state, torch.bfloat16)
        streams = [torch.cuda.Stream() for _ in range(2)]
        torch.cuda.synchronize()
        found = []
        for k in range(100):
            with torch.cuda.stream(streams[k % 2]):
                found.append(dynamic_rnn(own, inputs, None, state, torch.bfloat16)[0])
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            captured, _ = dynamic_rnn(own, inputs, None, state, torch.bfloat16)
        for _ in range(10):
            graph.replay()
        torch.cuda.synchronize()
    assert all(torch.equal(each, expected) for each in [*found, captured])
