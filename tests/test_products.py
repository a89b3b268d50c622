"""Products of rows by a packed matrix, by the compiled library itself: every height of a strip, and edges of panels."""

from __future__ import annotations

import ctypes

import pytest
import torch

from unspool.engine.emit.cpp.libraries.kernels import Kernels
from unspool.engine.emit.cpp.libraries.runtime import Runtime

WIDTHS = [1, 4, 8, 16, 20, 32, 48, 100]
"""Less than a vector, whole vectors, whole panels, and parts of each, in either dtype and with vectors of any size."""
DEPTHS = [1, 40, 300]
"""The last is summed in blocks."""
UNTOUCHED = -7.0


@pytest.mark.compiled
@pytest.mark.parametrize("added", [False, True], ids=["alone", "added"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-13)])
def test_products_of_few_and_many_rows(dtype: torch.dtype, tolerance: float, added: bool) -> None:
    torch.manual_seed(0)
    multiply = Kernels("products", dtype).library().unspool_multiply
    multiply.restype = None
    for depth in DEPTHS:
        for width in WIDTHS:
            matrix = torch.randn(depth, width, dtype=dtype)
            panels = Runtime.get().pack(matrix)
            for rows in (1, 2, 3, 4, 5, 6, 7, 8, 19):
                left, bias = torch.randn(rows, depth, dtype=dtype), torch.randn(rows, width, dtype=dtype)
                out = torch.full((rows + 1, width + 3), UNTOUCHED, dtype=dtype)
                numbers = [rows, depth, width, left.data_ptr(), depth, panels.data_ptr()]
                numbers += [bias.data_ptr() if added else 0, width, out.data_ptr(), width + 3, 0, 1]
                multiply(*map(ctypes.c_int64, numbers))
                expected = left.double() @ matrix.double() + added * bias.double()
                # Rounding grows with the number of terms at most by its root, which are of size 1.
                bound = tolerance * depth**0.5
                torch.testing.assert_close(out[:rows, :width].double(), expected, rtol=0, atol=bound)
                assert torch.all(out[rows:] == UNTOUCHED)
                assert torch.all(out[:, width:] == UNTOUCHED)
