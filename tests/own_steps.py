"""Steps as people have them already, for the tests of `unspool.cell`."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tests.by_hand import BATCH, TIME

DEPTH, UNITS = 3, 5


def inputs(*shape: int) -> Tensor:
    return torch.randn(BATCH, TIME, *(shape or (DEPTH,)), dtype=torch.float64)


def zeros(*shape: int) -> Tensor:
    return torch.randn(BATCH, *(shape or (UNITS,)), dtype=torch.float64)


class Step(nn.Module):
    """One matrix for a step's two operands, with some order of arguments and results."""

    def __init__(self, form: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mix, self.form = nn.Linear(DEPTH + UNITS, UNITS, dtype=torch.float64), form

    def new(self, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(self.mix(torch.cat([x, h], 1)))

    def forward(self, *given: Any) -> Any:
        match self.form:
            case "x, h -> h":
                return self.new(*given)
            case "h, x -> h":
                return self.new(given[1], given[0])
            case "x, (h, c) -> (h, c)":
                x, (h, c) = given
                return self.new(x, h), c + h
            case "x, h, c -> h, c":
                x, h, c = given
                return self.new(x, h), c + h
            case "x, h, c -> out, h, c":
                x, h, c = given
                return h - c, self.new(x, h), c + h
            case "x, h, c -> h, c, out":
                x, h, c = given
                return self.new(x, h), c + h, h - c
            case "x, h -> h, out":
                x, h = given
                return self.new(x, h), 2 * h
            case "x, h -> a, b, h":
                x, h = given
                return 2 * h, x * 3, self.new(x, h)
            case _:
                x, h = given
                return 2 * h, self.new(x, h)


class Pair(NamedTuple):
    h: Any
    c: Any
