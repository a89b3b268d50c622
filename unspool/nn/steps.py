"""One step of a layer, by torch's equations: cells that the recurrent layers run through time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")


class Step(nn.Module):
    """A cell of one layer in one direction. Its weights are the layer's, and are given to it before every sequence.

    Args:
        layer: the layer that it is a step of.
    """

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    weight_hr: Tensor | None

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.output_size: int = layer.proj_size or layer.hidden_size
        self.state_size: Any = self.output_size
        for name in _NAMES:
            self.register_parameter(name, None)
        self._names = (*_NAMES[: 4 if layer.bias else 2], *_NAMES[4:] * bool(layer.proj_size))

    def take(self, weights: Sequence[Tensor]) -> None:
        """Reads these weights from now on. They may be no parameters: `functional_call` puts any tensor there."""
        parameters: Any = self._parameters
        parameters.update(zip(self._names, weights, strict=True))


class LSTMStep(Step):
    """i, f, o = sigmoid(...), g = tanh(...), c = f c + i g, h = o tanh(c), then projected, if the layer does that."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__(layer)
        self.state_size = (self.output_size, layer.hidden_size)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One step from `(h, c)`."""
        h, c = state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh)
        i, f, g, o = gates.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        if self.weight_hr is not None:
            h = F.linear(h, self.weight_hr)
        return h, (h, c)


class GRUStep(Step):
    """r, z = sigmoid(...), n = tanh(W x + r (U h + b)), h = (1 - z) n + z h: the reset gate after the product."""

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """One step from `h`."""
        x_r, x_z, x_n = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, 1)
        h_r, h_z, h_n = F.linear(h, self.weight_hh, self.bias_hh).chunk(3, 1)
        z, n = torch.sigmoid(x_z + h_z), torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
        h = n + z * (h - n)
        return h, h


class TanhStep(Step):
    """h = tanh(W x + U h + b)."""

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """One step from `h`."""
        h = torch.tanh(F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh))
        return h, h


class ReluStep(Step):
    """h = max(0, W x + U h + b)."""

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """One step from `h`."""
        h = torch.relu(F.linear(x, self.weight_ih, self.bias_ih) + F.linear(h, self.weight_hh, self.bias_hh))
        return h, h


STEPS: dict[str, type[Step]] = {"LSTM": LSTMStep, "GRU": GRUStep, "RNN_TANH": TanhStep, "RNN_RELU": ReluStep}
"""By what a layer of torch's calls its mode."""
