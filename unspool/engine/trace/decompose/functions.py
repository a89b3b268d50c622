"""Decompositions of torch's functions, where what they call is one operation, or looks at the number of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from unspool.engine.reasons import CannotPlanError, Code
from unspool.engine.trace.decompose.recurrent_layers import LAYERS
from unspool.engine.trace.decompose.row_numbers import RowNumbers
from unspool.engine.trace.decompose.sampling import grid_sample
from unspool.engine.trace.user_lines import line_now


def _einsum(*args: Any) -> Tensor:
    """In the order of its factors: to find a better one, opt_einsum wants all sizes as numbers."""
    with torch.backends.opt_einsum.flags(enabled=False):
        return torch.einsum(*args)


class OpenLayers(TorchFunctionMode):
    """Computes functions of torch's that are one operation, or look at the number of rows, by their equations."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = RowNumbers()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options: Any = kwargs or {}
        done, result = self._numbers.call(func, args, options)
        if not done:
            known: Any = FUNCTIONS.get(func, func)
            result = known(*args, **options)
            self._numbers.note(func, args, result)
        return result


def _softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """The tracer's own form lets a NaN gradient through where there is none to be."""
    return torch.where(x.abs() <= lambd, 0.0, x - torch.sign(x) * lambd)


def _bilinear(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product = _einsum("...i,kij,...j->...k", x, weight, y)
    return product if bias is None else product + bias


def _take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    if dim is None:
        x, indices, dim = x.flatten(), indices.flatten(), 0
    own: list[Any] = list(x.shape)
    other: list[Any] = list(indices.shape)
    dim %= len(own)
    # The number of rows, a symbol, is not stretched.
    both = [b if isinstance(a, int) and a == 1 else a for a, b in zip(own, other, strict=True)]
    x = x.expand([*both[:dim], own[dim], *both[dim + 1 :]])
    return x.gather(dim, indices.expand([*both[:dim], other[dim], *both[dim + 1 :]]))


def _cdist(x: Tensor, y: Tensor, p: float = 2.0, compute_mode: str = "") -> Tensor:
    apart: Any = x.unsqueeze(-2) - y.unsqueeze(-3)
    return apart.norm(p, -1)


def _instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Without the running means, which a step must not change.

    Raises:
        CannotPlanError: if it would.
    """
    each = (1, -1, *[1] * (x.dim() - 2))
    if use_input_stats and running_mean is None:
        variance, mean = torch.var_mean(x, tuple(range(2, x.dim())), correction=0, keepdim=True)
    elif not use_input_stats and running_mean is not None and running_var is not None:
        variance, mean = running_var.reshape(each), running_mean.reshape(each)
    elif use_input_stats:
        message = "instance_norm changes its running statistics, as it does not in eval()"
        raise CannotPlanError(Code.CHANGES, message, operation="instance_norm", line=line_now())
    else:
        raise ValueError("instance_norm has no running statistics, and is not to use those of its input")
    result = (x - mean) * torch.rsqrt(variance + eps)
    result = result if weight is None else result * weight.reshape(each)
    return result if bias is None else result + bias.reshape(each)


def _set_item(x: Tensor, index: Any, new: Any) -> None:
    """`x[mask] = new` as a selection: how many elements a mask picks, its values decide."""
    if isinstance(index, Tensor) and index.dtype is torch.bool and index.dim() and x.dim() >= index.dim():
        inner = x.dim() - index.dim()
        if not isinstance(new, Tensor) or new.dim() <= inner:
            mask = index.reshape(*index.shape, *[1] * inner)
            new = new.to(x.dtype) if isinstance(new, Tensor) else new
            x.copy_(torch.where(mask, new, x))
            return
    x[index] = new


def _numpy(x: Tensor, *args: Any, **options: Any) -> Any:
    """A single number as `item()` gives it: what has no values has no array either."""
    return x.item() if x.dim() == 0 else cast(Any, x).numpy(*args, **options)


def _product(func: Any) -> Callable[..., Any]:
    """A product of matrices; a sparse one that is not too large is multiplied by as a dense one."""

    def product(left: Tensor, right: Tensor, *more: Any, **options: Any) -> Tensor:
        if more or options or left.layout is torch.strided or left.numel() > MOST_DENSE:
            return func(left, right, *more, **options)
        return torch.matmul(left.to_dense(), right)

    return product


PRODUCTS = cast(tuple[Any, ...], (torch.sparse.mm, torch.mm, torch.matmul, Tensor.mm, Tensor.matmul))
MOST_DENSE = 1 << 24
"""Elements of a sparse matrix that is taken for a dense one."""

FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **LAYERS,
    F.softshrink: _softshrink,
    F.grid_sample: grid_sample,
    torch.einsum: _einsum,
    Tensor.__setitem__: _set_item,
    **{func: _product(func) for func in PRODUCTS},
    Tensor.__matmul__: _product(Tensor.matmul),
    Tensor.numpy: _numpy,
    F.bilinear: _bilinear,
    torch.bilinear: _bilinear,
    torch.take_along_dim: _take_along_dim,
    torch.cdist: _cdist,
    F.instance_norm: _instance_norm,
    torch.instance_norm: _instance_norm,
}
"""By function of torch, one that does the same by others."""
