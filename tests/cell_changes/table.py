"""How an entry of the table is written: a cell, and what is done to it between two runs."""

from __future__ import annotations

import sys
import textwrap
import types
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unspool import RNNCell

BATCH, STEPS, UNITS = 2, 3, 3


@dataclass(frozen=True)
class Stage:
    """A cell as it is now, and how it is run. An entry may as well yield the cell alone.

    Args:
        cell: the cell.
        alike: whether the plain loop's results are those of the stage before, to the last bit.
        dtype: the dtype of inputs, state and outputs.
        batch: the rows.
        wanted: whether inputs and state want gradients.
        containers: puts the initial state into the cell's containers.
        reset: called before every run: what the step itself moves on is as it was.
        tolerance: the greatest difference, if it is not that of another order of summation in `dtype`.
    """

    cell: Any
    alike: bool = False
    dtype: torch.dtype = torch.float64
    batch: int = BATCH
    wanted: bool = True
    containers: Callable[[Tensor], Any] = lambda state: state
    reset: Callable[[], Any] = lambda: None
    tolerance: float | None = None


Stages = Generator[Any, None, None]
Story = Callable[[pytest.MonkeyPatch], Stages]


@dataclass(frozen=True)
class Change:
    """An entry.

    Args:
        story: yields a cell, changes something that its step reads, yields it again, and so on. The results of the
            plain loop must be others each time, but for stages that say they are alike. What is done to globals goes
            through the `MonkeyPatch`, which undoes it.
        may_refuse: whether the cell may run in the plain loop from the start. Others have to be planned as long as
            nothing is changed: a guard that refuses everything is no guard.
    """

    story: Story
    may_refuse: bool = False


CHANGES: dict[str, Change] = {}


def change(story: Story) -> Story:
    """Puts an entry into the table, under its name."""
    return _entered(story, Change(story))


def unseen(story: Story) -> Story:
    """An entry whose change may be out of any guard's sight, so that the cell may be refused: its text says why."""
    assert story.__doc__, f"{story.__name__} has to say why it may be refused"
    return _entered(story, Change(story, may_refuse=True))


def _entered(story: Story, entry: Change) -> Story:
    name = story.__name__.replace("_", " ").strip()
    assert name not in CHANGES, name
    CHANGES[name] = entry
    return story


class Leaky(RNNCell):
    """A leaky unit; entries differ in what its activation reads."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        self.state_size = self.output_size = UNITS
        self.mix = nn.Linear(2 * UNITS, UNITS, dtype=torch.float64)
        for name, value in attributes.items():
            setattr(self, name, value)

    def act(self, t: Tensor) -> Tensor:
        return torch.tanh(t)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = 0.5 * h + self.act(self.mix(torch.cat([x, h], 1)))
        return h, h


def made(act: Any, **attributes: Any) -> Any:
    """A cell of a class of its own, whose activation is `act(self, t)`."""
    return type("Cell", (Leaky,), {"act": act})(**attributes)


def module(patch: pytest.MonkeyPatch, name: str, source: str, **values: Any) -> Any:
    """A module of the user's with that text, imported."""
    new = types.ModuleType(name)
    vars(new).update(values)
    exec(compile(textwrap.dedent(source), f"<{name}>", "exec"), vars(new))
    patch.setitem(sys.modules, name, new)
    return new
