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


def _counts_rows(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    cell.batch_size, cell.shape = x.size(0), h.shape
    noise = torch.zeros(cell.batch_size, UNITS, dtype=h.dtype)
    return torch.tanh(cell.mixed(x, h) + noise).view(cell.shape)


class Spiking(nn.Module):
    """A layer that keeps what it computed last, as spiking libraries do."""

    def __init__(self) -> None:
        super().__init__()
        self.v: Any = None

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        self.v = 0.9 * h + x
        return torch.sigmoid(10 * (self.v - 0.5))


class Buffered(nn.Module):
    """A layer that keeps its potential in a buffer, whatever it held before."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("v", torch.zeros(0), persistent=False)
        self.others: tuple[nn.Module, ...] = ()

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        self.v = 0.9 * h + sum((other(x) for other in self.others), x)
        self.fired = torch.sigmoid(10 * (self.v - 0.5))
        return self.fired * self.v


class Remembering(nn.Module):
    """A layer that keeps what it is told to in a dict of its own, and shows it as attributes."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, Any] = {"v": 0.0}

    def __getattr__(self, name: str) -> Any:
        kept = self.__dict__.get("_kept", {})
        return kept[name] if name in kept else super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        kept = self.__dict__.get("_kept", {})
        if name in kept:
            kept[name] = value
        else:
            super().__setattr__(name, value)

    def forward(self, x: Tensor) -> Tensor:
        self.v = 0.9 * self.v + x
        return torch.sigmoid(10 * (self.v - 0.5))


def _remembered(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    cell.layer.v = h
    return cell.layer(cell.mixed(x, h)) + cell.layer.v


def _noted(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    cell.notes["z"] = torch.sigmoid(cell.mixed(x, h))
    return cell.notes["z"] * h + (1 - cell.notes["z"])


def _stepped_before() -> Step:
    """A cell whose attributes hold tensors of a batch that it has seen."""
    cell = Step(_scratch)
    cell(torch.zeros(2, DEPTH), torch.zeros(2, UNITS))
    return cell


def _closed_over() -> Step:
    """A step that keeps its potential in a module that is no part of the cell."""
    layer, mix = Buffered().double(), nn.Linear(DEPTH + UNITS, UNITS).double()

    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(cell.mixed(x, h) + layer(mix(torch.cat([x, h], 1)), h))

    return Step(step)


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
idiom("the number of rows in an attribute", _counts_rows)
idiom("a layer that keeps its potential", lambda cell, x, h: cell.spike(cell.mixed(x, h), h), spike=Spiking)
idiom("a buffer that is written before it is read", lambda cell, x, h: cell.spike(cell.mixed(x, h), h), spike=Buffered)
idiom("attributes that a layer keeps in a dict", _remembered, layer=Remembering)
idiom("an entry of a dict that is written before it is read", _noted, notes=dict)
add("attributes of a step that was run before", _stepped_before)
add("a buffer behind a closure", _closed_over)
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
