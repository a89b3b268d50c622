"""Attributes that a step writes before it reads them, and weights that are reached by other ways than names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from tests.idioms.table import DEPTH, UNITS, Step, add, idiom


def _scratch(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    cell.z = torch.sigmoid(cell.mixed(x, h))
    cell.kept = {"h": h}
    return cell.z * cell.kept["h"] + (1 - cell.z)


class Spiking(nn.Module):
    """A layer that keeps what it computed last, as spiking libraries do."""

    def __init__(self) -> None:
        super().__init__()
        self.v: Any = None

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        self.v = 0.9 * h + x
        return torch.sigmoid(10 * (self.v - 0.5))


class DropConnect(Step):
    """Weights that are drawn once a sequence."""

    def __init__(self) -> None:
        super().__init__(lambda cell, x, h: torch.tanh(x @ cell.of_x + h @ cell.dropped))
        self.raw = nn.Parameter(torch.randn(UNITS, UNITS))
        self.of_x = nn.Parameter(torch.randn(DEPTH, UNITS))
        self.dropped: Any = None

    def start_sequence(self) -> None:
        torch.manual_seed(3)
        self.dropped = nn.functional.dropout(self.raw, 0.5)


class SpectralNorm(Step):
    """A weight divided by its largest singular value, which power iterations find once a sequence."""

    def __init__(self) -> None:
        super().__init__(lambda cell, x, h: torch.tanh(cell.mixed(x, h) + h @ cell.normed))
        self.raw = nn.Parameter(torch.randn(UNITS, UNITS))
        self.normed: Any = None

    def start_sequence(self) -> None:
        left = torch.ones(UNITS, dtype=self.raw.dtype)
        with torch.no_grad():
            for _ in range(3):
                right = nn.functional.normalize(self.raw.t() @ left, dim=0)
                left = nn.functional.normalize(self.raw @ right, dim=0)
        self.normed = self.raw / (left @ self.raw @ right)


def _by_dict(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(x @ cell.table["x"] + h @ cell.table["h"])


class ByDict(Step):
    def __init__(self) -> None:
        super().__init__(_by_dict)
        self.of_x, self.of_h = nn.Parameter(torch.randn(DEPTH, UNITS)), nn.Parameter(torch.randn(UNITS, UNITS))
        self.table = {"x": self.of_x, "h": self.of_h}


class ByList(Step):
    def __init__(self) -> None:
        super().__init__(lambda cell, x, h: torch.tanh(x @ cell.pair[0] + h @ cell.pair[1]))
        self.of_x, self.of_h = nn.Parameter(torch.randn(DEPTH, UNITS)), nn.Parameter(torch.randn(UNITS, UNITS))
        self.pair = [self.of_x, self.of_h]


idiom("an attribute that is written before it is read", _scratch)
idiom("a layer that keeps its potential", lambda cell, x, h: cell.spike(cell.mixed(x, h), h), spike=Spiking)
add("weights drawn once a sequence", DropConnect)
add("a spectral norm taken once a sequence", SpectralNorm)
add("weights by a dict", ByDict)
add("weights by a list", ByList)
idiom(
    "an orthogonal parametrisation",
    lambda cell, x, h: torch.tanh(cell.mixed(x, h) + cell.turn(h)),
    turn=lambda: parametrizations.orthogonal(nn.Linear(UNITS, UNITS, bias=False)),
)
idiom(
    "a spectral parametrisation in eval",
    lambda cell, x, h: torch.tanh(cell.mixed(x, h) + cell.small(h)),
    small=lambda: parametrizations.spectral_norm(nn.Linear(UNITS, UNITS)).eval(),
)
idiom(
    "a weight norm",
    lambda cell, x, h: torch.tanh(cell.mixed(x, h) + cell.normed(h)),
    normed=lambda: parametrizations.weight_norm(nn.Linear(UNITS, UNITS)),
)
