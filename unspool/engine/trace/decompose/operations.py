"""Decompositions of operations, by others, while a step is traced.

Derivatives are, so that the factors of one that do not depend on what is carried can leave the loop; and norms, so that
only the part of one that needs the state stays in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import torch._decomp
from torch import Tensor, fx
from torch._ops import OpOverload

from unspool.engine.ops.table import is_pointwise, op_of
from unspool.engine.trace.graph import aten, calls

_decomp: Any = torch._decomp
"""Whose functions are declared with bare Callables."""


def _product_and_sum(added: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`addmm`; torch's own decomposition would leave half precision and enter it again on the way."""
    product = torch.mm(left, right)
    return (added if beta == 1 else added * beta) + (product if alpha == 1 else product * alpha)


def _sigmoid_backward(d: Tensor, y: Tensor) -> Tensor:
    wide = torch.promote_types(d.dtype, torch.float32)
    y = y.to(wide)
    return (d.to(wide) * (y * (1 - y)).conj_physical()).to(d.dtype)


def _tanh_backward(d: Tensor, y: Tensor) -> Tensor:
    wide = torch.promote_types(d.dtype, torch.float32)
    y = y.to(wide)
    return (d.to(wide) * (1 - y * y).conj_physical()).to(d.dtype)


def _elu_backward(d: Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, given: Tensor) -> Tensor:
    """With NaN for NaN, which torch's own decomposition takes for a positive number."""
    wide = torch.promote_types(d.dtype, torch.float32)
    x = given.to(wide)
    below = x + alpha * scale if is_result else alpha * scale * torch.exp(x * input_scale)
    factor = torch.where(x > 0, scale, below * input_scale)
    return (d.to(wide) * factor).to(d.dtype)


