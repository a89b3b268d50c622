"""Small cells that the tests share: each is the least that shows one thing."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import unspool


class Plus1(unspool.RNNCell):
    """Adds 1 to its inputs; its state counts steps. It has no weights."""

    def __init__(self, size: int = 5) -> None:
        super().__init__()
        self.state_size = self.output_size = size
        self.calls = 0

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        self.calls += 1
        return inputs + 1, state + 1


class Duck:
    """A cell by its looks alone: no module, no base class, TensorFlow's two-argument `zero_state`."""

    state_size = output_size = 3

    def zero_state(self, batch_size: int, dtype: torch.dtype) -> Tensor:
        return torch.zeros(batch_size, 3, dtype=dtype)

    def __call__(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.tanh(inputs + 0.5 * state)
        return state, state


class Pair(NamedTuple):
    """A namedtuple of two."""

    left: Any
    right: Any


class Nested(unspool.RNNCell):
    """Takes `{"x": [B, n], "image": [B, 2, n]}`, carries a nested state of several ranks, puts out a `Pair`."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n
        self.state_size = (n, {"map": torch.Size([2, n]), "level": torch.Size([])})
        self.output_size = Pair(n, [torch.Size([2, n])])
        self.mix = nn.Linear(n, n)

    def forward(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        vector, rest = state
        vector = torch.tanh(self.mix(inputs["x"]) + vector)
        image = torch.tanh(self.mix(inputs["image"]) * 0.5 + rest["map"] + vector[:, None])
        level = 0.5 * rest["level"] + image.mean((1, 2))
        new_state = (vector, {"map": image, "level": level})
        return Pair(vector + level[:, None], [image * 2]), new_state


class Returns(unspool.RNNCell):
    """Declares some sizes and returns what it is told to: for the checks of what a cell returns."""

    def __init__(self, state_size: Any, output_size: Any, step: Any) -> None:
        super().__init__()
        self.state_size, self.output_size, self.step = state_size, output_size, step

    def forward(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        return self.step(inputs, state)


class TenLines(unspool.RNNCell):
    """A user's cell."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units

    def build(self, input_size: int, **where: Any) -> None:
        self.mix = nn.Linear(input_size + self.state_size, self.output_size, **where)

    def forward(self, inputs: Any, state: Any) -> Any:
        state = torch.tanh(self.mix(torch.cat([inputs, state], 1)))
        return state, state
