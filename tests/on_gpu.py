"""Runs of loops on a GPU, and what their results, on the host, are compared with."""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.comparison import engine_loop, loss_of, plain_loop, results, wanting_gradients
from unspool.engine.emit.cuda.loop.running import CudaLoop
from unspool.engine.execute import plain
from unspool.structure import map_structure

LIMITS = [(torch.float32, 1e-5), (torch.bfloat16, 1e-2), (torch.float16, 1.5e-3)]
"""How far results may be from those in float64, relative to their norm."""


def by_loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has cores run by the loop emitter, around a test."""
    monkeypatch.setenv("UNSPOOL_EMIT", "cuda-loop")
    yield
    torch.cuda.synchronize()
    for each in gc.get_objects():  # what a loop's last launch has reported, nobody has asked for
        if isinstance(each, CudaLoop):
            each.complain()


def on_device(structure: Any, *, gradients: bool = True) -> Any:
    moved = map_structure(lambda leaf: leaf.detach().cuda(), structure)
    return wanting_gradients(moved) if gradients else moved


def on_host(*structures: Any) -> Tensor:
    """The number that gradients are of."""
    return loss_of(*(map_structure(lambda leaf: leaf.cpu(), each) for each in structures))


def found_by_kernels(own: Any, dtype: torch.dtype, lengths: Any, inputs: Any, state: Any) -> dict[str, Tensor]:
    """What the GPU computes, and every gradient, on the host."""
    found = results(engine_loop, own.cuda(), dtype, lengths, on_device(inputs), on_device(state), on_host)
    return {key: value.detach().cpu() for key, value in found.items()}


def plain_on_device(cell: Any, inputs: Any, lengths: Tensor, state: Any, dtype: torch.dtype) -> tuple[Any, Any]:
    """The plain loop on the GPU."""
    outputs, final = plain.run(cell, map_structure(lambda leaf: leaf.transpose(0, 1), inputs), lengths, state, dtype)
    return map_structure(lambda leaf: leaf.transpose(0, 1), outputs), final


def in_float64(own: Any, lengths: Any, inputs: Any, state: Any) -> dict[str, Tensor]:
    """What the plain loop computes from the same numbers."""
    wide = torch.float64
    exact = [wanting_gradients(map_structure(lambda leaf: leaf.to(wide), each)) for each in (inputs, state)]
    return results(plain_loop, copy.deepcopy(own).cpu().to(wide), wide, lengths, *exact)


def assert_near(
    found: dict[str, Tensor], expected: dict[str, Tensor], limit: float, torchs: dict[str, Tensor] | None = None
) -> None:
    """Asserts that results are as near to exact ones as `limit`, or about as near as torch's in the same dtype.

    Where terms cancel, as in the gradient of what a norm is of, how far off a result is depends on luck: torch's may be
    twice as far from one cell to the next.
    """
    for key, value in expected.items():
        off = distance(found[key], value)
        allowed = limit if torchs is None else max(limit, 2 * distance(torchs[key], value))
        assert off < allowed, f"{key} differs by {off}, and may by {allowed}"


def distance(found: Tensor, expected: Tensor) -> float:
    return float((found.detach().to(torch.float64) - expected.detach()).norm() / expected.detach().norm())
