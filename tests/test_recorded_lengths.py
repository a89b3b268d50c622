"""Calls whose lengths are on the device are recorded too: each repetition has its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.emulator import Emulated
from tests.recorded_calls import (
    BATCH,
    POLICIES,
    assert_close,
    expected,
    found,
    inputs_of,
    loss,
    lstm,
    recording,
)
from unspool import dynamic_rnn
from unspool.engine import Memory, run
from unspool.engine.execute import plain
from unspool.loops import arguments, looks


@pytest.fixture
def machine() -> Iterator[Emulated]:
    with recording() as found:
        yield found


LENGTHS = [[5, 2, 1], [0, 4, 4], [3, 5, 5], [0, 0, 2], [1, 1, 1], [0, 0, 0]]


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths are as if they were on a GPU."""
    for module in (run, looks):
        monkeypatch.setattr(module, "stays_on_device", lambda lengths, device: True)
    monkeypatch.setattr(arguments, "check_lengths_fit", lambda lengths, steps: None)


def by_lengths(own: Any, inputs: Tensor, lengths: Any, memory: Memory | None = None) -> Any:
    return dynamic_rnn(own, inputs, torch.tensor(lengths), dtype=torch.float64, time_major=True, memory=memory)


def ragged(own: Any, seed: int, lengths: list[int], memory: Memory | None = None) -> list[Tensor]:
    inputs = inputs_of(seed)
    outputs, state = by_lengths(own, inputs, lengths, memory)
    gradients = torch.autograd.grad(loss(outputs, state, seed), [inputs, *own.parameters()])
    return [outputs.detach(), state.c.detach(), state.h.detach(), *gradients]


def expected_of(own: Any, seed: int, lengths: list[int]) -> list[Tensor]:
    """The same by the loop that runs every row to its end."""
    inputs = inputs_of(seed)
    outputs, state = plain.run(own, inputs, torch.tensor(lengths), own.zero_state(BATCH, torch.float64), torch.float64)
    total = loss(outputs, state, seed)
    sources = [inputs, *own.parameters()]
    gradients = [torch.zeros_like(each) for each in sources]
    if any(lengths):
        gradients = list(torch.autograd.grad(total, sources))
    return [outputs.detach(), state.c.detach(), state.h.detach(), *gradients]


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("memory", POLICIES, ids=str)
def test_lengths_on_a_device_are_those_of_each_call(machine: Emulated, memory: Memory) -> None:
    own = lstm()
    for seed, lengths in enumerate(LENGTHS):
        assert_close(ragged(own, seed, lengths, memory), expected_of(own, seed, lengths))
    assert machine.recorded == 2
    assert machine.repeated == 5 + 4


@pytest.mark.usefixtures("on_device")
def test_lengths_wait_for_their_backward_pass_too(machine: Emulated) -> None:
    own = lstm()
    for seed in range(3):
        ragged(own, seed, LENGTHS[seed])
    inputs = [inputs_of(seed) for seed in range(4)]
    given = [torch.tensor(each) for each in LENGTHS[:4]]
    losses = list[Tensor]()
    for seed, (each, lengths) in enumerate(zip(inputs, given, strict=True)):
        losses.append(loss(*dynamic_rnn(own, each, lengths, dtype=torch.float64, time_major=True), seed))
        lengths.fill_(1)  # after the call they are the caller's
    for seed in (2, 3, 0, 1):
        gradients = torch.autograd.grad(losses[seed], [inputs[seed], *own.parameters()])
        assert_close(list(gradients), expected_of(own, seed, LENGTHS[seed])[3:])


@pytest.mark.usefixtures("on_device")
def test_each_choice_of_gradients_knows_the_lengths(machine: Emulated) -> None:
    own = lstm()
    for seed, lengths in enumerate(LENGTHS[:5]):
        inputs = inputs_of(seed)
        total = loss(*by_lengths(own, inputs, lengths), seed)
        reference = expected_of(own, seed, lengths)[3:]
        some = torch.autograd.grad(total, own.kernel, retain_graph=True)
        assert_close(list(some), [reference[1]])
        assert_close(list(torch.autograd.grad(total, [inputs, *own.parameters()])), reference)
    assert machine.repeated > 4 + 3


@pytest.mark.usefixtures("on_device")
def test_calls_with_lengths_and_without_are_recorded_side_by_side(machine: Emulated) -> None:
    own = lstm()
    for seed in range(6):
        if seed % 2:
            assert_close(found(own, seed), expected(own, seed))
        else:
            assert_close(ragged(own, seed, LENGTHS[seed]), expected_of(own, seed, LENGTHS[seed]))
    assert machine.recorded == 4
