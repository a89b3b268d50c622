"""Reductions along axes: `tf.reduce_sum` and its relatives, `tf.argmax`, norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from unspool.tf1.dtypes import as_dtype, int64
from unspool.tf1.operations import (
    FRACTIONS,
    NUMBERS,
    TRUTHS,
    apply,
    as_axis,
    as_tensor,
    check_axis,
    check_takes,
    known_ints,
)
from unspool.tf1.ops.making import documented
from unspool.tf1.shapes import Dims
from unspool.tf1.tensor import Operators, Tensor

__all__ = [
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "norm",
    "reduce_all",
    "reduce_any",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
]

Reduce = Callable[[torch.Tensor, list[int], bool], torch.Tensor]


def reduction(kind: str, function: Reduce, what: str, takes: str) -> Callable[..., Any]:
    """A reduction over one axis, several, or all."""

    def call(
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: bool | None = None,
    ) -> Any:
        chosen = axis if reduction_indices is None else reduction_indices
        keep = bool(keep_dims if keepdims is None else keepdims)

        def reduce(value: torch.Tensor, *fed: torch.Tensor) -> torch.Tensor:
            axes = _axes(kind, fed[0].reshape(-1).tolist() if fed else chosen, value.dim())
            return function(value, axes, keep) if axes else value

        if isinstance(input_tensor, torch.Tensor):
            return reduce(input_tensor)
        given = as_tensor(input_tensor)
        check_takes(kind, given, takes)
        fed: list[Tensor] = []
        if isinstance(chosen, Operators):
            numbers = known_ints(chosen)
            fed = [as_tensor(chosen)] if numbers is None or None in numbers else []
            chosen = None if fed else numbers
        dims = _where_fed(given.dims, keep) if fed else reduced(kind, given.dims, chosen, keep)
        return apply(kind, reduce, given, *fed, name=name, outputs=[(given.dtype, dims)])

    return documented(call, kind, what)


def reduced(kind: str, dims: Dims, axis: Any, keep: bool) -> Dims:
    """The shape after a reduction; `ValueError` if there is no such axis."""
    if dims is None:
        return () if axis is None and not keep else None
    axes = range(len(dims)) if axis is None else listed(axis)
    for each in axes:
        check_axis(kind, each, len(dims))
    gone = {each % len(dims) for each in axes}
    return tuple(1 if place in gone else size for place, size in enumerate(dims) if keep or place not in gone)


def _where_fed(dims: Dims, keep: bool) -> Dims:
    return (None,) * len(dims) if keep and dims is not None else None


def listed(axis: Any) -> list[int]:
    """One axis or several, as a list."""
    return [int(each) for each in axis] if getattr(axis, "ndim", 1) and hasattr(axis, "__iter__") else [int(axis)]


def _axes(kind: str, axis: Any, rank: int) -> list[int]:
    chosen = list(range(rank)) if axis is None else listed(axis)
    for each in chosen:
        check_axis(kind, each, rank)
    if len({each % rank for each in chosen if rank}) < len(chosen):
        raise ValueError(f"{kind}: an axis is named twice in {chosen}")
    return chosen


def _prod(value: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    for axis in sorted((each % value.dim() for each in axes), reverse=True):
        value = value.prod(axis, keepdim=keep, dtype=value.dtype)
    return value


def _mean(value: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    if value.is_floating_point() or value.is_complex():
        return value.mean(axes, keep)
    count = math.prod(value.shape[each] for each in axes)
    return torch.div(value.sum(axes, keep, dtype=value.dtype), count, rounding_mode="trunc")


def _extreme(function: Any, of_none: Callable[[torch.dtype], Any]) -> Reduce:
    """The largest or the smallest; of no elements, what every other one is beyond."""

    def reduce(value: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
        if all(value.shape[each] for each in axes):
            return function(value, axes, keep)
        return torch.full_like(value.sum(axes, keep, dtype=value.dtype), of_none(value.dtype))

    return reduce


def _lowest(dtype: torch.dtype) -> Any:
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def _highest(dtype: torch.dtype) -> Any:
    return math.inf if dtype.is_floating_point else torch.iinfo(dtype).max


def _logsumexp(value: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    # Taken by hand, so that its gradient is a softmax of small numbers: torch's loses digits where they are large.
    largest = _extreme(torch.amax, _lowest)(value.detach(), axes, True)
    largest = torch.where(largest.isfinite(), largest, 0)
    return (value - largest).exp().sum(axes, keep).log() + largest.reshape(value.sum(axes, keep).shape)


reduce_sum = reduction("Sum", lambda v, a, k: v.sum(a, k, dtype=v.dtype), "The sum over axes, or of all.", NUMBERS)
reduce_mean = reduction("Mean", _mean, "The mean over axes, or of all.", NUMBERS)
reduce_max = reduction("Max", _extreme(torch.amax, _lowest), "The largest over axes, or of all.", NUMBERS)
reduce_min = reduction("Min", _extreme(torch.amin, _highest), "The smallest over axes, or of all.", NUMBERS)
reduce_prod = reduction("Prod", _prod, "The product over axes, or of all.", NUMBERS)
reduce_any = reduction("Any", torch.any, "Whether any is true, over axes or of all.", TRUTHS)
reduce_all = reduction("All", torch.all, "Whether all are true, over axes or of all.", TRUTHS)
reduce_logsumexp = reduction("LogSumExp", _logsumexp, "The logarithm of the sum of exponentials.", FRACTIONS)


def _arg(kind: str, function: Callable[..., torch.Tensor], what: str) -> Callable[..., Any]:
    def call(
        input: Any,
        axis: Any = None,
        name: str | None = None,
        dimension: int | None = None,
        output_type: Any = int64,
    ) -> Any:
        chosen = as_axis(next((each for each in (axis, dimension) if each is not None), 0))
        wanted = as_dtype(output_type)
        fed = [chosen] if isinstance(chosen, Tensor) else []

        def compute(value: torch.Tensor, *fed: torch.Tensor) -> torch.Tensor:
            return function(value, int(fed[0] if fed else chosen)).to(wanted.torch)  # pyright: ignore[reportArgumentType]

        if isinstance(input, torch.Tensor):
            return compute(input)
        given = as_tensor(input)
        dims = None if given.dims is None else (None,) * (len(given.dims) - 1)
        if not isinstance(chosen, Tensor) and dims != ():  # of a vector, the axis is looked at in a run
            dims = reduced(kind, given.dims, chosen, False)
        return apply(kind, compute, given, *fed, name=name, outputs=[(wanted, dims)])

    return documented(call, kind, what)


argmax = _arg("ArgMax", torch.argmax, "Where along an axis the largest is; the first if there are several.")
argmin = _arg("ArgMin", torch.argmin, "Where along an axis the smallest is; the first if there are several.")


def cumsum(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Any:
    """The sums of all up to each, along an axis."""

    def compute(value: torch.Tensor) -> torch.Tensor:
        check_axis("Cumsum", axis, value.dim())
        turned = value.flip(axis) if reverse else value
        total = turned.cumsum(axis, dtype=value.dtype)
        if exclusive and value.shape[axis]:
            total = total.narrow(axis, 0, value.shape[axis] - 1)
            total = torch.cat([torch.zeros_like(turned.narrow(axis, 0, 1)), total], axis)
        return total.flip(axis) if reverse else total

    return apply("Cumsum", compute, x, name=name)


def cumprod(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Any:
    """The products of all up to each, along an axis.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.cumprod([2, 3, 4], exclusive=True))
    array([1, 2, 6], dtype=int32)
    """

    def compute(value: torch.Tensor) -> torch.Tensor:
        check_axis("Cumprod", axis, value.dim())
        turned = value.flip(axis) if reverse else value
        if exclusive and value.shape[axis]:
            before = turned.narrow(axis, 0, value.shape[axis] - 1)
            turned = torch.cat([torch.ones_like(turned.narrow(axis, 0, 1)), before], axis)
        product = turned.cumprod(axis, dtype=value.dtype)
        return product.flip(axis) if reverse else product

    return apply("Cumprod", compute, x, name=name)


def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool = False,
    name: str | None = None,
    keep_dims: bool | None = None,
) -> Any:
    """The norm of a tensor, or of its vectors along an axis: Euclidean, or of another order; two axes are a matrix."""
    keep = bool(keepdims if keep_dims is None else keep_dims)
    axes = None if axis is None else listed(axis)
    euclidean = ord in ("euclidean", "fro")

    def compute(x: torch.Tensor) -> torch.Tensor:
        if axes is not None and len(axes) == 2 and not euclidean:
            return torch.linalg.matrix_norm(x, ord, axes, keep)
        return torch.linalg.vector_norm(x, 2.0 if euclidean else float(ord), axes, keep)

    if isinstance(tensor, torch.Tensor):
        return compute(tensor)
    given = as_tensor(tensor)
    return apply("norm", compute, given, name=name, outputs=[(given.dtype, reduced("norm", given.dims, axes, keep))])


def as_axes(axis: Any) -> list[int] | None:
    """Axes that must be known when the graph is built, or None for all."""
    if isinstance(axis, Operators):
        numbers = known_ints(axis)
        if numbers is None or None in numbers:
            raise ValueError(f"the axes must be known when the graph is built, but are {axis!r}")
        axis = numbers
    return None if axis is None else listed(axis)
