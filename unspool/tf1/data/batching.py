"""Stages that put elements together, and take them apart: batches, padded batches, groups."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from unspool.structure import Structure, flatten, unflatten_as
from unspool.tf1.data.elements import (
    DatasetFunction,
    ElementFunction,
    Nested,
    Reading,
    Stage,
    leaves_up_to,
    with_dims,
)
from unspool.tf1.dtypes import DType, int64, string
from unspool.tf1.errors import DataLossError, InvalidArgumentError
from unspool.tf1.functions import Like
from unspool.tf1.operations import as_tensor, known_int
from unspool.tf1.shapes import Dim, Dims, TensorShape, described
from unspool.tf1.string_values import Strings
from unspool.tf1.tensor import Operators, Tensor


class Batched(Stage):
    """Elements of one shape, stacked.

    Args:
        before: the stage before.
        batch_size: how many are one batch.
        drop_remainder: whether a last batch of fewer is left out.
    """

    def __init__(self, before: Stage, batch_size: Any, drop_remainder: Any) -> None:
        self._size = as_batch_size(batch_size)
        self._whole = _as_flag(drop_remainder)
        count = known_int(self._size) if self._whole else None
        element = with_dims(before.element, lambda dims: None if dims is None else (count, *dims))
        super().__init__(element, [before], [self._size])

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """One batch after the other."""
        for rows in batches(self.inputs[0].elements(reading), int(reading.values[self._size]), self._whole):
            yield [_stacked(column, number) for number, column in enumerate(zip(*rows, strict=True))]


def as_batch_size(batch_size: Any) -> Tensor:
    """The size of batches as a tensor; `ValueError` if it is known to be no such."""
    made = as_tensor(batch_size, int64)
    size = known_int(made)
    if size is not None and size < 1:
        raise ValueError(f"batch_size must be greater than zero, but is {size}")
    return made


def batches(elements: Iterator[list[Any]], size: int, whole: bool) -> Iterator[list[list[Any]]]:
    """Lists of so many elements."""
    if size < 1:
        raise ValueError(f"Batch size must be greater than zero, but is {size}")
    while rows := list(itertools.islice(elements, size)):
        if whole and len(rows) < size:
            return
        yield rows


def _stacked(column: Sequence[torch.Tensor], number: int) -> torch.Tensor:
    for place, each in enumerate(column):
        if each.shape != column[0].shape:
            raise InvalidArgumentError(
                None,
                None,
                f"Cannot batch tensors with different shapes in component {number}. First element had shape "
                f"{list(column[0].shape)} and element {place} had shape {list(each.shape)}.",
            )
    return torch.stack(list(column))


def _as_flag(drop_remainder: Any) -> bool:
    if isinstance(drop_remainder, Operators):
        known = as_tensor(drop_remainder).known
        if known is None:
            raise ValueError("drop_remainder must be known when the graph is built")
        return bool(known)
    return bool(drop_remainder)


class Padded(Stage):
    """Elements of several shapes, each filled up to one shape, and stacked.

    Args:
        before: the stage before.
        batch_size: how many are one batch.
        padded_shapes: shapes in the structure of elements; None, or -1, in one for the largest of the batch.
        padding_values: what to fill with; zeros and empty strings by default.
        drop_remainder: whether a last batch of fewer is left out.
    """

    def __init__(
        self, before: Stage, batch_size: Any, padded_shapes: Any, padding_values: Any, drop_remainder: Any
    ) -> None:
        leaves: list[Like] = flatten(before.element)
        self._size, self._whole = as_batch_size(batch_size), _as_flag(drop_remainder)
        shapes = (
            [each.dims for each in leaves]
            if padded_shapes is None
            else leaves_up_to(before.element, padded_shapes, "padded_shapes", "the elements")
        )
        self._shapes = [_as_padded(shape, leaf) for shape, leaf in zip(shapes, leaves, strict=True)]
        self._fills = _fills(before.element, padding_values)
        count = known_int(self._size) if self._whole else None
        element = [Like(leaf.dtype, (count, *_static(shape))) for leaf, shape in zip(leaves, self._shapes, strict=True)]
        dynamic = [each for each in self._shapes if isinstance(each, Tensor)]
        super().__init__(unflatten_as(before.element, element), [before], [self._size, *dynamic, *self._fills])

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """One batch after the other."""
        shapes = [
            [None if size < 0 else size for size in reading.values[each].tolist()] if isinstance(each, Tensor) else each
            for each in self._shapes
        ]
        fills = [reading.values[each] for each in self._fills]
        for rows in batches(self.inputs[0].elements(reading), int(reading.values[self._size]), self._whole):
            columns = zip(zip(*rows, strict=True), shapes, fills, strict=True)
            yield [padded(column, shape, fill) for column, shape, fill in columns]


def _as_padded(shape: Any, leaf: Like) -> tuple[Dim, ...] | Tensor:
    """What one part of elements is padded to: sizes, None for the largest, or a tensor of them."""
    if isinstance(shape, Operators):
        return as_tensor(shape, int64)
    if isinstance(shape, list | tuple) and any(isinstance(each, Operators) for each in shape):  # pyright: ignore[reportUnknownVariableType]
        return as_tensor(shape, int64)
    try:
        unsigned = [None if each == -1 else each for each in shape] if isinstance(shape, list | tuple) else shape  # pyright: ignore[reportUnknownVariableType]
        sizes = TensorShape(unsigned).sizes
    except (TypeError, ValueError):
        raise ValueError(f"padded_shapes must have a shape for every part of an element, but has {shape!r}") from None
    if sizes is None:
        raise ValueError("padded_shapes must say how many axes elements have, which is not known")
    if leaf.dims is not None:
        fine = len(leaf.dims) == len(sizes)
        fine = fine and all(a is None or b is None or a <= b for a, b in zip(leaf.dims, sizes, strict=True))
        if not fine:
            raise ValueError(
                f"The padded shape {described(sizes)} is not compatible with the corresponding input component shape "
                f"{described(leaf.dims)}."
            )
    return sizes


def _static(shape: tuple[Dim, ...] | Tensor) -> tuple[Dim, ...]:
    if isinstance(shape, Tensor):
        return (None,) * int((shape.dims or (0,))[0] or 0)
    return shape


def _fills(element: Structure, padding_values: Any) -> list[Tensor]:
    leaves: list[Like] = flatten(element)
    if padding_values is None:
        return [as_tensor(b"" if each.dtype is string else _zero(each.dtype), each.dtype) for each in leaves]
    given = leaves_up_to(element, padding_values, "padding_values", "the elements")
    made: list[Tensor] = []
    for value, leaf in zip(given, leaves, strict=True):
        fill = as_tensor(value, None if isinstance(value, Operators) else leaf.dtype)
        if fill.dtype is not leaf.dtype:
            raise TypeError(
                f"The padding value should be of type {leaf.dtype.name} to match the element, but is {fill.dtype.name}"
            )
        if fill.dims not in (None, ()):
            raise ValueError(f"The padding value should be a scalar, but its shape is {described(fill.dims)}")
        made.append(fill)
    return made


def _zero(dtype: DType) -> Any:
    return False if dtype.is_bool else 0.0 if dtype.is_floating else 0


def padded(column: Sequence[torch.Tensor], shape: Sequence[Dim], fill: torch.Tensor) -> torch.Tensor:
    """Values filled up to one shape, None in it for the largest size, and stacked."""
    if any(each.dim() != len(shape) for each in column):
        raise InvalidArgumentError(
            None,
            None,
            f"All elements in a batch must have the same rank as the padded shape: expected rank {len(shape)} but got "
            f"element with rank {next(each.dim() for each in column if each.dim() != len(shape))}",
        )
    sizes = [max(each.shape[axis] for each in column) if size is None else size for axis, size in enumerate(shape)]
    if any(have > want for each in column for have, want in zip(each.shape, sizes, strict=True)):
        raise DataLossError(None, None, "Attempted to pad to a smaller size than the input element.")
    if isinstance(fill, Strings):
        words = np.full((len(column), *sizes), fill.item(), object)
        for row, each in zip(words, column, strict=True):
            row[tuple(slice(size) for size in each.shape)] = each.numpy()
        return Strings.of(words)
    made = fill.new_full((len(column), *sizes), fill.item())
    for row, each in zip(made, column, strict=True):
        row[tuple(slice(size) for size in each.shape)] = each
    return made


class Unbatched(Stage):
    """The rows of elements, one by one."""

    def __init__(self, before: Stage) -> None:
        def row(dims: Dims) -> Dims:
            if dims == ():
                raise ValueError("Cannot unbatch an input with scalar components.")
            return None if dims is None else dims[1:]

        super().__init__(with_dims(before.element, row), [before])

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """Each row of each element."""
        for each in self.inputs[0].elements(reading):
            for place in range(len(each[0])):
                yield [part[place] for part in each]


class Grouped(Stage):
    """Elements with the same key, so many at a time, as the dataset that a function makes of them.

    Args:
        before: the stage before.
        key_func: takes an element to a whole number, its key.
        reduce_func: takes a key and the dataset of a window to another dataset.
        window_size_func: takes a key to how many elements are one window.
    """

    def __init__(
        self,
        before: Stage,
        key_func: Callable[..., Any],
        reduce_func: Callable[..., Any],
        window_size_func: Callable[..., Any],
    ) -> None:
        self._key = ElementFunction(key_func, before.element)
        if not isinstance(self._key.element, Like) or self._key.element.dtype is not int64:
            raise ValueError(f"`key_func` must return a single tf.int64 tensor, but returns {self._key.element!r}")
        number = Like(int64, ())
        self._window = ElementFunction(window_size_func, number)
        self._reduce = DatasetFunction(reduce_func, (number, Nested(before.element)), "reduce_func")
        tensors = [*self._key.tensors, *self._window.tensors, *self._reduce.tensors]
        super().__init__(self._reduce.stage.element, [before], tensors)

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """What becomes of each window as soon as it is full; at the end, of the others by their keys."""
        groups: dict[int, list[list[Any]]] = {}
        for each in self.inputs[0].elements(reading):
            key = int(self._key(reading, each)[0])
            size = int(self._window(reading, [torch.tensor(key)])[0])
            if size < 1:
                raise ValueError(f"Window size must be greater than zero, but got {size}.")
            groups.setdefault(key, []).append(each)
            if len(groups[key]) >= size:
                yield from self._reduce.elements(reading, [torch.tensor(key), groups.pop(key)])
        for key in sorted(groups):
            yield from self._reduce.elements(reading, [torch.tensor(key), groups[key]])