def _layer_norm(
    x: Tensor, shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """By torch's own decomposition, with mean and deviation as exact as it computes: on a CPU it would round halves."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    result, mean, rstd = _decomp.decomposition_table[aten.native_layer_norm.default](wide, shape, weight, bias, eps)
    return result.to(x.dtype), mean, rstd


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
    return result.to(x.dtype), mean.reshape(rows, groups), rstd.reshape(rows, groups)


def _multinomial(weights: Tensor, samples: int, replacement: bool = False, *, generator: Any = None) -> Tensor:
    """A race of exponential clocks, the numbers that torch draws too: they do not depend on the weights."""
    if generator is not None or (replacement and samples > 1):
        return NotImplemented
    raced = weights / _with_rows_in_front(weights).exponential_(1).reshape(weights.shape)
    return raced.argmax(-1, keepdim=True) if samples == 1 else raced.topk(samples).indices


def _with_rows_in_front(like: Tensor) -> Tensor:
    """An empty tensor with as many entries, those of a row apart from the rows, `[rows, entries, ...]`: for draws."""
    size: Any = like.shape[0]
    times: Any = cast(Any, size).node.expr.as_coeff_Mul()[0] if isinstance(size, torch.SymInt) else 1
    if times == 1 or not times.is_Integer:
        return torch.empty_like(like)
    shape: list[Any] = [size // int(times), int(times), *like.shape[1:]]
    return like.new_empty(shape)


def _normal(mean: Any, deviation: Any, *, generator: Any = None) -> Tensor:
    """As torch draws them: standard ones first, so that the numbers are the same."""
    if generator is not None:
        return NotImplemented
    like: Tensor = deviation if isinstance(deviation, Tensor) else mean
    if isinstance(mean, Tensor) and isinstance(deviation, Tensor) and mean.shape != deviation.shape:
        like = torch.empty_like(mean + deviation)
    return torch.randn_like(like) * deviation + mean


def _bernoulli(likely: Tensor, *, generator: Any = None) -> Tensor:
    """By a uniform number in double precision, which torch draws too."""
    if generator is not None or likely.device.type != "cpu":
        return NotImplemented
    return (torch.rand(likely.shape, dtype=torch.float64) < likely).to(likely.dtype)


def _squeeze(x: Tensor) -> Tensor:
    """Of all axes of size 1; the rows are not one of them, even if there is only one."""
    sizes: list[Any] = list(x.shape)
    return torch.squeeze(x, tuple(dim for dim, size in enumerate(sizes) if isinstance(size, int) and size == 1))


def _index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return aten.index_put(x, [*[None] * (dim % x.dim()), index], source)


def _diagonal_backward(d: Tensor, sizes: Any, offset: int, dim1: int, dim2: int) -> Tensor:
    return torch.diagonal_scatter(d.new_zeros(sizes), d, offset, dim1, dim2)


def _unfold_backward(d: Tensor, sizes: Any, dim: int, size: int, step: int) -> Tensor:
    """Each entry of a window is added to the place that it came from."""
    dim %= len(sizes)
    places = torch.arange(d.shape[dim])[:, None] * step + torch.arange(size)
    windows = d.movedim(-1, dim + 1).flatten(dim, dim + 1)
    return torch.index_add(d.new_zeros(sizes), dim, places.flatten().to(d.device), windows)


def _padded(place: Callable[[int, int, int], list[int]]) -> Callable[..., Any]:
    """A padding by entries of the tensor itself, which `place` lists for an axis."""

    def pad(x: Tensor, padding: list[int]) -> Tensor:
        for k in range(len(padding) // 2):
            dim = x.dim() - 1 - k
            index = place(x.shape[dim], padding[2 * k], padding[2 * k + 1])
            x = x.index_select(dim, torch.tensor(index, device=x.device))
        return x

    return pad


def _unpadded(place: Callable[[int, int, int], list[int]]) -> Callable[..., Any]:
    """Its derivative."""

    def unpad(d: Tensor, x: Tensor, padding: list[int]) -> Tensor:
        for k in reversed(range(len(padding) // 2)):
            dim = x.dim() - 1 - k
            index = place(x.shape[dim], padding[2 * k], padding[2 * k + 1])
            zeros = d.new_zeros([*d.shape[:dim], x.shape[dim], *d.shape[dim + 1 :]])
            d = zeros.index_add(dim, torch.tensor(index, device=d.device), d)
        return d

    return unpad


_REFLECTION = (
    (aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default),
    (
        aten.reflection_pad1d_backward.default,
        aten.reflection_pad2d_backward.default,
        aten.reflection_pad3d_backward.default,
    ),
)
_REPLICATION = (
    (aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default),
    (
        aten.replication_pad1d_backward.default,
        aten.replication_pad2d_backward.default,
        aten.replication_pad3d_backward.default,
    ),
)


def _reflected(size: int, before: int, after: int) -> list[int]:
    return [*range(before, 0, -1), *range(size), *range(size - 2, size - 2 - after, -1)]


def _replicated(size: int, before: int, after: int) -> list[int]:
    return [*[0] * before, *range(size), *[size - 1] * after]


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    **_decomp.get_decompositions(
        [
            aten.baddbmm,
            aten.repeat,
            aten.rsub,
            aten.native_layer_norm_backward,
            aten.native_group_norm_backward,
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
    aten.squeeze.default: _squeeze,
    aten.diagonal_backward.default: _diagonal_backward,
    aten.unfold_backward.default: _unfold_backward,
    **{
        target: make(place)
        for place, axes in ((_reflected, _REFLECTION), (_replicated, _REPLICATION))
        for make, targets in zip((_padded, _unpadded), axes, strict=True)
        for target in targets
    },
    aten.index_copy.default: _index_copy,
    aten.multinomial.default: _multinomial,
    aten.bernoulli.default: _bernoulli,
    aten.normal.Tensor_Tensor: _normal,
    aten.normal.Tensor_float: _normal,
    aten.normal.float_Tensor: _normal,
    aten.sigmoid_backward.default: _sigmoid_backward,
    aten.tanh_backward.default: _tanh_backward,
    aten.elu_backward.default: _elu_backward,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_group_norm.default: _group_norm,
}
"""By operation, a function of tensors that does the same by simpler ones, or returns NotImplemented."""


def torchs_decomposition(target: Any) -> Callable[..., Any] | None:
    """What torch takes an operation apart by, if it does.

    Random numbers are drawn by the operation that draws them in the plain loop, so that a seed gives the same ones.
    """
    if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded in target.tags:
        return None
    operation = cast(Any, target)
    if operation.namespace == "prims":  # in which torch's decompositions end where they follow NumPy
        return operation.impl_aten
    return _decomp.decomposition_table.get(operation)


def without_form(graph: fx.Graph) -> set[Any]:
    """Operations in a graph of which our table knows nothing, and which torch can take apart."""
    unknown = {node.target for node in calls(graph) if op_of(node.target) is None and not is_pointwise(node.target)}
    return {target for target in unknown if torchs_decomposition(target) is not None}
