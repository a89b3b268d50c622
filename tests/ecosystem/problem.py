"""What each library trains, a model that adds up sequences of different lengths; and its training in plain torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from unspool import RNN, LSTMCell

DEPTH, UNITS, ROWS = 2, 8, 4
RATE = 0.05

Example = tuple[Tensor, Tensor]
"""A sequence `[time, depth]`, and the sum of all its numbers."""
Batch = tuple[Tensor, Tensor, Tensor]
"""Padded sequences, their lengths, and their sums."""


class Adder(nn.Module):
    """The sum of a sequence, from the state after its last step; its cell is built at first use."""

    def __init__(self, units: int = UNITS) -> None:
        super().__init__()
        self.rnn = RNN(LSTMCell(units), initial_state="learned")
        self.top = nn.Linear(units, 1)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        _, state = self.rnn(x, lengths=lengths)
        return self.top(state.h)


def examples(count: int = 16) -> list[Example]:
    """Sequences of 1 to 9 steps."""
    generator = torch.Generator().manual_seed(1)
    lengths = [1 + k % 9 for k in range(count)]
    sequences = [torch.randn(length, DEPTH, generator=generator) / 2 for length in lengths]
    return [(each, each.sum().reshape(1)) for each in sequences]


def collate(batch: Sequence[Example]) -> Batch:
    """A batch, padded."""
    sequences = [each for each, _ in batch]
    lengths = torch.tensor([len(each) for each in sequences])
    return pad_sequence(sequences, batch_first=True), lengths, torch.stack([total for _, total in batch])


def loader() -> DataLoader[Any]:
    """All examples, in batches, always in the same order."""
    return DataLoader(examples(), batch_size=ROWS, collate_fn=collate)  # pyright: ignore[reportArgumentType]


def built_adder() -> Adder:
    """An Adder with all its weights, always the same."""
    torch.manual_seed(0)
    model = Adder()
    model.rnn.materialize(torch.zeros(1, 1, DEPTH))
    return model


def train(model: nn.Module, epochs: int) -> list[float]:
    """Trains in plain torch; returns the loss of each epoch."""
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    losses: list[float] = []
    for _ in range(epochs):
        total = 0.0
        for x, lengths, sums in loader():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x, lengths), sums)
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total)
    return losses


def check_same_weights(model: nn.Module, expected: nn.Module) -> None:
    """The weights of two models are equal: the same operations, in the same order, made them."""
    torch.testing.assert_close(dict(model.named_parameters()), dict(expected.named_parameters()), rtol=0, atol=0)


def check_same_results(model: nn.Module, expected: nn.Module) -> None:
    """Two models compute the same."""
    x, lengths, _ = next(iter(loader()))
    with torch.no_grad():
        torch.testing.assert_close(model(x, lengths), expected(x, lengths), rtol=0, atol=0)
