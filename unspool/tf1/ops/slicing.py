"""Parts of tensors: by place, by truth, by range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from unspool.tf1.dtypes import as_dtype, bool_, int32
from unspool.tf1.operations import apply, as_sizes, as_tensor, check_axis, ints, known_int, known_ints, same_dtype
from unspool.tf1.shapes import Dim, Dims, described, fit, merged
from unspool.tf1.tables import LOOKUP, VARIABLE, look_up
from unspool.tf1.tensor import Operators, Tensor

__all__ = [
    "boolean_mask",
    "gather",
    "gather_nd",
    "strided_slice",
    "unique",
    "where",
]


def getitem(tensor: Any, key: Any, name: str | None = None) -> Any:
    """`tensor[key]`: ints, slices, `...`, None for a new axis, and tensors of indices or bounds."""
    keys = tuple(key) if isinstance(key, list | tuple) else (key,)  # pyright: ignore[reportUnknownVariableType]
    if any(isinstance(each, Operators) and as_tensor(each).dtype is bool_ for each in keys):
        return boolean_mask(tensor, keys[0])
    bounds: list[Tensor] = []

    def parted(each: Any, known: bool) -> Any:
        """The key with what stands for tensors, which become inputs, or with their values where they are known."""
        if isinstance(each, slice):
            return slice(*(parted(bound, known) for bound in (each.start, each.stop, each.step)))
        if not isinstance(each, Operators):
            return each if each is None or each is Ellipsis else each.__index__()
        if known:
            value = known_int(as_tensor(each))
            return _LATER if value is None else value
        bounds.append(as_tensor(each))
        return _Bound(len(bounds) - 1)

    given = as_tensor(tensor)
    _check_key(given.dims, keys)
    plan, static = (tuple(parted(each, known) for each in keys) for known in (False, True))

    def compute(x: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return _index(x, tuple(_filled(each, values) for each in plan))

    outputs = [(given.dtype, _sliced(given.dims, static))]
    made = apply("StridedSlice", compute, given, *bounds, name=name or "strided_slice", outputs=outputs)
    if given.known is not None and not bounds and made.known is None:
        made.known = np.asarray(given.known[plan])
        if made.known.dtype == object and None not in made.known.reshape(-1).tolist():
            made.known = made.known.astype(given.dtype.as_numpy_dtype)
    return made


_LATER = object()
"""Stands in a key for a number that nobody knows yet."""


def _check_key(dims: Dims, keys: Sequence[Any]) -> None:
    """Raises the errors that TensorFlow raises while the graph is built."""
    for each in keys:
        if isinstance(each, bool):
            raise ValueError(f"a truth cannot be an index, but {each} is one; tf.boolean_mask chooses by truths")
        for bound in (each.start, each.stop, each.step) if isinstance(each, slice) else (each,):
            if isinstance(bound, Operators):
                wrong = not as_tensor(bound).dtype.is_integer or as_tensor(bound).dims not in ((), None)
            else:
                wrong = bound is not None and bound is not Ellipsis and not hasattr(bound, "__index__")
            if wrong:
                raise TypeError(
                    "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 "
                    f"tensors are valid indices, got {bound!r}"
                )
        if isinstance(each, slice) and isinstance(each.step, int) and each.step == 0:
            raise ValueError("strides[0] must be non-zero")
    if sum(each is Ellipsis for each in keys) > 1:
        raise ValueError("Multiple ellipses in slice spec not allowed")
    used = sum(each is not None and each is not Ellipsis for each in keys)
    if dims is not None and used > len(dims):
        raise ValueError(f"Index out of range using {used} indices; input has only {len(dims)} dims")


class _Bound:
    """Stands in a key for the value of a tensor."""

    def __init__(self, number: int) -> None:
        self.number = number


def _filled(each: Any, values: Sequence[torch.Tensor]) -> Any:
    if isinstance(each, slice):
        return slice(*(_filled(bound, values) for bound in (each.start, each.stop, each.step)))
    return values[each.number].item() if isinstance(each, _Bound) else each


def _index(x: torch.Tensor, key: tuple[Any, ...]) -> torch.Tensor:
    """Torch's indexing, with steps backwards."""
    kept = [each for each in key if each is not None]
    rank_of = x.dim() - sum(each is not Ellipsis for each in kept)
    if rank_of < 0:
        raise IndexError(f"Index out of range using input dim {x.dim()}; input has only {x.dim()} dims")
    axis, turned = 0, list(key)
    for place, each in enumerate(key):
        if each is Ellipsis:
            axis += rank_of
        elif each is not None:
            if isinstance(each, slice) and each.step is not None and each.step < 0:
                indices = torch.arange(*each.indices(x.shape[axis]), device=x.device)
                x, turned[place] = x.index_select(axis, indices), slice(None)
            axis += 1
    return x[tuple(turned)]


