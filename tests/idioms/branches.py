"""Checks on values, which change nothing, and branches by values, which do."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Normal

from tests.idioms.table import REFUSED, UNITS, Idiom, Step, idiom


def _asserts(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    assert (h == h).all(), "a state that is no number"
    return torch.tanh(cell.mixed(x, h))


def _raises(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    new = torch.tanh(cell.mixed(x, h))
    if torch.isnan(new).any():
        raise ValueError("a new state that is no number")
    return new


def _asserts_sizes_and_values(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    assert h.shape[1] == UNITS
    assert torch.all(h.abs() <= 1e6)
    assert x.isfinite().all().item()
    return torch.tanh(cell.mixed(x, h))


def _mean_of_a_distribution(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    around = Normal(cell.mixed(x, h), 0.1 + h.abs())
    return torch.tanh(around.mean + 0.1 * around.log_prob(h))


def _resets_where_any(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    first = x[:, :1] > 0.5
    if first.any():
        h = torch.where(first, torch.zeros_like(h), h)
    return torch.tanh(cell.mixed(x, h))


def _multiplies_unless_all(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    first = x[:, :1] > 0.5
    if not torch.all(~first):
        h = h * (~first)
    return torch.tanh(cell.mixed(x, h))


def _another_law_for_all(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    if h.mean() > 0:
        return torch.tanh(cell.mixed(x, h))
    return torch.sigmoid(cell.mixed(x, h))


def _until_small(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    while h.abs().max() > 1:
        h = h / 2
    return torch.tanh(cell.mixed(x, h))


idiom("an assertion on values", _asserts)
idiom("an error on values", _raises)
idiom("assertions on sizes and values", _asserts_sizes_and_values)
idiom("a distribution that validates", _mean_of_a_distribution)
REFUSED["a reset where any row begins"] = Idiom(lambda: Step(_resets_where_any)), "if first.any():"
REFUSED["a product unless all rows go on"] = Idiom(lambda: Step(_multiplies_unless_all)), "if not torch.all(~first):"
REFUSED["another law for all rows"] = Idiom(lambda: Step(_another_law_for_all)), "if h.mean() > 0:"
REFUSED["as often as it takes"] = Idiom(lambda: Step(_until_small)), "while h.abs().max() > 1:"
