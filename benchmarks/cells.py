"""Cells as a user would write them: one step of plain PyTorch, nothing about loops."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import unspool


class UserLSTM(unspool.RNNCell):
    """The LSTM as most people write it."""

    def __init__(self, depth: int, units: int) -> None:
        super().__init__()
        self.state_size, self.output_size = (units, units), units
        self.from_inputs, self.from_state = nn.Linear(depth, 4 * units), nn.Linear(units, 4 * units)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One step."""
        c, h = state
        i, f, g, o = (self.from_inputs(x) + self.from_state(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (c, h)


class SearchedCell(unspool.RNNCell):
    """A cell like those that architecture searches find (Zoph and Le, 2017): eight products, a tree of odd gates."""

    def __init__(self, depth: int, units: int) -> None:
        super().__init__()
        self.state_size, self.output_size = (units, units), units
        self.from_inputs, self.from_state = nn.Linear(depth, 8 * units), nn.Linear(units, 8 * units)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One step."""
        c, h = state
        xs, hs = self.from_inputs(x).chunk(8, 1), self.from_state(h).chunk(8, 1)
        a = torch.tanh(torch.sigmoid(xs[0] + hs[0]) * torch.relu(xs[1] + hs[1]))
        b = torch.sigmoid(torch.sigmoid(xs[2] + hs[2]) + torch.tanh(xs[3] * hs[3]))
        d = torch.tanh(torch.relu(xs[4] + hs[4]) * torch.tanh(xs[5] + hs[5]))
        e = torch.tanh(torch.sigmoid(xs[6] * hs[6]) + torch.tanh(xs[7] + hs[7]))
        c = (a + c) * b
        h = torch.tanh(c * torch.tanh(d + e))
        return h, (c, h)


class LayerNormLSTM(unspool.RNNCell):
    """An LSTM with layer normalisation of both products and of the memory (Ba et al., 2016), which no vendor has."""

    def __init__(self, depth: int, units: int) -> None:
        super().__init__()
        self.state_size, self.output_size = (units, units), units
        self.from_inputs = nn.Linear(depth, 4 * units)
        self.from_state = nn.Linear(units, 4 * units, bias=False)
        self.norm_inputs, self.norm_state, self.norm_memory = (nn.LayerNorm(n) for n in (4 * units, 4 * units, units))
        # With a scale of 1 for the state, any two runs part after some hundred steps: rounding grows from step to step.
        nn.init.constant_(self.norm_state.weight, 0.1)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One step."""
        c, h = state
        i, f, g, o = (self.norm_inputs(self.from_inputs(x)) + self.norm_state(self.from_state(h))).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(self.norm_memory(c))
        return h, (c, h)


class ResetAfterGRU(unspool.RNNCell):
    """The equations and weights of `nn.GRU`, which resets after the recurrent product, in three lines of one's own."""

    def __init__(self, depth: int, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.from_inputs, self.from_state = nn.Linear(depth, 3 * units), nn.Linear(units, 3 * units)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """One step."""
        (xr, xz, xn), (hr, hz, hn) = self.from_inputs(x).chunk(3, 1), self.from_state(h).chunk(3, 1)
        z = torch.sigmoid(xz + hz)
        h = (1 - z) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn) + z * h
        return h, h
