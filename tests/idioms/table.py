"""How an entry of the table is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unspool import RNNCell

DEPTH, UNITS = 3, 4


class Step(RNNCell):
    """A cell of one function, with parts that the function uses."""

    def __init__(self, step: Callable[..., Tensor], **parts: Any) -> None:
        super().__init__()
        self.state_size = self.output_size = UNITS
        self.mix = nn.Linear(DEPTH + UNITS, UNITS)
        self.step = step
        for name, part in parts.items():
            setattr(self, name, part)

    def mixed(self, x: Tensor, h: Tensor) -> Tensor:
        """What most steps begin with."""
        return self.mix(torch.cat([x, h], 1))

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = self.step(self, x, h)
        return h, h


def vectors(batch: int, steps: int) -> Any:
    """Inputs."""
    return torch.randn(batch, steps, DEPTH)


@dataclass(frozen=True)
class Idiom:
    """An entry.

    Args:
        make: makes a cell, in torch's default dtype.
        inputs: makes inputs for a batch and a number of steps.
        dtypes: those that it is run in.
        draws: whether it draws random numbers, so that rows that have ended may change them.
    """

    make: Callable[[], Any]
    inputs: Callable[[int, int], Any] = vectors
    dtypes: tuple[torch.dtype, ...] = (torch.float64,)
    draws: bool = False


IDIOMS: dict[str, Idiom] = {}
REFUSED: dict[str, tuple[Idiom, str]] = {}
"""Those that decide by values, with the text of the line that does."""


def idiom(name: str, step: Callable[..., Tensor], inputs: Any = vectors, *, draws: bool = False, **parts: Any) -> None:
    """Adds a step; `parts` make what the cell has besides: a module, a tensor, a list."""
    add(name, lambda: Step(step, **{part: make() for part, make in parts.items()}), inputs, draws=draws)


def add(name: str, make: Callable[[], Any], inputs: Any = vectors, **options: Any) -> None:
    """Adds a cell."""
    assert name not in IDIOMS, name
    IDIOMS[name] = Idiom(make, inputs, **options)
