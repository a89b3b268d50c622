"""Linear maps as most papers initialise them: Glorot's uniform for inputs, orthogonal for the state."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unspool.cells.layer import glorot_uniform


def of_inputs(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    """A linear map with Glorot's uniform weights (Glorot and Bengio, 2010) and a bias of zeros."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    glorot(layer)
    return layer


def of_state(units: int, blocks: int = 1, *, bias: bool = False) -> nn.Linear:
    """A linear map of the state to `blocks` times its width, each block orthogonal (Saxe et al., 2014)."""
    layer = nn.Linear(units, blocks * units, bias=bias)
    for block in layer.weight.detach().chunk(blocks):
        nn.init.orthogonal_(block)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def uniform(*shape: int, low: float, high: float) -> nn.Parameter:
    """A parameter drawn uniformly from [low, high]."""
    return nn.Parameter(torch.empty(*shape).uniform_(low, high))


def normal(*shape: int, deviation: float) -> nn.Parameter:
    """A parameter drawn from a Gaussian around 0."""
    return nn.Parameter(torch.randn(*shape) * deviation)


def fill(layer: nn.Linear, weight: Tensor | float, bias: Tensor | float | None = None) -> nn.Linear:
    """The layer, with these values in its weights and, if given, its bias."""
    with torch.no_grad():
        layer.weight.copy_(torch.as_tensor(weight))
        if bias is not None:
            layer.bias.copy_(torch.as_tensor(bias))
    return layer


def glorot(*layers: nn.Linear) -> None:
    """Fills weights by Glorot's uniform and biases with zeros."""
    for layer in layers:
        glorot_uniform(layer.weight)
        if layer.bias is not None:  # pyright: ignore[reportUnnecessaryComparison]: torch's annotation forgets bias=False
            nn.init.zeros_(layer.bias)
