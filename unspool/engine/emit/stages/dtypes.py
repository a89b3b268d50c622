"""The dtypes of compiled code: how each language spells them, and which have products."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Dtype:
    """A dtype that a row's values may have.

    Args:
        cpp: its type in C++.
        cuda: its type in CUDA kernels; None where torch computes it.
        products: whether the runtime of compiled loops multiplies matrices of it.
    """

    cpp: str
    cuda: str | None = None
    products: bool = False


DTYPES = {
    torch.float32: Dtype("float", "float", products=True),
    torch.float64: Dtype("double", "double", products=True),
    torch.bool: Dtype("bool", "bool"),
    torch.uint8: Dtype("uint8_t"),
    torch.int8: Dtype("int8_t"),
    torch.int16: Dtype("int16_t"),
    torch.int32: Dtype("int32_t"),
    torch.int64: Dtype("int64_t", "long long"),
}
"""Half precision is not among them: one would need to know where torch rounds."""

MULTIPLIED = {dtype: each.cpp for dtype, each in DTYPES.items() if each.products}
"""Those with products: their types in C++, with which the names of the runtime's functions end."""
