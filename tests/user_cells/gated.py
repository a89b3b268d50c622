"""LSTMs and GRUs as users write them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import unspool

# -- LSTMs -------------------------------------------------------------------------------------------------------------


class LSTMTwoLinears(unspool.RNNCell):
    """The LSTM with one matrix for the inputs and one for the state, gates in torch's order."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.state_size, self.output_size = (units, units), units
        self.of_x = nn.Linear(input_size, 4 * units)
        self.of_h = nn.Linear(units, 4 * units)

    def forward(self, x: Tensor, state: Any) -> Any:
        h, c = state
        i, f, g, o = (self.of_x(x) + self.of_h(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (h, c)


class LayerNormLSTM(unspool.RNNCell):
    """The LSTM with layer normalisation of both pre-activations and of the memory."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.state_size, self.output_size = (units, units), units
        self.of_x = nn.Linear(input_size, 4 * units, bias=False)
        self.of_h = nn.Linear(units, 4 * units)
        self.norm_x, self.norm_h, self.norm_c = nn.LayerNorm(4 * units), nn.LayerNorm(4 * units), nn.LayerNorm(units)

    def forward(self, x: Tensor, state: Any) -> Any:
        h, c = state
        gates = self.norm_x(self.of_x(x)) + self.norm_h(self.of_h(h))
        i, f, g, o = gates.chunk(4, dim=-1)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(self.norm_c(c))
        return h, (h, c)


class PeepholeProjection(unspool.RNNCell):
    """The LSTM with peepholes and a projection, written naively: a matrix a gate, inputs and state side by side."""

    def __init__(self, input_size: int, units: int, projected: int) -> None:
        super().__init__()
        self.state_size, self.output_size = {"c": units, "h": projected}, projected
        self.i = nn.Linear(input_size + projected, units)
        self.f = nn.Linear(input_size + projected, units)
        self.g = nn.Linear(input_size + projected, units)
        self.o = nn.Linear(input_size + projected, units)
        self.peep_i, self.peep_f, self.peep_o = (nn.Parameter(0.5 * torch.randn(units)) for _ in range(3))
        self.project = nn.Linear(units, projected, bias=False)

    def forward(self, x: Tensor, state: Any) -> Any:
        c = state["c"]
        both = torch.cat([x, state["h"]], 1)
        i = torch.sigmoid(self.i(both) + self.peep_i * c)
        f = torch.sigmoid(self.f(both) + self.peep_f * c)
        c = f * c + i * torch.tanh(self.g(both))
        o = torch.sigmoid(self.o(both) + self.peep_o * c)
        h = self.project(o * torch.tanh(c))
        return h, {"c": c, "h": h}


class OutputHead(unspool.RNNCell):
    """An LSTM whose output is the log-probabilities of a small network on top of it."""

    def __init__(self, input_size: int, units: int, classes: int) -> None:
        super().__init__()
        self.lstm = LSTMTwoLinears(input_size, units)
        self.state_size, self.output_size = self.lstm.state_size, classes
        self.head = nn.Sequential(nn.Linear(units, units), nn.ReLU(), nn.Linear(units, classes))

    def forward(self, x: Tensor, state: Any) -> Any:
        h, state = self.lstm(x, state)
        return F.log_softmax(self.head(h), dim=-1), state


class ConvLSTM(unspool.RNNCell):
    """The LSTM of images: its one matrix is a convolution."""

    def __init__(self, channels_in: int, channels: int) -> None:
        super().__init__()
        image = torch.Size([channels, 4, 4])
        self.state_size, self.output_size = (image, image), image
        self.gates = nn.Conv2d(channels_in + channels, 4 * channels, 3, padding=1)

    def forward(self, x: Tensor, state: Any) -> Any:
        h, c = state
        i, f, g, o = self.gates(torch.cat([x, h], 1)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return h, (h, c)


class TorchLSTMCell(unspool.RNNCell):
    """torch's own cell inside, with a residual connection around it."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.state_size, self.output_size = (units, units), units
        self.cell = nn.LSTMCell(units, units)

    def forward(self, x: Tensor, state: Any) -> Any:
        h, c = self.cell(x, state)
        return x + h, (h, c)


# -- GRUs --------------------------------------------------------------------------------------------------------------


class MinimalGRU(unspool.RNNCell):
    """A GRU without a reset gate, its parts slices of one product; built at first use."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units

    def build(self, input_size: int) -> None:
        self.both = nn.Linear(input_size + self.state_size, 2 * self.state_size)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        n = self.state_size
        z = self.both(torch.cat([x, h], -1))
        update, candidate = torch.sigmoid(z[:, :n]), torch.tanh(z[:, n:])
        h = (1 - update) * h + update * candidate
        return h, h


class NNGRUCopy(unspool.RNNCell):
    """The equations of `nn.GRU`, which resets after the recurrent product."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.ih = nn.Linear(input_size, 3 * units)
        self.hh = nn.Linear(units, 3 * units)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        xr, xz, xn = self.ih(x).chunk(3, 1)
        hr, hz, hn = self.hh(h).chunk(3, 1)
        r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        h = (1 - z) * n + z * h
        return h, h


class EmbeddingIds(unspool.RNNCell):
    """Token ids `[B, 1]`, embedded, into a GRU that resets before its product."""

    def __init__(self, vocabulary: int, depth: int, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.embed = nn.Embedding(vocabulary, depth)
        self.gates = nn.Linear(depth + units, 2 * units)
        self.candidate = nn.Linear(depth + units, units)

    def forward(self, ids: Tensor, h: Tensor) -> Any:
        x = self.embed(ids.squeeze(-1))
        r, z = torch.sigmoid(self.gates(torch.cat([x, h], 1))).chunk(2, 1)
        candidate = torch.tanh(self.candidate(torch.cat([x, r * h], 1)))
        h = z * h + (1 - z) * candidate
        return h, h