def _sliced(dims: Dims, plan: Sequence[Any]) -> Dims:
    """The shape of a part; `ValueError` if an index is outside."""
    if dims is None:
        return None
    sizes: list[Dim] = []
    spelled = list(plan)
    missing = len(dims) - sum(each is not None and each is not Ellipsis for each in spelled)
    where = next((place for place, each in enumerate(spelled) if each is Ellipsis), len(spelled))
    spelled[where : where + 1] = [slice(None)] * missing
    axis = 0
    for each in spelled:
        if each is None:
            sizes.append(1)
            continue
        size = dims[axis]
        if isinstance(each, slice):
            sizes.append(_length(size, each))
        elif each is not _LATER and size is not None and not -size <= each < size:
            raise ValueError(f"slice index {each} of dimension {axis} out of bounds.")
        axis += 1
    return tuple(sizes)


def _length(size: Dim, part: slice) -> Dim:
    bounds = (part.start, part.stop, part.step)
    if any(each is _LATER for each in bounds):
        return None
    if size is not None:
        return len(range(*part.indices(size)))
    return None if bounds[:2] != (0, 0) else 0


Operators.overload("__getitem__", lambda tensor, key: getitem(tensor, key))


def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Any:
    """The part of a tensor that begins at `begin` and has the shape `size`, -1 for all that is left."""
    start, count = as_sizes(begin), as_sizes(size)

    def compute(x: torch.Tensor, s: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        if not x.dim() == len(s) == len(n):
            raise ValueError(f"Slice: there are {len(s)} beginnings and {len(n)} sizes for {x.dim()} axes")
        for axis, (first, length) in enumerate(zip(ints(s), ints(n), strict=True)):
            x = x.narrow(axis, first, x.shape[axis] - first if length == -1 else length)
        return x

    given = as_tensor(input_)
    dims = _part(given.dims, known_ints(start), known_ints(count))
    return apply("Slice", compute, given, start, count, name=name, outputs=[(given.dtype, dims)])


def _part(dims: Dims, begin: Sequence[Dim] | None, lengths: Sequence[Dim] | None) -> Dims:
    if lengths is None:
        return None if dims is None else (None,) * len(dims)
    if dims is not None and len(dims) != len(lengths):
        raise ValueError(f"Slice: there are {len(lengths)} sizes for {len(dims)} axes")
    sizes: list[Dim] = []
    for axis, length in enumerate(lengths):
        whole, first = None if dims is None else dims[axis], None if begin is None else begin[axis]
        if length == -1:
            length = None if whole is None or first is None else whole - first
        sizes.append(length)
    return tuple(sizes)


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Any:
    """`input_[begin:end:strides]`, for each axis; the bits of the masks say where a number is not meant."""
    count = _count(begin)

    def key(k: int) -> Any:
        if ellipsis_mask >> k & 1:
            return Ellipsis
        if new_axis_mask >> k & 1:
            return None
        if shrink_axis_mask >> k & 1:
            return begin[k]
        first, last = None if begin_mask >> k & 1 else begin[k], None if end_mask >> k & 1 else end[k]
        return slice(first, last, None if strides is None else strides[k])

    return getitem(input_, tuple(key(k) for k in range(count)), name)


def _count(begin: Any) -> int:
    numbers = known_ints(begin) if isinstance(begin, Operators) else begin
    if numbers is None:
        raise ValueError("StridedSlice: how many axes are cut must be known when the graph is built")
    return len(numbers)


def gather(params: Any, indices: Any, validate_indices: Any = None, name: str | None = None, axis: int = 0) -> Any:
    """The slices of a tensor at those indices along an axis.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.gather([10, 20, 30], [[2, 0]]))
    array([[30, 10]], dtype=int32)
    """

    def compute(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        check_axis("GatherV2", axis, x.dim())
        where = axis % x.dim()
        chosen = x.index_select(where, places.reshape(-1))
        return chosen.reshape((*x.shape[:where], *places.shape, *x.shape[where + 1 :]))

    given, places = as_tensor(params), as_tensor(indices)
    if not places.dtype.is_integer:
        raise TypeError(f"indices must be whole numbers, but are {places.dtype.name}")
    dims = None
    if given.dims is not None and places.dims is not None:
        check_axis("GatherV2", axis, len(given.dims))
        where = axis % len(given.dims)
        dims = (*given.dims[:where], *places.dims, *given.dims[where + 1 :])
    if given.op.type == VARIABLE and axis == 0 and given.dims and given.dtype.is_floating:
        return apply(LOOKUP, look_up, given, places, name=name, outputs=[(given.dtype, dims)])
    return apply("GatherV2", compute, given, places, name=name, outputs=[(given.dtype, dims)])


def gather_nd(params: Any, indices: Any, name: str | None = None) -> Any:
    """The elements, or slices, at indices of several axes, which stand in the last axis of `indices`."""

    def compute(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        sizes = torch.tensor(x.shape[: places.shape[-1]], device=x.device)
        if places.shape[-1] > x.dim():
            raise ValueError(f"GatherNd: indices name {places.shape[-1]} axes, but there are {x.dim()}")
        if bool(((places < 0) | (places >= sizes)).any()):
            raise ValueError(f"GatherNd: indices {places.tolist()} are not all within {list(x.shape)}")
        return x[tuple(places.long().unbind(-1))]

    given, places = as_tensor(params), as_tensor(indices)
    dims = None
    if given.dims is not None and places.dims:
        deep = places.dims[-1]
        if deep is not None and deep > len(given.dims):
            raise ValueError(f"GatherNd: indices name {deep} axes, but there are {len(given.dims)}")
        dims = None if deep is None else (*places.dims[:-1], *given.dims[deep:])
    return apply("GatherNd", compute, given, places, name=name, outputs=[(given.dtype, dims)])


def boolean_mask(tensor: Any, mask: Any, name: str = "boolean_mask", axis: int | None = None) -> Any:
    """The slices of a tensor where the mask is true."""
    given, chosen = as_tensor(tensor), as_tensor(mask)
    if chosen.dims is None:
        raise ValueError("boolean_mask: the number of axes of the mask must be known when the graph is built")
    if not chosen.dims:
        raise ValueError("boolean_mask: the mask cannot be scalar")
    where, deep = axis or 0, len(chosen.dims)
    dims = None
    if given.dims is not None:
        if not fit(given.dims[where : where + deep], chosen.dims):
            raise ValueError(
                f"Shapes {described(given.dims[where : where + deep])} and {described(chosen.dims)} are incompatible"
            )
        dims = (*given.dims[:where], None, *given.dims[where + deep :])
    key = (slice(None),) * where
    return apply("BooleanMask", lambda x, m: x[(*key, m)], given, chosen, name=name, outputs=[(given.dtype, dims)])


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """`x` where the condition is true, else `y`; without them, the indices of what is true.

    A condition with one entry for each row chooses whole rows, as in TensorFlow 1.
    """
    if (x is None) != (y is None):
        raise ValueError("x and y must both be non-None or both be None.")
    if x is None:
        given = as_tensor(condition)
        rank_of = None if given.dims is None else len(given.dims)
        return apply("Where", torch.nonzero, given, name=name, outputs=[(as_dtype("int64"), (None, rank_of))])

    def choose(truth: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        rows = truth.dim() == 1 and one.dim() > 1
        if one.shape != other.shape or (truth.dim() and truth.shape != (one.shape[:1] if rows else one.shape)):
            raise ValueError(
                f"Select: the shapes {list(truth.shape)}, {list(one.shape)} and {list(other.shape)} do not fit"
            )
        return torch.where(truth.reshape(-1, *[1] * (one.dim() - 1)) if rows else truth, one, other)

    if isinstance(condition, torch.Tensor):
        return torch.where(condition, torch.as_tensor(x), torch.as_tensor(y))
    truth = as_tensor(condition)
    if truth.dtype is not bool_:
        raise TypeError(f"Select: the condition must be bool, but is {truth.dtype.name}")
    one, other = same_dtype("Select", x, y)
    dims = merged(one.dims, other.dims)
    rows = truth.dims is not None and dims is not None and len(truth.dims) == 1 and len(dims) > 1
    if truth.dims not in (None, ()) and dims is not None and not fit(truth.dims, dims[:1] if rows else dims):
        raise ValueError(f"Select: the condition has shape {described(truth.dims)}, but x and y have {described(dims)}")
    return apply("Select", choose, truth, one, other, name=name, outputs=[(one.dtype, dims)])


def unique(x: Any, name: str | None = None) -> tuple[Any, Any]:
    """The different values in the order of their first appearance, and for each element which of them it is."""

    def compute(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if values.dim() != 1:
            raise ValueError(f"unique expects a vector, but the shape is {list(values.shape)}")
        found, places = torch.unique(values, return_inverse=True)
        first = torch.full((len(found),), len(values)).scatter_reduce_(0, places, torch.arange(len(values)), "amin")
        order = first.argsort()
        return found[order], order.argsort()[places].int()

    given = as_tensor(x)
    if given.dims is not None and len(given.dims) != 1:
        raise ValueError(f"Unique: Shape must be rank 1, but is {described(given.dims)}")
    made = apply("Unique", compute, given, name=name, outputs=[(given.dtype, (None,)), (int32, given.dims)])
    return made[0], made[1]
