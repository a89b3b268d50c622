"""Sums of what a scatter has written to: each pair of a way to write and a way to add up, in one step."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import unspool
from tests.by_hand import BATCH, TIME, check

PLACES, DEPTH = 4, 3

pytestmark = pytest.mark.compiled


def _places(x: Tensor) -> Tensor:
    """A place for each row, by its values."""
    return (x[:, 0].detach() * 3).long().abs() % PLACES


def _turned(x: Tensor, width: int) -> Tensor:
    return _places(x)[:, None, None].expand(-1, width, DEPTH)


WRITES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "scatter": lambda x, s: s.scatter(1, _turned(x, 1), x[:, None]),
    "scatter_add": lambda x, s: s.scatter_add(1, _turned(x, 2), torch.stack([x, 2 * x], 1)),
    "index_put": lambda x, s: s.index_put((torch.arange(x.shape[0]), _places(x)), x),
    "index_copy": lambda x, s: s.index_copy(1, torch.tensor([2]), x[:, None]),
    "sort": lambda x, s: (s + x[:, None]).sort(1).values,  # whose adjoint writes by places, and then sums
    "topk": lambda x, s: (s + x[:, None]).topk(PLACES, 1).values,
    "max": lambda x, s: s - (s + x[:, None]).max(1, keepdim=True).values,
}
SUMS: dict[str, Callable[[Tensor], Tensor]] = {
    "of the places": lambda n: n.sum(1),
    "of the places, turned": lambda n: n.mT.sum(2),
    "taken away": lambda n: n - n.sum(1, keepdim=True),
    "by einsum": lambda n: torch.einsum("bpd->bd", n),
    "of all": lambda n: n.sum((1, 2)),
}


@pytest.mark.parametrize("writes", WRITES)
@pytest.mark.parametrize("sums", SUMS)
def test_a_sum_waits_for_what_is_written(writes: str, sums: str) -> None:
    torch.manual_seed(0)

    def step(x: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        new = WRITES[writes](x, s)
        return SUMS[sums](new), new

    inputs = torch.randn(BATCH, TIME, DEPTH, dtype=torch.float64)
    check(unspool.cell(step), step, inputs, torch.randn(BATCH, PLACES, DEPTH, dtype=torch.float64), [])
