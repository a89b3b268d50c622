"""Reductions of the rows that belong together, counts, and orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from unspool.tf1.dtypes import as_dtype, int32, int64
from unspool.tf1.operations import apply, as_tensor, check_axis, known_int, same_dtype
from unspool.tf1.ops.math import add_n, cast, multiply, not_equal
from unspool.tf1.ops.reductions import argmax, argmin, reduce_sum
from unspool.tf1.shapes import Dims, described, fit
from unspool.tf1.tensor import Tensor
from unspool.tf1.weighting import paired

__all__ = [
    "accumulate_n",
    "arg_max",
    "arg_min",
    "argsort",
    "confusion_matrix",
    "count_nonzero",
    "meshgrid",
    "roll",
    "scalar_mul",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_sum",
    "sort",
    "unsorted_segment_max",
    "unsorted_segment_mean",
    "unsorted_segment_min",
    "unsorted_segment_prod",
    "unsorted_segment_sum",
]

# -- segments --------------------------------------------------------------------------------------------------------

_HOW = {"Sum": "sum", "Mean": "mean", "Max": "amax", "Min": "amin", "Prod": "prod"}


def _reduced(kind: str, rows: torch.Tensor, numbers: torch.Tensor, count: int, empty: Any) -> torch.Tensor:
    """A reduction of the rows of each number; negative numbers are left out."""
    kept = numbers >= 0
    rows, numbers = rows[kept], numbers[kept].long()
    if numbers.numel() and int(numbers.max()) >= count:
        raise ValueError(f"segment_ids must be less than {count}, but one is {int(numbers.max())}")
    start = rows.new_full([count, *rows.shape[1:]], empty)
    if kind == "Sum":
        return start.index_add(0, numbers, rows)
    if kind == "Mean":
        sizes = torch.bincount(numbers, minlength=count).clamp(min=1).to(rows.dtype)
        return start.index_add(0, numbers, rows) / sizes.reshape(-1, *[1] * (rows.dim() - 1))
    spread = numbers.reshape(-1, *[1] * (rows.dim() - 1)).expand_as(rows)
    return start.scatter_reduce(0, spread, rows, _HOW[kind], include_self=False)


def _empty(kind: str, dtype: torch.dtype) -> Any:
    """What a segment without rows is, where the number of segments is given."""
    if kind in ("Max", "Min"):
        limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
        return limits.min if kind == "Max" else limits.max
    return 1 if kind == "Prod" else 0


def _unsorted(kind: str, what: str) -> Callable[..., Any]:
    def call(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
        given, numbers, count = as_tensor(data), as_tensor(segment_ids), as_tensor(num_segments)
        dims: Dims = None
        if given.dims is not None and numbers.dims is not None:
            if not fit(numbers.dims, given.dims[: len(numbers.dims)]):
                raise ValueError(f"data of shape {described(given.dims)} must begin with {described(numbers.dims)}")
            dims = (known_int(count), *given.dims[len(numbers.dims) :])

        def compute(x: torch.Tensor, at: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            if x.shape[: at.dim()] != at.shape:  # which a reshape of nothing does not see
                raise ValueError(
                    f"data.shape = {list(x.shape)} does not start with segment_ids.shape = {list(at.shape)}"
                )
            rows = x.reshape(at.numel(), *x.shape[at.dim() :])
            return _reduced(kind, rows, at.reshape(-1), int(n), _empty(kind, x.dtype))

        outputs = [(given.dtype, dims)]
        return apply(f"UnsortedSegment{kind}", compute, given, numbers, count, name=name, outputs=outputs)

    call.__doc__ = what
    return call


def _sorted(kind: str, what: str) -> Callable[..., Any]:
    def call(data: Any, segment_ids: Any, name: str | None = None) -> Any:
        given, numbers = as_tensor(data), as_tensor(segment_ids)
        if numbers.dims is not None and len(numbers.dims) != 1:
            raise ValueError(f"Shape must be rank 1, but segment_ids have shape {described(numbers.dims)}")

        def compute(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            if len(at) != len(x):
                raise ValueError(f"there are {len(at)} segment_ids for {len(x)} rows")
            if len(at) and (int(at[0]) < 0 or bool((at.diff() < 0).any())):
                raise ValueError(f"segment ids are not increasing: {at.tolist()}")
            return _reduced(kind, x, at, int(at[-1]) + 1 if len(at) else 0, 1 if kind == "Prod" else 0)

        dims = None if given.dims is None else (None, *given.dims[1:])
        return apply(f"Segment{kind}", compute, given, numbers, name=name, outputs=[(given.dtype, dims)])

    call.__doc__ = what
    return call


unsorted_segment_sum = _unsorted("Sum", "The sums of the rows that have each number.")
unsorted_segment_mean = _unsorted("Mean", "The means of the rows that have each number.")
unsorted_segment_max = _unsorted("Max", "The largest of the rows that have each number.")
unsorted_segment_min = _unsorted("Min", "The smallest of the rows that have each number.")
unsorted_segment_prod = _unsorted("Prod", "The products of the rows that have each number.")
segment_sum = _sorted("Sum", "The sums of the rows that have each number; the numbers increase.")
segment_mean = _sorted("Mean", "The means of the rows that have each number; the numbers increase.")
segment_max = _sorted("Max", "The largest of the rows that have each number; the numbers increase.")
segment_min = _sorted("Min", "The smallest of the rows that have each number; the numbers increase.")
segment_prod = _sorted("Prod", "The products of the rows that have each number; the numbers increase.")


# -- counts and sums -------------------------------------------------------------------------------------------------


def count_nonzero(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    dtype: Any = int64,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Any:
    """How many elements are not zero, along axes or of all.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.count_nonzero([[0, 1], [2, 3]], axis=0))
    array([1, 2])
    """
    given = as_tensor(input_tensor)
    there = cast(not_equal(given, cast(0, given.dtype)), int64)
    kept = bool(keepdims if keep_dims is None else keep_dims)
    return cast(reduce_sum(there, reduction_indices if axis is None else axis, kept, name=name), dtype)


def accumulate_n(inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Any:
    """The sum of several tensors."""
    return add_n(inputs, name=name)


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """A tensor times a number; `ValueError` if that is not known to be a scalar."""
    factor = as_tensor(scalar, as_tensor(x).dtype)
    if factor.dims != ():
        raise ValueError("Only scalar multiply works.")
    return multiply(factor, x, name=name)


def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    dtype: Any = int32,
    name: str | None = None,
    weights: Any = None,
) -> Any:
    """How often each label, by row, was taken for each class, by column.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.confusion_matrix([0, 1, 1], [0, 0, 1]))
    array([[1, 0],
           [1, 1]], dtype=int32)
    """
    wanted, found = (cast(each, int64) for each in paired(labels, predictions))
    kind = as_dtype(dtype)
    given = [wanted, found] if weights is None else [wanted, found, as_tensor(weights)]
    if weights is not None and not fit(found.dims, given[2].dims):
        raise ValueError(f"weights have shape {described(given[2].dims)}, but predictions {described(found.dims)}")

    def compute(label: torch.Tensor, prediction: torch.Tensor, *weight: torch.Tensor) -> torch.Tensor:
        least = min(int(label.min()), int(prediction.min())) if label.numel() else 0
        if least < 0:
            raise ValueError("`labels` and `predictions` must not contain negative values")
        most = int(max(label.max(), prediction.max())) + 1 if label.numel() else 0
        count = most if num_classes is None else int(num_classes)
        if most > count:
            raise ValueError(f"`labels` and `predictions` must be less than {count}, but one is {most - 1}")
        each = weight[0].to(kind.torch) if weight else torch.ones_like(label, dtype=kind.torch)
        made = torch.zeros(count, count, dtype=kind.torch, device=label.device)
        return made.index_put((label.reshape(-1), prediction.reshape(-1)), each.reshape(-1), accumulate=True)

    size = None if num_classes is None else int(num_classes)
    return apply("ConfusionMatrix", compute, *given, name=name, outputs=[(kind, (size, size))])


# -- orders and places -----------------------------------------------------------------------------------------------


def _ordered(values: Any, axis: int, direction: str) -> tuple[Tensor, bool]:
    """The tensor, and whether the largest comes first."""
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"direction must be ASCENDING or DESCENDING, but is {direction!r}")
    given = as_tensor(values)
    check_axis("sort", axis, None if given.dims is None else len(given.dims))
    return given, direction == "DESCENDING"


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Any:
    """The elements in order, along an axis."""
    given, down = _ordered(values, axis, direction)
    order = lambda x: x.sort(dim=axis, descending=down, stable=True).values  # noqa: E731
    return apply("Sort", order, given, name=name, outputs=[(given.dtype, given.dims)])


def argsort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Any:
    """Where the elements in order come from, along an axis.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.argsort([3.0, 1.0, 2.0]))
    array([1, 2, 0], dtype=int32)
    """
    given, down = _ordered(values, axis, direction)
    order = lambda x: x.sort(dim=axis, descending=down, stable=True).indices.int()  # noqa: E731
    return apply("ArgSort", order, given, name=name, outputs=[(int32, given.dims)])


def arg_max(input: Any, dimension: Any, output_type: Any = int64, name: str | None = None) -> Any:
    """`tf.argmax`, by its older name."""
    return argmax(input, dimension, name, output_type=output_type)


def arg_min(input: Any, dimension: Any, output_type: Any = int64, name: str | None = None) -> Any:
    """`tf.argmin`, by its older name."""
    return argmin(input, dimension, name, output_type=output_type)


def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Any:
    """A tensor whose elements have moved along axes, those at the end to the beginning.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.roll([1, 2, 3], shift=1, axis=0))
    array([3, 1, 2], dtype=int32)
    """
    given, steps, axes = as_tensor(input), as_tensor(shift), as_tensor(axis)

    def compute(x: torch.Tensor, by: torch.Tensor, along: torch.Tensor) -> torch.Tensor:
        places = along.reshape(-1).tolist()
        for each in places:
            if not -x.dim() <= each < x.dim():
                raise ValueError(f"axis {each} is out of range")
        return x.roll(by.reshape(-1).tolist(), places)

    return apply("Roll", compute, given, steps, axes, name=name, outputs=[(given.dtype, given.dims)])


def meshgrid(*args: Any, indexing: str = "xy", name: str = "meshgrid") -> list[Any]:
    """The coordinates of a grid, one tensor for each vector.

    Args:
        args: the coordinates along each axis.
        indexing: "xy" if the first two axes are exchanged, "ij" if not.
        name: of the operation.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Argument `indexing` must be either 'xy' or 'ij', got '{indexing}'")
    if not args:
        return []
    read = same_dtype("meshgrid", *args)
    sizes = [None if each.dims is None else each.dims[0] if each.dims else 1 for each in read]
    if indexing == "xy" and len(sizes) > 1:
        sizes[:2] = sizes[1::-1]
    outputs = [(each.dtype, tuple(sizes)) for each in read]

    def compute(*axes: torch.Tensor) -> Any:
        made = torch.meshgrid(*(each.reshape(-1) for each in axes), indexing=indexing)
        return made[0] if len(made) == 1 else list(made)

    made = apply("Meshgrid", compute, *read, name=name, outputs=outputs)
    return made if isinstance(made, list) else [made]  # pyright: ignore[reportUnknownVariableType]
