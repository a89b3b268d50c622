"""Sums over rows by the compiled runtime, however they are divided among threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from unspool.engine.emit.cpp.libraries.runtime import Runtime

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
            told = [[left.data_ptr(), left.shape[1], left.shape[1]] for left in factors]
            told.append([0, 0, 1])  # ones
            Runtime.get().sums(
                right, [number for each, sums in zip(told, found, strict=True) for number in (*each, sums.data_ptr())]
            )
            for one, other in zip(found, expected, strict=True):
                # Rounding grows with the number of rows at most, and with the size of what is added.
                torch.testing.assert_close(one.double(), other, rtol=0, atol=tolerance * rows**0.5 * 4)


@pytest.mark.compiled
def test_packed_matrices_are_where_the_matrix_is() -> None:
    with torch.device("meta"):  # as torch.set_default_device would have it
        packed = Runtime.get().pack(torch.eye(3, device="cpu"))
    assert packed.device.type == "cpu"
