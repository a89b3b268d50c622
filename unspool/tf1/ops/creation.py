"""Tensors made of a few numbers: of one value, of steps, of indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from unspool.tf1.dtypes import as_dtype, bool_, float32, int32
from unspool.tf1.operations import apply, as_sizes, as_tensor, check_axis, ints, known_int, known_ints, same_dtype

__all__ = [
    "eye",
    "fill",
    "linspace",
    "one_hot",
    "ones",
    "ones_like",
    "sequence_mask",
    "zeros",
    "zeros_like",
]


def fill(dims: Any, value: Any, name: str | None = None) -> Any:
    """A tensor of that shape, with the same value everywhere."""
    sizes, given = as_sizes(dims), as_tensor(value)
    found = known_ints(sizes)
    return apply(
        "Fill",
        lambda s, v: v.expand(ints(s)).contiguous(),
        sizes,
        given,
        name=name,
        outputs=[(given.dtype, None if found is None else tuple(found))],
    )


def zeros(shape: Any, dtype: Any = float32, name: str | None = None) -> Any:
    """A tensor of zeros.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.zeros([2, 3]))
    array([[0., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    return _full("zeros", torch.zeros, shape, dtype, name)


def ones(shape: Any, dtype: Any = float32, name: str | None = None) -> Any:
    """A tensor of ones."""
    return _full("ones", torch.ones, shape, dtype, name)


def _full(kind: str, make: Any, shape: Any, dtype: Any, name: str | None) -> Any:
    wanted, sizes = as_dtype(dtype), as_sizes(shape)
    found = known_ints(sizes)
    dims = None if found is None else tuple(found)
    return apply(kind, lambda s: make(ints(s), dtype=wanted.torch), sizes, name=name, outputs=[(wanted, dims)])


def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Any:
    """Zeros in the shape of another tensor."""
    return _like("ZerosLike", torch.zeros_like, tensor, dtype, name or "zeros_like")


def ones_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Any:
    """Ones in the shape of another tensor."""
    return _like("OnesLike", torch.ones_like, tensor, dtype, name or "ones_like")


def _like(kind: str, make: Any, tensor: Any, dtype: Any, name: str | None) -> Any:
    wanted = None if dtype is None else as_dtype(dtype).torch
    return apply(kind, lambda x: make(x, dtype=wanted), tensor, name=name)


def range_(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Any:
    """The numbers from `start` up to `limit`, without it."""
    first, last = (0, start) if limit is None else (start, limit)
    given = [as_tensor(each, dtype) if dtype is not None else as_tensor(each) for each in (first, last, delta)]
    kind = (
        as_dtype(dtype)
        if dtype is not None
        else next((each.dtype for each in given if each.dtype.is_floating), given[0 if limit is not None else 1].dtype)
    )
    if dtype is None and any(each.dtype.name == "int64" for each in given) and kind is int32:
        kind = as_dtype("int64")
    values = [None if each.known is None or each.known.dtype == object else each.known[()] for each in given]
    count = None
    if None not in values:
        low, high, step = values
        if step == 0 or (high - low) / step < 0:  # pyright: ignore[reportOptionalOperand]
            raise ValueError(f"Range: there is no way from {low} to {high} by steps of {step}")
        count = len(np.arange(*values))
    return apply(
        "Range",
        lambda a, b, d: torch.arange(a.item(), b.item(), d.item(), dtype=kind.torch),
        *given,
        name=name,
        outputs=[(kind, (count,))],
    )


def linspace(start: Any, stop: Any, num: Any, name: str | None = None) -> Any:
    """So many numbers from `start` to `stop`, with equal steps."""
    first, last = same_dtype("LinSpace", start, stop)
    number = as_tensor(num)
    count = known_int(number)

    def steps(a: torch.Tensor, b: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        if int(n) < 1:
            raise ValueError(f"num must be at least 1, but is {int(n)}")
        inner = a + (b - a) / max(int(n) - 1, 1) * torch.arange(int(n) - 1, dtype=a.dtype)
        return torch.cat([inner, (b if int(n) > 1 else a).reshape(1)])

    return apply("LinSpace", steps, first, last, number, name=name, outputs=[(first.dtype, (count,))])


def eye(
    num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = float32, name: str | None = None
) -> Any:
    """The identity matrix, or a batch of them."""
    wanted, batch = as_dtype(dtype), as_sizes([] if batch_shape is None else batch_shape)
    sizes = [as_tensor(num_rows), as_tensor(num_rows if num_columns is None else num_columns)]

    def make(rows: torch.Tensor, columns: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        return torch.eye(int(rows), int(columns), dtype=wanted.torch).expand(*batch.tolist(), -1, -1).contiguous()

    found = known_ints(batch)
    dims = None if found is None else (*found, *map(known_int, sizes))
    return apply("eye", make, *sizes, batch, name=name, outputs=[(wanted, dims)])


def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Any:
    """A new axis with one value at the index and another everywhere else; only the other past the depth.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.one_hot([1, 5], 3))
    array([[0., 1., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    given, width, place = as_tensor(indices), as_tensor(depth), -1 if axis is None else int(axis)
    if not given.dtype.is_integer:
        raise TypeError(f"OneHot: indices are whole numbers, but are {given.dtype.name}")
    values = [each for each in (on_value, off_value) if each is not None]
    wanted = as_dtype(dtype) if dtype is not None else same_dtype("OneHot", *values)[0].dtype if values else float32
    on = as_tensor(_cast(1, wanted) if on_value is None else on_value, wanted)
    off = as_tensor(_cast(0, wanted) if off_value is None else off_value, wanted)

    def compute(x: torch.Tensor, n: torch.Tensor, on: torch.Tensor, off: torch.Tensor) -> torch.Tensor:
        hot = x.unsqueeze(place)
        sizes = [1] * hot.dim()
        sizes[place] = int(n)
        places = torch.arange(int(n), device=x.device, dtype=x.dtype).reshape(sizes)
        return torch.where(hot == places, on, off)

    dims = None
    if given.dims is not None:
        check_axis("OneHot", place, len(given.dims) + 1)
        where = place % (len(given.dims) + 1)
        dims = (*given.dims[:where], known_int(width), *given.dims[where:])
    return apply("OneHot", compute, given, width, on, off, name=name or "one_hot", outputs=[(wanted, dims)])


def _cast(number: int, dtype: Any) -> Any:
    return bool(number) if dtype.is_bool else number


def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = bool_, name: str | None = None) -> Any:
    """Whether each place is before the length: `mask[..., k] = k < lengths[...]`.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.sequence_mask([1, 3], 3, tf.int32))
    array([[1, 0, 0],
           [1, 1, 1]], dtype=int32)
    """
    given, wanted = as_tensor(lengths), as_dtype(dtype)
    most = [] if maxlen is None else [as_tensor(maxlen)]

    def compute(x: torch.Tensor, *bound: torch.Tensor) -> torch.Tensor:
        width = int(bound[0]) if bound else int(x.max()) if x.numel() else 0
        return (torch.arange(width, device=x.device) < x.unsqueeze(-1)).to(wanted.torch)

    width = known_int(most[0]) if most else None
    dims = None if given.dims is None else (*given.dims, width)
    return apply("SequenceMask", compute, given, *most, name=name, outputs=[(wanted, dims)])
