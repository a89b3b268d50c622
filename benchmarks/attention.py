"""Training a decoder with attention: `dynamic_rnn` against the engine's plain loop, and a loop written by hand.

The lengths of the answers are full, or drawn from 1 to the number of steps; by hand there is no loop for these. And a
whole model, that of examples/translate_dates.py: loss and gradients of a batch, with encoder, decoder and all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import unspool
from benchmarks.harness import Case, Contender, Options, main
from examples import translate_dates as dates
from unspool.engine.execute import plain

SHAPES = [(32, 30, 30, 64, 128), (64, 50, 50, 128, 256), (8, 100, 100, 32, 64)]
"""Rows, steps, places of the memory, depth of the inputs, units."""


class Task:
    """An LSTM that looks at a memory, and what it reads."""

    def __init__(
        self, mechanism: Any, shape: tuple[int, int, int, int, int], options: Options, *, lengths: bool = False
    ) -> None:
        torch.manual_seed(0)
        rows, steps, places, depth, units = shape
        self.inputs = torch.randn(rows, steps, depth, device=options.device)
        self.memory = torch.randn(rows, places, units, device=options.device, requires_grad=True)
        self.memory_lengths = torch.randint(1, places + 1, (rows,), device=options.device)
        self.lengths = torch.randint(1, steps + 1, (rows,), device=options.device) if lengths else None
        self.mechanism = mechanism(units)
        self.cell = unspool.AttentionWrapper(unspool.LSTMCell(units), self.mechanism, attention_layer_size=units)
        with torch.no_grad():  # builds it
            self.cell(self.inputs[:, 0], self.start())

    def start(self) -> Any:
        """The state to begin with, once the memory is looked through."""
        self.mechanism.setup_memory(self.memory, self.memory_lengths)
        return self.cell.zero_state(len(self.inputs), torch.float32)

    def gradients(self, outputs: Tensor) -> Sequence[Tensor]:
        """Of everything, once the outputs are there."""
        weights = list(self.cell.parameters())
        return [outputs.detach(), *torch.autograd.grad(outputs.square().sum(), [self.memory, *weights])]

    def planned(self) -> Sequence[Tensor]:
        """By `dynamic_rnn`."""
        outputs, _ = unspool.dynamic_rnn(self.cell, self.inputs, self.lengths, self.start(), torch.float32)
        return self.gradients(outputs)

    def by_plain_loop(self) -> Sequence[Tensor]:
        """As `dynamic_rnn` runs a cell without a plan."""
        outputs, _ = plain.run(self.cell, self.inputs.transpose(0, 1), self.lengths, self.start(), torch.float32)
        return self.gradients(outputs.transpose(0, 1))

    def by_hand(self) -> Sequence[Tensor]:
        """Step by step."""
        state, outputs = self.start(), list[Tensor]()
        for step in self.inputs.unbind(1):
            output, state = self.cell(step, state)
            outputs.append(output)
        return self.gradients(torch.stack(outputs, 1))


class Dates:
    """The model that translates dates, and batches for it."""

    def __init__(self, options: Options) -> None:
        torch.manual_seed(0)
        shuffler = random.Random(0)
        known, _ = dates.split(shuffler)
        batches = dates.batches(known, shuffler)
        self.batches = [next(batches) for _ in range(1 if options.quick else 4)]
        self.model = dates.Translator()
        self.model.loss(self.batches[0])  # builds it

    def by_plan(self) -> Sequence[Tensor]:
        """As it is."""
        weights = list(self.model.parameters())
        losses = [self.model.loss(batch) for batch in self.batches]
        return [found for loss in losses for found in (loss.detach(), *torch.autograd.grad(loss, weights))]

    def by_plain_loop(self) -> Sequence[Tensor]:
        """The same with hooks that want to see every step, so that no cell is planned."""
        cells: list[nn.Module] = [self.model.forwards, self.model.backwards, self.model.writer]
        hooks = [cell.register_forward_hook(lambda *_: None) for cell in cells]
        try:
            return self.by_plan()
        finally:
            for hook in hooks:
                hook.remove()


def cases(options: Options) -> Iterator[Case]:
    """Both kinds of scores, with and without lengths."""
    shapes = [(2, 3, 4, 5, 6)] if options.quick else SHAPES
    for mechanism in (unspool.BahdanauAttention, unspool.LuongAttention):
        for shape in shapes:
            for lengths in (False, True):
                task = Task(mechanism, shape, options, lengths=lengths)
                names = "B{} T{} S{} D{} H{}".format(*shape) + (", lengths" if lengths else "")
                contenders = [
                    Contender("dynamic_rnn", task.planned, "unspool"),
                    Contender("plain loop", task.by_plain_loop),
                ]
                if not lengths:
                    contenders.append(Contender("Python loop", task.by_hand))
                yield Case(f"{mechanism.__name__}, {names}", shape[1], contenders)
    if options.device == "cpu":
        model = Dates(options)
        contenders = [Contender("by plan", model.by_plan, "unspool"), Contender("plain loop", model.by_plain_loop)]
        yield Case("translating dates, the whole model", sum(map(_steps, model.batches)), contenders)


def _steps(batch: dates.Batch) -> int:
    """Of the encoder and the decoder."""
    return int(batch.text_lengths.max() + batch.answer_lengths.max())


if __name__ == "__main__":
    main(__doc__, cases)
