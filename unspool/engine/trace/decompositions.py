"""Decompositions: composite operations that are taken apart while a step is traced.

Derivatives are, so that the factors of one that do not depend on what is carried can leave the loop; and norms, so that
only the part of one that needs the state stays in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._decomp import get_decompositions  # pyright: ignore[reportUnknownVariableType]  # its Callables are bare
from torch.overrides import TorchFunctionMode

from unspool.engine.trace.graph import aten


def _product_and_sum(added: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`addmm`; torch's own decomposition would leave half precision and enter it again on the way."""
    product = torch.mm(left, right)
    return (added if beta == 1 else added * beta) + (product if alpha == 1 else product * alpha)


def _lstm_cell(
    x: Tensor,
    state: tuple[Tensor, Tensor],
    w_x: Tensor,
    w_h: Tensor,
    b_x: Tensor | None = None,
    b_h: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    h, c = state
    i, f, g, o = (F.linear(x, w_x, b_x) + F.linear(h, w_h, b_h)).chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def _gru_cell(
    x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor | None = None, b_h: Tensor | None = None
) -> Tensor:
    x_r, x_z, x_n = F.linear(x, w_x, b_x).chunk(3, 1)
    h_r, h_z, h_n = F.linear(h, w_h, b_h).chunk(3, 1)
    z, n = torch.sigmoid(x_z + h_z), torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
    return n + z * (h - n)


def _softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """The tracer's own form lets a NaN gradient through where there is none to be."""
    return torch.where(x.abs() <= lambd, 0.0, x - torch.sign(x) * lambd)


class OpenCells(TorchFunctionMode):
    """Computes torch's own cells by their equations: on a GPU each is a kernel that nobody can look into."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known: dict[Any, Any] = {
            torch.lstm_cell: _lstm_cell,
            torch.gru_cell: _gru_cell,
            F.softshrink: _softshrink,
        }
        return known.get(func, func)(*args, **(kwargs or {}))


def _elu_backward(d: Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, given: Tensor) -> Tensor:
    """With NaN for NaN, which torch's own decomposition takes for a positive number."""
    wide = torch.promote_types(d.dtype, torch.float32)
    x = given.to(wide)
    below = x + alpha * scale if is_result else alpha * scale * torch.exp(x * input_scale)
    factor = torch.where(x > 0, scale, below * input_scale)
    return (d.to(wide) * factor).to(d.dtype)


def _group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, rows: int, channels: int, inner: int, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """As a layer norm is taken apart. Torch's own decomposition cancels large numbers, and looks into memory."""
    wide = torch.promote_types(x.dtype, torch.float32)
    grouped = x.to(wide).reshape(rows, groups, channels // groups, inner)
    variance, mean = torch.var_mean(grouped, (2, 3), correction=0, keepdim=True)
    rstd = torch.rsqrt(variance + eps)
    result = ((grouped - mean) * rstd).reshape(x.shape)
    each = (channels, *[1] * (x.dim() - 2))
    if weight is not None:
        result = result * weight.reshape(each)
    if bias is not None:
        result = result + bias.reshape(each)
    return result.to(x.dtype), mean.reshape(rows, groups).to(x.dtype), rstd.reshape(rows, groups).to(x.dtype)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    **get_decompositions(
        [
            aten.baddbmm,
            aten.repeat,
            aten.rsub,
            aten.native_layer_norm,
            aten.native_layer_norm_backward,
            aten.native_group_norm_backward,
            aten.sigmoid_backward,
            aten.tanh_backward,
            aten.threshold_backward,
            aten.hardtanh_backward,
            aten.hardsigmoid_backward,
            aten.hardswish_backward,
            aten.leaky_relu_backward,
            aten.gelu_backward,
            aten.silu_backward,
            aten.mish_backward,
            aten.softplus_backward,
            aten.log_sigmoid_backward,
            aten.native_dropout_backward,
            aten.select_backward,
        ]
    ),
    aten.addmm.default: _product_and_sum,
    aten.elu_backward.default: _elu_backward,
    aten.native_group_norm.default: _group_norm,
}
"""By operation, a function of tensors that does the same by simpler ones."""
