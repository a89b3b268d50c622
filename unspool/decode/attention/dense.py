"""A product with a matrix that is made at first use."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.cells.building import Buildable
from unspool.cells.layer import check_units, check_width, glorot_uniform
from unspool.cells.unbuilt import UnbuiltWeight


class Dense(Buildable):
    """`inputs @ kernel`: a dense layer without a bias, as attention uses it.

    Args:
        units: the width N of the result.
        dtype: the dtype of the kernel; by default that of the first inputs.

    Weights: `kernel [D, N]`.

    >>> layer = Dense(3)
    >>> layer.build(5)
    >>> layer(torch.zeros(2, 7, 5)).shape
    torch.Size([2, 7, 3])
    """

    kernel: Tensor

    def __init__(self, units: int, dtype: torch.dtype | None = None) -> None:
        super().__init__(trainable=True, weight_dtype=dtype)
        self.units = check_units("units", units)
        self.declare_weights("kernel")

    @property
    def input_size(self) -> int | None:
        """The depth of the inputs; None until the kernel has a shape."""
        kernel = self.kernel
        return None if isinstance(kernel, UnbuiltWeight) else kernel.shape[0]

    @property
    def out_features(self) -> int:
        """The width of the result, by the name that `nn.Linear` gives it."""
        return self.units

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the kernel for inputs of that depth."""
        depth = check_width(input_size, "Dense")
        self.add_weight("kernel", (depth, self.units), glorot_uniform, **where)

    def forward(self, inputs: Tensor) -> Tensor:
        """The product, over the last axis of `inputs`."""
        return torch.matmul(inputs, self.kernel)

    def extra_repr(self) -> str:
        """Its sizes, for `print`."""
        return f"{self.input_size or '?'}, {self.units}"
