"""Products of two things that every row has, in compiled loops: every way to lie in memory, sizes around the blocks."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.comparison import results, wanting_gradients
from tests.emitting import assert_compiled, assert_equals_interpreter, interpreter
from unspool import RNNCell, dynamic_rnn

pytestmark = pytest.mark.compiled

SIZES = [(1, 9, 1), (7, 2, 1), (1, 4, 8), (2, 5, 6)]
"""Rows of the left factor, what is summed over, columns of the right one."""


class Contracting(RNNCell):
    """All those products, of numbers from one state, either factor as it lies or transposed, in one head or two."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.state_size = self.output_size = 2 * heads * max(p * k + k * m for p, k, m in SIZES)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        found = torch.tanh(h + x)
        for (p, k, m), left_turned, right_turned in product(SIZES, (False, True), (False, True)):
            left = self._cut(h, (k, p) if left_turned else (p, k), 0)
            right = self._cut(h, (m, k) if right_turned else (k, m), p * k)
            left = left.transpose(-1, -2) if left_turned else left
            right = right.transpose(-1, -2) if right_turned else right
            found = found + torch.sin(left @ right).flatten(1).sum(1, keepdim=True) / 50  # lest it saturate
        h = torch.tanh(found)
        return h, h

    def _cut(self, h: Tensor, shape: tuple[int, int], start: int) -> Tensor:
        start *= self.heads
        size = self.heads * shape[0] * shape[1]
        return h[:, start : start + size].reshape(-1, self.heads, *shape).squeeze(1)


@pytest.mark.parametrize("heads", [1, 2])
def test_products_of_what_rows_have(heads: int) -> None:
    torch.manual_seed(0)
    cell = Contracting(heads)
    inputs = torch.randn(3, 4, cell.state_size, dtype=torch.float64).requires_grad_()
    state = wanting_gradients(torch.randn(3, cell.state_size, dtype=torch.float64))

    def loop(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> Any:
        return dynamic_rnn(cell, inputs, lengths, state, dtype)

    for lengths in (None, [4, 0, 2]):
        assert_compiled(cell, inputs, lengths, state, torch.float64)
        found = results(loop, cell, torch.float64, lengths, inputs, state)
        with interpreter():
            expected = results(loop, cell, torch.float64, lengths, inputs, state)
        assert_equals_interpreter(found, expected)
