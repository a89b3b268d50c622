"""What labels, predictions and weights have to do with each other's shapes, as metrics and losses read them."""

from __future__ import annotations

from typing import Any

import torch

from unspool.tf1.dtypes import float32
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.array import squeeze
from unspool.tf1.ops.math import cast
from unspool.tf1.shapes import Dims, compatible, described, fit
from unspool.tf1.tensor import Tensor


def paired(labels: Any, predictions: Any) -> tuple[Tensor, Tensor]:
    """Both, the one with one axis more without its last, which must be of size 1; `ValueError` for two shapes."""
    wanted, found = as_tensor(labels), as_tensor(predictions)
    wanted, found = _alike(wanted, found), _alike(found, wanted)
    if not fit(wanted.dims, found.dims):
        raise ValueError(
            f"Shapes {described(found.dims)} and {described(wanted.dims)} are incompatible: predictions and labels "
            "must have one shape"
        )
    return wanted, found


def _alike(one: Tensor, other: Tensor) -> Tensor:
    """The first, without its last axis if the other has one less."""
    if one.dims is not None and (not one.dims or one.dims[-1] not in (1, None)):
        return one
    if one.dims is not None and other.dims is not None:
        return squeeze(one, [-1]) if len(one.dims) == len(other.dims) + 1 else one

    def compute(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.dim() != y.dim() + 1:
            return x
        if x.shape[-1] != 1:
            raise ValueError(f"Can not squeeze dim[-1], expected a dimension of 1, got {x.shape[-1]}")
        return x.squeeze(-1)

    return apply("remove_squeezable_dimensions", compute, one, other, outputs=[(one.dtype, None)])


def spread(weights: Any, values: Tensor) -> Tensor:
    """Weights as float32, one for each value.

    Args:
        weights: a scalar, or a tensor with as many axes as the values, of the same sizes or 1; a last axis of size 1
            may be missing, or too many.
        values: what is weighted.

    Raises:
        ValueError: if they do not fit; `InvalidArgumentError` in a run, if that is not known before.
    """
    given = cast(as_tensor(weights), float32)
    if given.dims is not None and values.dims is not None:
        check_weights(_ranked(given.dims, values.dims), values.dims)

    def compute(weight: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        shape: Any = _ranked(tuple(weight.shape), tuple(value.shape))
        check_weights(shape, tuple(value.shape))
        return weight.reshape(shape).expand(value.shape)

    return apply("broadcast_weights", compute, given, values, outputs=[(float32, values.dims)])


def ranked(weights: Any, values: Tensor) -> Tensor:
    """Weights as float32, a scalar or with as many axes as the values: as `spread`, but their sizes may be larger."""
    given = cast(as_tensor(weights), float32)
    dims: Dims = None
    if given.dims is not None and values.dims is not None:
        dims = _ranked(given.dims, values.dims)

    def compute(weight: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        shape: Any = _ranked(tuple(weight.shape), tuple(value.shape))
        return weight.reshape(shape)

    return apply("adjust_weights", compute, given, values, outputs=[(float32, dims)])


Shape = tuple[int | None, ...]


def _ranked(weights: Shape, values: Shape) -> Shape:
    """The shape of weights with as many axes as the values, or none."""
    if weights and len(weights) == len(values) + 1 and weights[-1] in (1, None):
        return weights[:-1]
    if weights and len(weights) == len(values) - 1:
        return (*weights, 1)
    if weights and len(weights) != len(values):
        raise _mistake(weights, values)
    return weights


def check_weights(weights: Dims, values: Dims) -> None:
    """`ValueError` if weights of a shape are neither a scalar nor one for each value, or for each along an axis."""
    if not weights or values is None:
        return
    pairs = zip(weights, values, strict=False)
    if len(weights) != len(values) or not all(a == 1 or compatible(a, b) for a, b in pairs):
        raise _mistake(weights, values)


def _mistake(weights: Shape, values: Shape) -> ValueError:
    return ValueError(
        f"weights can not be broadcast to values: their shape is {described(weights)}, that of the values "
        f"{described(values)}; they must be a scalar, or have as many axes, of the same sizes or 1"
    )
