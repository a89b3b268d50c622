"""`tf.TensorArray`: a list of tensors that is written by index, inside and outside of loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from unspool.tensor_array import TensorArray as Values
from unspool.tf1.dtypes import DType, as_dtype, int32
from unspool.tf1.operations import apply, as_tensor, known_int
from unspool.tf1.shapes import Dim, Dims, TensorShape, merged
from unspool.tf1.tensor import Tensor


class TensorArray:
    """A list of tensors of one dtype. It is a value: `write` returns another one, which must be used from then on.

    Args:
        dtype: of the elements.
        size: how many there are, or the first of them if `dynamic_size`.
        dynamic_size: whether it grows when it is written past its end.
        clear_after_read, infer_shape, colocate_with_first_write_call, tensor_array_name: accepted; an array always
            keeps what is read.
        flow: what carries its values through the graph.
        element_shape: the shape of an element.
        name: its name.

    >>> from unspool import tf1 as tf
    >>> array = tf.TensorArray(tf.float32, size=2).write(0, [1.0]).write(1, [2.0])
    >>> tf.Session().run(array.stack())
    array([[1.],
           [2.]], dtype=float32)
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: Any = None,
        clear_after_read: Any = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Tensor | None = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        self.dtype: DType = as_dtype(dtype)
        self.element_dims: Dims = TensorShape(element_shape).sizes
        self.dynamic_size = bool(dynamic_size)
        self.count: Dim = None
        """How many elements there are, if that is known when the graph is built."""
        if flow is None:
            length = as_tensor(0 if size is None else size, int32)
            self.count = None if dynamic_size else known_int(length)
            flow = self._operation("TensorArrayV3", _made, length, name=name)
        self.flow: Tensor = flow

    def with_flow(self, flow: Tensor) -> TensorArray:
        """The same array with other values."""
        made = TensorArray(self.dtype, None, self.dynamic_size, flow=flow, element_shape=self.element_dims)
        made.count = self.count
        return made

    def _operation(self, kind: str, function: Any, *inputs: Any, name: str | None = None) -> Tensor:
        # The type of what carries an array is that of its elements, so that gradients go along it.
        return apply(kind, function, *inputs, name=name, outputs=[(self.dtype, ())])

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with an element written."""
        given = as_tensor(value, self.dtype)
        write = _write_or_grow if self.dynamic_size else _write
        made = self.with_flow(
            self._operation("TensorArrayWriteV3", write, self.flow, as_tensor(index), given, name=name)
        )
        made.element_dims = merged(self.element_dims, given.dims)
        return made

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The element at an index."""
        outputs = [(self.dtype, self.element_dims)]
        return apply(
            "TensorArrayReadV3",
            lambda array, k: array.read(int(k)),
            self.flow,
            as_tensor(index),
            name=name,
            outputs=outputs,
        )

    def stack(self, name: str | None = None) -> Tensor:
        """All elements, along a new first axis."""
        dims = None if self.element_dims is None else (self.count, *self.element_dims)
        join = lambda array: _stacked(array, range(array.size()), self.dtype, self.element_dims)  # noqa: E731
        return apply("TensorArrayStack", join, self.flow, name=name, outputs=[(self.dtype, dims)])

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements at several indices, along a new first axis."""
        places = as_tensor(indices)
        count = None if places.dims is None else places.dims[0]
        dims = None if self.element_dims is None else (count, *self.element_dims)
        pick = lambda array, places: _stacked(array, places.tolist(), self.dtype, self.element_dims)  # noqa: E731
        return apply("TensorArrayGatherV3", pick, self.flow, places, name=name, outputs=[(self.dtype, dims)])

    def concat(self, name: str | None = None) -> Tensor:
        """All elements, one after the other along their first axis."""
        dims = None
        if self.element_dims:
            length = self.element_dims[0]
            total = None if self.count is None or length is None else self.count * length
            dims = (total, *self.element_dims[1:])
        join = lambda array: torch.cat([array.read(k) for k in range(array.size())])  # noqa: E731
        return apply("TensorArrayConcatV3", join, self.flow, name=name, outputs=[(self.dtype, dims)])

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """The array of the slices of a tensor along its first axis."""
        given = as_tensor(value, self.dtype)
        made = self.with_flow(
            self._operation("TensorArrayUnstack", lambda array, x: array.unstack(x), self.flow, given, name=name)
        )
        made.element_dims = None if given.dims is None else given.dims[1:]
        made.count = None if given.dims is None else given.dims[0]
        return made

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with the slices of a tensor written at several indices."""
        given, places = as_tensor(value, self.dtype), as_tensor(indices)
        write = _write_or_grow if self.dynamic_size else _write

        def put(array: Values, at: torch.Tensor, rows: torch.Tensor) -> Values:
            if at.shape != rows.shape[:1]:
                raise ValueError(f"there are {at.numel()} indices for a value of shape {list(rows.shape)}")
            for index, row in zip(at, rows, strict=True):
                array = write(array, index, row)
            return array

        made = self.with_flow(self._operation("TensorArrayScatterV3", put, self.flow, places, given, name=name))
        made.element_dims = merged(self.element_dims, None if given.dims is None else given.dims[1:])
        return made

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """The array of the pieces of a tensor along its first axis, which have these lengths."""
        given, sizes = as_tensor(value, self.dtype), as_tensor(lengths)

        def cut(array: Values, x: torch.Tensor, lengths: torch.Tensor) -> Values:
            if not self.dynamic_size and lengths.numel() != array.size():
                raise ValueError(f"a TensorArray of {array.size()} cannot be split into {lengths.numel()} pieces")
            return Values(elements=x.split(lengths.tolist()))

        made = self.with_flow(self._operation("TensorArraySplitV3", cut, self.flow, given, sizes, name=name))
        made.element_dims = None if given.dims is None else (None, *given.dims[1:])
        made.count = None if sizes.dims is None else sizes.dims[0]
        return made

    def size(self, name: str | None = None) -> Tensor:
        """How many elements there are."""
        count = lambda array: torch.tensor(array.size(), dtype=torch.int32)  # noqa: E731
        return apply("TensorArraySizeV3", count, self.flow, name=name, outputs=[(int32, ())])

    def identity(self) -> TensorArray:
        """The same array."""
        return self.with_flow(self._operation("Identity", lambda array: array, self.flow))

    def close(self, name: str | None = None) -> Any:
        """Nothing to do: an array is freed when nobody reads it."""
        from unspool.tf1.variables import no_op

        return no_op(name)


def _stacked(array: Values, places: Sequence[int], dtype: DType, dims: Dims) -> torch.Tensor:
    """Elements along a new first axis; what was never written is zero, as in TensorFlow."""
    written = next((array.read(k) for k in range(array.size()) if array.has(k)), None)
    if written is None:
        if dims is None or None in dims:
            raise ValueError("a TensorArray of which nothing was written needs an element_shape to be stacked")
        written = torch.zeros([size or 0 for size in dims], dtype=dtype.torch)
    if not places:
        return written.new_zeros((0, *written.shape))
    blank = torch.zeros_like(written)
    return torch.stack([blank if k < array.size() and not array.has(k) else array.read(k) for k in places])


def _made(size: torch.Tensor) -> Values:
    return Values(size=int(size))


def _write(array: Values, index: torch.Tensor, value: torch.Tensor) -> Values:
    if int(index) >= array.size():
        raise ValueError(
            f"Tried to write to index {int(index)} but array is not resizeable and size is: {array.size()}; give "
            "dynamic_size=True"
        )
    return array.write(int(index), value)


def _write_or_grow(array: Values, index: torch.Tensor, value: torch.Tensor) -> Values:
    return array.write(int(index), value)
