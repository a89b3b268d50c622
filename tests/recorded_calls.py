"""Calls of an LSTM that an emulated machine records, and what they are compared with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from tests.emulator import Emulated, emulated
from unspool import BasicLSTMCell, Checkpoint, Keep, Recompute, dynamic_rnn
from unspool.engine import Memory
from unspool.engine.emit.cuda.loop.tiles import Tiling

POLICIES = [Keep(), Recompute(), Checkpoint(every=2)]
BATCH, STEPS = 3, 5


@contextmanager
def recording() -> Iterator[Emulated]:
    """What records calls; its memory is poisoned until a recording runs."""
    found = Emulated()
    found.records = True
    with emulated(found, Tiling(None, 4, 1)):
        yield found


def lstm(units: int = 4) -> Any:
    torch.manual_seed(units)
    own = BasicLSTMCell(units, input_size=4)
    with torch.no_grad():
        own.bias.normal_()
    return own.double()


def inputs_of(seed: int, steps: int = STEPS) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(steps, BATCH, 4, generator=generator, dtype=torch.float64).requires_grad_()


def loop(own: Any, inputs: Tensor, memory: Memory | None = None) -> tuple[Tensor, Any]:
    return dynamic_rnn(own, inputs, dtype=torch.float64, time_major=True, memory=memory)


def loss(outputs: Tensor, state: Any, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed + 100)
    terms = [outputs, state.c, state.h]
    return sum(
        ((each * torch.randn(each.shape, generator=generator, dtype=torch.float64)).sum() for each in terms),
        torch.zeros((), dtype=torch.float64),
    )


def expected(own: Any, seed: int, memory: Memory | None = None, steps: int = STEPS) -> list[Tensor]:
    """Outputs and gradients by the loop that runs each cell step by step."""
    inputs, state, outputs = inputs_of(seed, steps), own.zero_state(BATCH, torch.float64), list[Tensor]()
    for each in inputs:
        output, state = own(each, state)
        outputs.append(output)
    stacked = torch.stack(outputs)
    gradients = torch.autograd.grad(loss(stacked, state, seed), [inputs, *own.parameters()])
    return [stacked.detach(), state.c.detach(), state.h.detach(), *gradients]


def found(own: Any, seed: int, memory: Memory | None = None, steps: int = STEPS) -> list[Tensor]:
    inputs = inputs_of(seed, steps)
    outputs, state = loop(own, inputs, memory)
    gradients = torch.autograd.grad(loss(outputs, state, seed), [inputs, *own.parameters()])
    return [outputs.detach(), state.c.detach(), state.h.detach(), *gradients]


def assert_close(one: list[Tensor], other: list[Tensor]) -> None:
    for own, reference in zip(one, other, strict=True):
        torch.testing.assert_close(own, reference, rtol=1e-12, atol=1e-12)
