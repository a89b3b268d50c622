"""Shape functions by hand, for operations whose own would specialise on the symbolic number of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._meta_registrations import calc_conv_nd_return_shape

aten = torch.ops.aten


def _convolved(x: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> Tensor:
    stride, padding, dilation, transposed, output_padding, groups = options
    more = output_padding if transposed else None
    return x.new_empty(calc_conv_nd_return_shape(x, weight, stride, padding, dilation, transposed, groups, more))


def _convolved_back(
    d: Tensor, x: Tensor, weight: Tensor, bias_sizes: list[int] | None, *options: Any
) -> tuple[Tensor | None, ...]:
    made = (x.new_empty(x.shape), weight.new_empty(weight.shape), weight.new_empty(bias_sizes or [weight.shape[0]]))
    return tuple(each if wanted else None for each, wanted in zip(made, options[-1], strict=True))


SHAPES: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: _convolved,
    aten.convolution_backward.default: _convolved_back,
}
"""By operation, what it makes of tensors without values."""
