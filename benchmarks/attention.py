"""Training a decoder with attention: `dynamic_rnn` against the same cell in a Python loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

import unspool
from benchmarks.harness import Case, Contender, Options, main

SHAPES = [(32, 30, 30, 64, 128), (64, 50, 50, 128, 256), (8, 100, 100, 32, 64)]
"""Rows, steps, places of the memory, depth of the inputs, units."""


class Task:
    """An LSTM that looks at a memory, and what it reads."""

    def __init__(self, mechanism: Any, shape: tuple[int, int, int, int, int], options: Options) -> None:
        torch.manual_seed(0)
        rows, steps, places, depth, units = shape
        self.inputs = torch.randn(rows, steps, depth, device=options.device)
        self.memory = torch.randn(rows, places, units, device=options.device, requires_grad=True)
        self.lengths = torch.randint(1, places + 1, (rows,), device=options.device)
        self.mechanism = mechanism(units)
        self.cell = unspool.AttentionWrapper(unspool.LSTMCell(units), self.mechanism, attention_layer_size=units)
        self.mechanism.setup_memory(self.memory, self.lengths)
        with torch.no_grad():  # builds it
            self.cell(self.inputs[:, 0], self.cell.zero_state(rows, torch.float32))

    def gradients(self, outputs: Tensor) -> Sequence[Tensor]:
        """Of everything, once the outputs are there."""
        weights = list(self.cell.parameters())
        return [outputs.detach(), *torch.autograd.grad(outputs.square().sum(), [self.memory, *weights])]

    def planned(self) -> Sequence[Tensor]:
        """By `dynamic_rnn`."""
        self.mechanism.setup_memory(self.memory, self.lengths)
        outputs, _ = unspool.dynamic_rnn(self.cell, self.inputs, dtype=torch.float32)
        return self.gradients(outputs)

    def by_hand(self) -> Sequence[Tensor]:
        """Step by step."""
        self.mechanism.setup_memory(self.memory, self.lengths)
        state: Any = self.cell.zero_state(len(self.inputs), torch.float32)
        outputs: list[Tensor] = []
        for step in self.inputs.unbind(1):
            output, state = self.cell(step, state)
            outputs.append(output)
        return self.gradients(torch.stack(outputs, 1))


def cases(options: Options) -> Iterator[Case]:
    """Both kinds of scores."""
    shapes = [(2, 3, 4, 5, 6)] if options.quick else SHAPES
    for mechanism in (unspool.BahdanauAttention, unspool.LuongAttention):
        for shape in shapes:
            task = Task(mechanism, shape, options)
            names = "B{} T{} S{} D{} H{}".format(*shape)
            contenders = [Contender("dynamic_rnn", task.planned, "unspool"), Contender("Python loop", task.by_hand)]
            yield Case(f"{mechanism.__name__}, {names}", shape[1], contenders)


if __name__ == "__main__":
    main(__doc__, cases)
