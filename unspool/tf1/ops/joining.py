"""Tensors put together, taken apart, repeated and turned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from unspool.tf1.dtypes import float32
from unspool.tf1.operations import (
    apply,
    as_axis,
    as_sizes,
    as_tensor,
    check_axis,
    constant,
    ints,
    known_ints,
    same_dtype,
)
from unspool.tf1.ops.reductions import listed
from unspool.tf1.shapes import Dim, Dims, compatible, described, merged
from unspool.tf1.tensor import Operators, Tensor

__all__ = [
    "broadcast_to",
    "concat",
    "pad",
    "reverse",
    "reverse_sequence",
    "split",
    "stack",
    "tile",
    "unstack",
]


def stack(values: Any, axis: int = 0, name: str = "stack") -> Any:
    """Tensors of one shape, side by side along a new axis."""
    if isinstance(values, Operators):
        return as_tensor(values)
    if any(isinstance(each, torch.Tensor) for each in values):
        return torch.stack(list(values), axis)
    if not values:
        return constant(np.zeros(0), float32, name=name)
    given = same_dtype("Pack", *values)
    dims: Any = None
    for each in given:
        dims = merged(dims, each.dims)
    inner: Dims = dims
    if dims is not None:
        check_axis("Pack", axis, len(dims) + 1)
        where = axis % (len(dims) + 1)
        dims = (*dims[:where], len(given), *dims[where:])
    made = apply("Pack", lambda *each: torch.stack(each, axis), *given, name=name, outputs=[(given[0].dtype, dims)])
    made.op.attributes = {"axis": axis}
    clear = axis == 0 and inner is not None and None not in inner
    if clear and made.known is None and any(each.known is not None for each in given):
        made.known = np.stack([_partly(each, inner) for each in given])
    return made


def _partly(tensor: Tensor, dims: Any) -> np.ndarray[Any, Any]:
    """What is known of a value, with None for the rest."""
    return np.full(dims, None, object) if tensor.known is None else tensor.known.astype(object)


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Any]:
    """The slices of a tensor along an axis, as many as it has; that must be known, or given as `num`.

    >>> from unspool import tf1 as tf
    >>> steps = tf.unstack(tf.placeholder(tf.float32, [None, 2, 3]), axis=1)
    >>> len(steps), steps[0].shape
    (2, TensorShape([None, 3]))
    """
    if isinstance(value, torch.Tensor):
        return list(value.unbind(axis))
    given = as_tensor(value)
    if given.dims is not None and not -len(given.dims) <= axis < len(given.dims):
        raise ValueError(f"axis = {axis} not in [{-len(given.dims)}, {len(given.dims)})")
    length = None if given.dims is None else given.dims[axis]
    if num is not None and not compatible(length, num):
        raise ValueError(f"there are {length} slices along axis {axis}, but num is {num}")
    count = num if num is not None else None if given.dims is None else given.dims[axis]
    if count is None:
        raise ValueError(f"Cannot infer num from shape {described(given.dims)}")
    dims = None
    if given.dims is not None:
        where = axis % len(given.dims)
        dims = (*given.dims[:where], *given.dims[where + 1 :])

    def compute(x: torch.Tensor) -> Any:
        parts = x.unbind(axis)
        if len(parts) != count:
            raise ValueError(f"there are {len(parts)} slices along axis {axis}, but num is {count}")
        return parts[0] if count == 1 else parts

    if count == 0:
        return []
    made = apply("Unpack", compute, given, name=name, outputs=[(given.dtype, dims)] * count)
    parts = [made] if isinstance(made, Tensor) else made
    parts[0].op.attributes = {"axis": axis}
    return parts


def concat(values: Any, axis: Any, name: str = "concat") -> Any:
    """Tensors one after the other along an axis.

    >>> from unspool import tf1 as tf
    >>> tf.concat([tf.zeros([2, 3]), tf.zeros([2, 1])], 1).shape
    TensorShape([2, 4])
    """
    if isinstance(axis, list | tuple) or isinstance(values, int):
        raise TypeError("tf.concat takes the tensors first and the axis second, since TensorFlow 1.0")
    parts = list(values) if isinstance(values, list | tuple) else [values]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if any(isinstance(each, torch.Tensor) for each in parts):
        return torch.cat(parts, int(axis))
    where, given = as_axis(axis), same_dtype("ConcatV2", *parts)
    if isinstance(where, Tensor):
        ranks = {len(each.dims) for each in given if each.dims is not None}
        dims = (None,) * ranks.pop() if ranks else None
        join = lambda a, *each: torch.cat(each, int(a))  # noqa: E731
        return apply("ConcatV2", join, where, *given, name=name, outputs=[(given[0].dtype, dims)])
    made = apply(
        "ConcatV2",
        lambda *each: torch.cat(each, where),
        *given,
        name=name,
        outputs=[(given[0].dtype, _joined([each.dims for each in given], where))],
    )
    made.op.attributes = {"axis": where}
    if made.known is None and all(each.known is not None for each in given):
        made.known = np.concatenate([np.asarray(each.known, object) for each in given], where)
    return made


def _joined(shapes: Sequence[Dims], axis: int) -> Dims:
    known = [each for each in shapes if each is not None]
    if not known:
        return None
    rank_of = len(known[0])
    if any(len(each) != rank_of for each in known) or not -rank_of <= axis < rank_of:
        words = ", ".join(map(described, known))
        raise ValueError(
            f"ConcatV2: shapes {words} cannot be joined along axis {axis}: ranks must be equal and have it"
        )
    where, sizes = axis % rank_of, list(known[0])
    for each in known[1:]:
        for place, size_of in enumerate(each):
            if place != where and not compatible(sizes[place], size_of):
                raise ValueError(
                    f"ConcatV2: Dimension {place} in both shapes must be equal, but are {sizes[place]} and {size_of}, "
                    f"for shapes {', '.join(map(described, known))}"
                )
            if place != where and sizes[place] is None:
                sizes[place] = size_of
    columns = [each[where] for each in known]
    sizes[where] = None if None in columns or len(known) < len(shapes) else sum(each or 0 for each in columns)
    return tuple(sizes)


def split(value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split") -> list[Any]:
    """A tensor cut along an axis: into so many equal parts, or into parts of those sizes."""
    where = as_axis(axis)
    if isinstance(where, Tensor):
        raise NotImplementedError("tf.split along an axis that is only known when the graph runs")
    if isinstance(num_or_size_splits, int | np.integer):
        return _cut(value, where, int(num_or_size_splits), None, name)
    if isinstance(value, torch.Tensor):
        return _cut(value, where, len(num_or_size_splits), num_or_size_splits, name)
    lengths = as_sizes(num_or_size_splits)
    found = known_ints(lengths) or (None if num is None else [None] * num)
    if found is None:
        raise ValueError(f"Cannot infer argument `num` from shape {described(lengths.dims)}")
    return _cut(value, where, len(found), lengths if None in found else found, name)


def _cut(value: Any, axis: int, count: int, lengths: Any, name: str) -> list[Any]:
    fed: list[Any] = [lengths] if isinstance(lengths, Tensor) else []
    known: Any = None if fed else lengths

    def compute(x: torch.Tensor, *fed: torch.Tensor) -> Any:
        check_axis("Split", axis, x.dim())
        sizes: Any = _lengths(x.shape[axis], count, fed[0].tolist() if fed else known)
        parts = x.split(sizes, axis)
        return parts[0] if count == 1 else parts

    if isinstance(value, torch.Tensor):
        made = compute(value)
        return [made] if count == 1 else list(made)
    given = as_tensor(value)
    dims: list[Dims] = [None] * count
    if given.dims is not None:
        check_axis("Split", axis, len(given.dims))
        where = axis % len(given.dims)
        sizes = [None] * count if fed else _lengths(given.dims[axis], count, known)
        dims = [(*given.dims[:where], each, *given.dims[where + 1 :]) for each in sizes]
    kind = "Split" if lengths is None else "SplitV"
    made = apply(kind, compute, given, *fed, name=name, outputs=[(given.dtype, each) for each in dims])
    parts = [made] if isinstance(made, Tensor) else made
    parts[0].op.attributes = {"axis": axis}
    return parts


def _lengths(length: Dim, count: int, lengths: Sequence[int] | None) -> list[Dim]:
    """The sizes of the parts, as far as that of the whole is known."""
    if lengths is None:
        if length is not None and length % count:
            raise ValueError(f"Dimension size must be evenly divisible by {count} but is {length}")
        return [None if length is None else length // count] * count
    given = [each for each in lengths if each != -1]
    rest = None if length is None else length - sum(given)
    if rest is not None and (rest < 0 or (rest and len(given) == count)):
        raise ValueError(f"Split: the sizes {list(lengths)} do not add up to {length}")
    return [rest if each == -1 else each for each in lengths]


def tile(input: Any, multiples: Any, name: str | None = None) -> Any:
    """A tensor repeated along its axes."""
    given, counts = as_tensor(input), as_sizes(multiples)
    found, dims = known_ints(counts), given.dims
    if found is not None:
        dims = (None,) * len(found) if dims is None else dims
        if len(found) != len(dims):
            raise ValueError(f"Tile: there are {len(found)} multiples for {len(dims)} axes")
        dims = tuple(
            0 if 0 in (a, b) else None if a is None or b is None else a * b for a, b in zip(dims, found, strict=True)
        )

    def compute(x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        if x.dim() != len(counts):
            raise ValueError(f"Tile: there are {len(counts)} multiples for {x.dim()} axes")
        return x.repeat(ints(counts))

    return apply("Tile", compute, given, counts, name=name, outputs=[(given.dtype, dims)])


def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None, constant_values: Any = 0) -> Any:
    """A tensor with so many values before and after it, along each axis.

    Args:
        tensor: the tensor.
        paddings: `[axes, 2]`: how many before, how many after.
        mode: what they are: "CONSTANT", or the tensor's own, mirrored without its border ("REFLECT") or with it
            ("SYMMETRIC").
        name: the operation's name.
        constant_values: the constant.
    """
    kind = mode.upper()
    if kind not in ("CONSTANT", "REFLECT", "SYMMETRIC"):
        raise ValueError(
            f"Value of argument `mode` expected to be one of CONSTANT, REFLECT, SYMMETRIC. Received {mode}"
        )
    given, around = as_tensor(tensor), as_tensor(paddings)

    def compute(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        if len(p) != x.dim():
            raise ValueError(f"Pad: there are {len(p)} paddings for {x.dim()} axes")
        if kind == "CONSTANT":
            flat = [int(each) for pair in reversed(p.tolist()) for each in pair]
            return torch.nn.functional.pad(x, flat, value=constant_values)
        for axis, (before, after) in enumerate(p.tolist()):
            x = x.index_select(axis, _mirrored(x.shape[axis], before, after, kind == "SYMMETRIC").to(x.device))
        return x

    dims = given.dims
    count = None if around.dims is None else around.dims[0]
    pairs: list[Any] | None = None if around.known is None else around.known.tolist()
    if dims is None and count is not None:
        dims = (None,) * count
    if dims is not None:
        if not compatible(count, len(dims)):
            raise ValueError(f"Pad: there are {count} paddings for {len(dims)} axes")
        pairs = [[None, None]] * len(dims) if pairs is None else pairs
        dims = tuple(None if a is None or None in p else a + sum(p) for a, p in zip(dims, pairs, strict=True))
    names = {"CONSTANT": "Pad", "REFLECT": "MirrorPad", "SYMMETRIC": "MirrorPad"}
    return apply(names[kind], compute, given, around, name=name, outputs=[(given.dtype, dims)])


def _mirrored(size: int, before: int, after: int, border: bool) -> torch.Tensor:
    """Which element stands at each place of an axis that goes on as in a mirror."""
    if max(before, after) > size - (not border):
        raise ValueError(f"Pad: {max(before, after)} cannot be mirrored from {size} along an axis")
    places = torch.arange(-before, size + after)
    places = torch.where(places < 0, -places - int(border), places)
    return torch.where(places >= size, 2 * (size - 1) - places + int(border), places)


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Any:
    """A tensor backwards along axes."""
    given = as_tensor(tensor)
    places = as_tensor(axis)
    if places.dims == ():
        raise ValueError(f"ReverseV2: axis is a list of axes, but is {axis!r}")
    for each in known_ints(places) or ():
        check_axis("ReverseV2", each or 0, None if given.dims is None else max(len(given.dims), 1))
    turn = lambda x, axes: x.flip(listed(axes))  # noqa: E731
    return apply("ReverseV2", turn, given, places, name=name, outputs=[(given.dtype, given.dims)])


def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> Any:
    """A tensor whose rows are each backwards as far as their lengths."""
    time = next((each for each in (seq_axis, seq_dim) if each is not None), None)
    batch = next((each for each in (batch_axis, batch_dim) if each is not None), 0)
    if time is None:
        raise TypeError("seq_axis is missing: the axis that is reversed")

    def compute(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        rows = x.movedim((batch, time), (0, 1))
        if len(lengths) != len(rows):
            raise ValueError(f"ReverseSequence: there are {len(lengths)} seq_lengths for {len(rows)} rows")
        steps = torch.arange(rows.shape[1], device=x.device)
        last = lengths.to(torch.int64)[:, None]
        if lengths.numel() and (int(lengths.max()) > rows.shape[1] or int(lengths.min()) < 0):
            raise ValueError(f"seq_lengths must be in [0, {rows.shape[1]}], but are {lengths.tolist()}")
        places = torch.where(steps < last, last - 1 - steps, steps)
        turned = rows.gather(1, places.reshape(*places.shape, *[1] * (rows.dim() - 2)).expand_as(rows))
        return turned.movedim((0, 1), (batch, time))

    given, lengths = as_tensor(input), as_tensor(seq_lengths)
    if given.dims is not None and lengths.dims is not None and not compatible(given.dims[batch], lengths.dims[0]):
        raise ValueError(f"ReverseSequence: there are {lengths.dims[0]} seq_lengths for {given.dims[batch]} rows")
    return apply("ReverseSequence", compute, given, lengths, name=name, outputs=[(given.dtype, given.dims)])


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Any:
    """A tensor stretched to a shape."""
    given, sizes = as_tensor(input), as_sizes(shape)
    found = known_ints(sizes)
    dims = None if found is None else tuple(found)
    if dims is not None and given.dims is not None:
        padded: list[Dim] = [1] * (len(dims) - len(given.dims)) + list(given.dims)
        if len(padded) > len(dims) or any(
            a not in (1, None, b) and b is not None for a, b in zip(padded, dims, strict=True)
        ):
            raise ValueError(f"BroadcastTo: {described(given.dims)} cannot be stretched to {described(dims)}")
        dims = tuple(a if b is None and a != 1 else b for a, b in zip(padded, dims, strict=True))
    return apply("BroadcastTo", lambda x, s: x.expand(ints(s)), given, sizes, name=name, outputs=[(given.dtype, dims)])
