"""What tests of the proof share: a cell with any step, and what it means that it keeps rows apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from unspool import RNNCell, dynamic_rnn
from unspool.engine import Request
from unspool.engine.execute import plain
from unspool.engine.plans.plan import Plan
from unspool.engine.run import prepare

UNITS = 4


class Step(RNNCell):
    """A step of the caller's, `(cell, x, h) -> new h`, with weights for it to use."""

    def __init__(self, step: Callable[..., Any]) -> None:
        super().__init__()
        self.state_size = self.output_size = UNITS
        self.step = step
        self.w = nn.Parameter(torch.randn(UNITS, UNITS, dtype=torch.float64) / 2)
        self.b = nn.Parameter(torch.randn(UNITS, dtype=torch.float64))

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        new = self.step(self, x, h)
        return new if isinstance(new, tuple) else (new, new)


def rows_of(batch_size: int, *more: int) -> Tensor:
    return torch.randn(batch_size, *more, UNITS, dtype=torch.float64)


def planned(cell: RNNCell) -> Plan:
    """The plan of a cell, with all gradients wanted; raises if there is none."""
    x, h = rows_of(3, 4).requires_grad_(), rows_of(4).requires_grad_()
    return prepare(Request(cell, x, LENGTHS, h, torch.float64))[0].plan


LENGTHS = torch.tensor([1, 3, 0, 2])


def equals_the_plain_loop(cell: RNNCell) -> None:
    """Outputs, final states and every gradient, with lengths that are not in order.

    In float64, up to the order of sums: a few steps of numbers around 1.
    """
    x, h = rows_of(3, 4).requires_grad_(), rows_of(4).requires_grad_()
    sources = [x, h, *cell.parameters()]

    def with_gradients(outputs: Tensor, state: Tensor) -> list[Any]:
        loss = outputs.sin().sum() + state.cos().sum()
        return [outputs, state, *torch.autograd.grad(loss, sources, allow_unused=True, materialize_grads=True)]

    torch.manual_seed(2)  # for steps that draw
    expected = with_gradients(*plain.run(cell, x, LENGTHS, h, torch.float64))
    torch.manual_seed(2)
    found = with_gradients(*dynamic_rnn(cell, x, LENGTHS, h, time_major=True))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def keeps_rows_apart(cell: RNNCell, batch_size: int) -> None:
    """A row alone gives what it gives among others, and changing a row changes no other.

    In float64, up to how products of other shapes round; drawn steps multiply a few times what they are given.
    """
    x, h = rows_of(batch_size), rows_of(batch_size)
    with torch.no_grad():
        together = cell(x, h)
        alone = [cell(x[row : row + 1], h[row : row + 1]) for row in range(batch_size)]
        apart = tuple(torch.cat(pieces) for pieces in zip(*alone, strict=True))
        torch.testing.assert_close(together, apart, rtol=1e-9, atol=1e-9)
        for row in range(batch_size):
            others = torch.arange(batch_size) != row
            changed = cell(x.clone().index_fill_(0, torch.tensor([row]), 0.7), h + 2 * ~others[:, None])
            for before, after in zip(together, changed, strict=True):
                torch.testing.assert_close(after[others], before[others], rtol=1e-9, atol=1e-9)
