"""Sums over rows by the compiled runtime, however they are divided among threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from unspool import RNNCell, dynamic_rnn, explain
from unspool.engine.emit.cpp.libraries.runtime import Runtime
from unspool.engine.emit.cpp.part import BatchedSums

LEFTS = [(3,), (8, 16), (28, 150), (64, 300)]
"""Widths of left factors: less than a tile, whole tiles, parts of them, and more than stay in the cache together."""
WIDTHS = [1, 5, 33, 64, 96, 600]
"""Of the right one: fewer panels than threads, a part of one, as many to each thread, and some left over."""


@pytest.fixture(autouse=True)
def _as_many_threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.compiled
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("lefts", LEFTS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-13)])
def test_sums_of_products_over_rows(threads: int, lefts: tuple[int, ...], dtype: torch.dtype, tolerance: float) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    for rows in (1, 7, 300):
        for width in WIDTHS:
            right = torch.randn(rows, width, dtype=dtype)
            factors = [torch.randn(rows, each, dtype=dtype) for each in lefts]
            expected = [*(left.double().t() @ right.double() for left in factors), right.double().sum(0, keepdim=True)]
            found = [torch.full_like(each, torch.nan, dtype=dtype) for each in expected]
            totals = [torch.full((each,), torch.nan, dtype=torch.float64) for each in lefts]
            told = [(left.data_ptr(), left.shape[1], left.shape[1]) for left in factors]
            places = [sums.data_ptr() for sums in found]
            factors_and_ones = zip([*told, (0, 0, 1)], places, [*(each.data_ptr() for each in totals), 0], strict=True)
            Runtime.get().sums(right, [number for each, *where in factors_and_ones for number in (*each, *where)])
            expected += [left.double().sum(0) for left in factors]
            for one, other in zip([*found, *totals], expected, strict=True):
                # Rounding grows with the number of rows at most, and with the size of what is added.
                torch.testing.assert_close(one.double(), other, rtol=0, atol=tolerance * rows**0.5 * 4)


@pytest.mark.compiled
def test_rows_of_a_left_factor_are_summed_with_the_product() -> None:
    """The gradients of a weight that is stored by outputs, and of the bias beside it: one reading of the same rows."""
    torch.manual_seed(0)
    cell, x = Linear().double(), torch.randn(3, 6, 8, dtype=torch.float64)
    explanation = explain(cell, x, dtype=torch.float64)
    assert explanation.backward is not None
    assert explanation.backward.source.count("worker.summed[") == 1  # the other bias, which nothing is multiplied by
    output, _ = dynamic_rnn(cell, x, dtype=torch.float64)
    expected = torch.autograd.grad(by_hand(cell, x.transpose(0, 1)).sum(), [*cell.parameters()])
    torch.testing.assert_close(torch.autograd.grad(output.sum(), [*cell.parameters()]), expected)


class Linear(RNNCell):
    """torch's layer over inputs and state, and what a bias alone is added to."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = 8
        self.layer = nn.Linear(16, 8)
        self.bias = nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.layer(torch.cat([x, h], 1))) * torch.sigmoid(x + self.bias)
        return h, h


@pytest.mark.compiled
@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-13)])
def test_sums_of_products_of_heads(rows: int, dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    left, right = (torch.randn(rows, 3, size, dtype=dtype).transpose(0, 1) for size in (5, 40))
    for one, other in ((left, right), (left.contiguous(), right), (left, right.mT.contiguous().mT)):
        found = BatchedSums()(one, other)
        expected = one.double().mT @ other.double()
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance * rows**0.5 * 4)


class Heads(RNNCell):
    """Two heads with weights of their own, and one set of weights for all places of a row."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = 8
        self.heads = nn.Parameter(torch.randn(2, 4, 4) / 2)
        self.places = nn.Parameter(torch.randn(4, 4) / 2)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.einsum("bhi,hij->bhj", h.view(-1, 2, 4), self.heads)
        h = torch.tanh(torch.tanh(h) @ self.places + x.view(-1, 2, 4)).flatten(1)
        return h, h


@pytest.mark.compiled
def test_gradients_of_weights_of_heads_and_places_are_sums_over_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    cell, x = Heads().double(), torch.randn(3, 6, 8, dtype=torch.float64)
    expected = torch.autograd.grad(by_hand(cell, x.transpose(0, 1)).sum(), [*cell.parameters()])
    output, _ = dynamic_rnn(cell, x, dtype=torch.float64)
    for name in ("mm", "bmm"):
        monkeypatch.setattr(torch, name, lambda *_: pytest.fail("torch has nothing left to multiply"))
    torch.testing.assert_close(torch.autograd.grad(output.sum(), [*cell.parameters()]), expected)


def by_hand(cell: RNNCell, x: Tensor) -> Tensor:
    h, outputs = torch.zeros(3, 8, dtype=torch.float64), list[Tensor]()
    for each in x:
        output, h = cell(each, h)
        outputs.append(output)
    return torch.stack(outputs, 1)


@pytest.mark.compiled
def test_packed_matrices_are_where_the_matrix_is() -> None:
    with torch.device("meta"):  # as torch.set_default_device would have it
        packed = Runtime.get().pack(torch.eye(3, device="cpu"))
    assert packed.device.type == "cpu"
