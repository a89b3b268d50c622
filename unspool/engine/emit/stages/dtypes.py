"""The dtypes of compiled code: how each language spells them, and which have products."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Dtype:
    """A dtype that a row's values may have.

    Args:
        cpp: its type in C++, of what is in memory.
        cuda: its type in CUDA kernels; None where torch computes it.
        products: whether the runtime of compiled loops multiplies matrices of it.
        computed: the dtype that C++ computes with; None if it is the same.
    """

    cpp: str
    cuda: str | None = None
    products: bool = False
    computed: torch.dtype | None = None


DTYPES = {
    torch.float32: Dtype("float", "float", products=True),
    torch.float64: Dtype("double", "double", products=True),
    torch.bfloat16: Dtype("unspool::bfloat16", products=True, computed=torch.float32),
    torch.float16: Dtype("unspool::float16", products=True, computed=torch.float32),
    torch.bool: Dtype("bool", "bool"),
    torch.uint8: Dtype("uint8_t"),
    torch.int8: Dtype("int8_t"),
    torch.int16: Dtype("int16_t"),
    torch.int32: Dtype("int32_t"),
    torch.int64: Dtype("int64_t", "long long"),
}
"""Halves, bfloat16 and float16, are stored as such and computed with as float32. They are rounded where they are
stored, where they become numbers of another dtype, and where the last bit matters (`lowering.decides`); not after every
operation, as torch does."""

HALVES = frozenset(dtype for dtype, each in DTYPES.items() if each.computed is not None)
"""Those that are computed with as another."""
MULTIPLIED = {dtype: each.cpp for dtype, each in DTYPES.items() if each.products}
"""Those with products: their types in C++."""


def computed(dtype: torch.dtype) -> torch.dtype:
    """The dtype that elements of `dtype` are computed with."""
    return DTYPES[dtype].computed or dtype


def kernel_name(name: str, dtype: torch.dtype) -> str:
    """The name of a kernel for a dtype, among those of `unspool::Kernels`."""
    return f"{name}_{MULTIPLIED[dtype].removeprefix('unspool::')}"
