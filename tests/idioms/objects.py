"""Objects that a step makes: of classes whose `__init__` or `__new__` is that of a base."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.idioms.table import idiom


class _Pair:
    def __init__(self, first: Tensor, second: Tensor) -> None:
        self.first, self.second = first, second


class _Gates(_Pair):
    def mixed(self, h: Tensor) -> Tensor:
        return self.first * h + (1 - self.first) * self.second


class _DeeperGates(_Gates):
    pass


class _Named(collections.namedtuple("_Named", "first second")):
    def mixed(self, h: Tensor) -> Tensor:
        return self.first * h + (1 - self.first) * self.second


class _Mixing:
    def mixed(self: Any, h: Tensor) -> Tensor:
        return self.first * h + (1 - self.first) * self.second


_Combined: Any = type("_Combined", (_Mixing, collections.namedtuple("_Base", "first second")), {})
"""Which is no attribute of any module under the name that its `__new__` has."""


@dataclass
class _Fields:
    first: Tensor


@dataclass
class _MoreFields(_Mixing, _Fields):
    second: Tensor


def _gated(cell: Any, x: Tensor, h: Tensor, kind: Any) -> Tensor:
    return kind(torch.sigmoid(cell.mixed(x, h)), torch.tanh(cell.mixed(x, -h))).mixed(h)


idiom("an object whose base is initialised", lambda cell, x, h: _gated(cell, x, h, _Gates))
idiom("an object whose base's base is initialised", lambda cell, x, h: _gated(cell, x, h, _DeeperGates))
idiom("a named tuple with methods", lambda cell, x, h: _gated(cell, x, h, _Named))
idiom("a named tuple combined with another class", lambda cell, x, h: _gated(cell, x, h, _Combined))
idiom("a dataclass with a base", lambda cell, x, h: _gated(cell, x, h, _MoreFields))
