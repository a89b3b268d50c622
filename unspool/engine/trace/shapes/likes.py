"""What tensors without values are like, and what the most common operations make of them, without asking torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload


class Size(NamedTuple):
    """A multiple of the number of rows, with something added."""

    times: int
    added: int


class Like(NamedTuple):
    """What a strided tensor is but for its values: sizes are numbers, or a `Size`."""

    shape: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any
    dtype: torch.dtype
    device: torch.device


def made_of(func: Any, *args: Any) -> Like | None:
    """What an operation makes of its arguments; None if it is not one of a few, or for torch to tell."""
    rule = RULES.get(func)
    return rule(*args) if rule is not None else None


def pointwise(func: Any, args: Sequence[Any], options: Any) -> tuple[Any, Any]:
    """What the result of a pointwise operation is like but for its dtype, and all that decides on that.

    Both are None if this is for torch to tell. If the axes of each argument lie in memory in the order in which they
    are written, those of the result do, without gaps.
    """
    likes = [each for each in args if isinstance(each, Like)] if _is_pointwise(func) else []
    if not likes:
        return None, None
    largest = max(likes, key=lambda each: (len(each.shape), *[_many(size) for size in each.shape]))
    stride = dense(largest.shape)
    for each in likes:
        sizes = largest.shape[len(largest.shape) - len(each.shape) :]
        fits = all(own == other or own == 1 for own, other in zip(each.shape, sizes, strict=True))
        if not fits or not _in_order(each.stride) or each.device != largest.device:
            return None, None
    told = [(each.dtype, not each.shape) if isinstance(each, Like) else each for each in args]
    if stride is None:
        return None, None
    return largest._replace(stride=stride, offset=0), (func, tuple(told), options)


def dense(shape: Sequence[Any]) -> tuple[int, ...] | None:
    """The strides of a tensor without gaps; None if the number of rows is in them, or it has no elements."""
    strides: list[int] = []
    stride = 1
    for k, size in enumerate(reversed(shape)):
        strides.append(stride)
        if type(size) is not int:
            return tuple(reversed(strides)) if k == len(shape) - 1 else None
        if size == 0:
            return None
        stride *= size
    return tuple(reversed(strides))


def _in_order(stride: Sequence[Any]) -> bool:
    if not all(type(each) is int and each > 0 for each in stride):
        return False
    return all(one >= other for one, other in pairwise(stride))


def _many(size: Any) -> int:
    return size if type(size) is int else 1 << 40


@cache
def _is_pointwise(func: OpOverload[Any, Any]) -> bool:
    return torch.Tag.pointwise in func.tags


def _product(left: Like, right: Like) -> Like | None:
    if len(left.shape) != 2 or len(right.shape) != 2:
        return None
    shape = (left.shape[0], right.shape[1])
    fits = left.shape[1] == right.shape[0] and left.dtype == right.dtype and left.device == right.device
    stride = dense(shape) if fits else None
    return left._replace(shape=shape, stride=stride, offset=0) if stride else None


def _slice(x: Like, dim: Any = (int, 0), start: Any = None, end: Any = None, step: Any = (int, 1)) -> Like | None:
    given: list[Any] = [None if each is None else each[1] for each in (start, end, step)]
    axis = _axis(dim, x)
    if axis is None or not all(type(each) is int for each in (x.shape[axis], x.stride[axis], x.offset, given[2])):
        return None
    if given[2] < 1 or not all(each is None or type(each) is int for each in given):
        return None
    taken = range(x.shape[axis])[slice(*given)]
    shape, stride = [*x.shape], [*x.stride]
    shape[axis], stride[axis] = len(taken), x.stride[axis] * given[2]
    return x._replace(shape=tuple(shape), stride=tuple(stride), offset=x.offset + taken.start * x.stride[axis])


def _joined(parts: Sequence[Like], dim: Any = (int, 0)) -> Like | None:
    first = parts[0]
    axis = _axis(dim, first)
    if axis is None or not all(len(each.shape) == len(first.shape) and _in_order(each.stride) for each in parts):
        return None
    around = {(each.shape[:axis], each.shape[axis + 1 :], each.dtype, each.device) for each in parts}
    sizes = [each.shape[axis] for each in parts]
    if len(around) > 1 or not all(type(size) is int for size in sizes):
        return None
    shape = (*first.shape[:axis], sum(sizes), *first.shape[axis + 1 :])
    stride = dense(shape)
    return first._replace(shape=shape, stride=stride, offset=0) if stride else None


def _transposed(x: Like) -> Like | None:
    return x._replace(shape=x.shape[::-1], stride=x.stride[::-1]) if len(x.shape) <= 2 else None


def _itself(x: Like) -> Like:
    return x


def _axis(dim: Any, like: Like) -> int | None:
    axes = len(like.shape)
    return dim[1] % axes if type(dim[1]) is int and -axes <= dim[1] < axes else None


aten = torch.ops.aten
RULES: dict[Any, Callable[..., Like | None]] = {
    aten.mm.default: _product,
    aten.cat.default: _joined,
    aten.slice.Tensor: _slice,
    aten.t.default: _transposed,
    aten.detach.default: _itself,
}
"""By operation, what it makes of its arguments; a number comes with its type."""
