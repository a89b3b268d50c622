"""Rows gathered and cleared in larger units: the same bits as element by element, however they lie."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from unspool.engine.memory.gathering import clear, gather

DTYPES = [torch.bool, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.complex128]
SHAPES = [(), (0,), (1,), (2,), (3,), (4,), (6,), (2, 4), (16,)]
PLACES = torch.tensor([4, 0, 0, 2, 1, 4, 3])


def bits(shape: tuple[int, ...], dtype: torch.dtype, offset: int) -> Tensor:
    """Rows of random bits, NaN among them, that begin so many elements into their memory."""
    size = torch.Size(shape).numel()
    if dtype == torch.bool:
        return (torch.rand(size + offset) < 0.5)[offset:].view(shape)
    random = torch.randint(-128, 128, ((size + offset) * dtype.itemsize,), dtype=torch.int8)
    return random.view(dtype)[offset:].view(shape)


def same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and raw(one).equal(raw(other))


def raw(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).clone().view(torch.uint8)


@pytest.mark.parametrize("offset", [0, 1, 2])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_are_gathered_bit_by_bit(dtype: torch.dtype, shape: tuple[int, ...], offset: int) -> None:
    leaf = bits((5, *shape), dtype, offset)
    expected = leaf[PLACES]
    assert same(gather(leaf, PLACES), expected)
    out = bits((7, *shape), dtype, 2 - offset)
    assert gather(leaf, PLACES, out) is out
    assert same(out, expected)


@pytest.mark.parametrize("offset", [0, 1, 2])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_are_cleared_and_others_stay_bit_by_bit(dtype: torch.dtype, shape: tuple[int, ...], offset: int) -> None:
    rows, where = bits((5, *shape), dtype, offset), torch.tensor([True, False, False, True, False])
    expected = rows.clone()
    expected[where] = 0
    assert clear(rows, where) is rows
    assert same(rows, expected)
