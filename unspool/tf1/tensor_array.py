"""`tf.TensorArray`: a list of tensors that is written by index, inside and outside of loops."""

from __future__ import annotations

from typing import Any

import torch

from unspool.tensor_array import TensorArray as Values
from unspool.tf1.dtypes import DType, as_dtype, int32
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.shapes import Dims, TensorShape, merged
from unspool.tf1.tensor import Tensor


class TensorArray:
    """A list of tensors of one dtype. It is a value: `write` returns another one, which must be used from then on.

    Args:
        dtype: of the elements.
        size: how many there are, or the first of them if `dynamic_size`.
        dynamic_size, clear_after_read, infer_shape, colocate_with_first_write_call, tensor_array_name: accepted; an
            array always grows as it is written, and keeps what is read.
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
        if flow is None:
            flow = self._operation("TensorArrayV3", _made, as_tensor(0 if size is None else size, int32), name=name)
        self.flow: Tensor = flow

    def with_flow(self, flow: Tensor) -> TensorArray:
        """The same array with other values."""
        return TensorArray(self.dtype, flow=flow, element_shape=self.element_dims)

    def _operation(self, kind: str, function: Any, *inputs: Any, name: str | None = None) -> Tensor:
        # The type of what carries an array is that of its elements, so that gradients go along it.
        return apply(kind, function, *inputs, name=name, outputs=[(self.dtype, ())])

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with an element written."""
        given = as_tensor(value, self.dtype)
        made = self.with_flow(
            self._operation("TensorArrayWriteV3", _write, self.flow, as_tensor(index), given, name=name)
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
        dims = None if self.element_dims is None else (None, *self.element_dims)
        return apply(
            "TensorArrayStack", lambda array: array.stack(), self.flow, name=name, outputs=[(self.dtype, dims)]
        )

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements at several indices, along a new first axis."""
        dims = None if self.element_dims is None else (None, *self.element_dims)
        pick = lambda array, places: torch.stack([array.read(k) for k in places.tolist()])  # noqa: E731
        return apply(
            "TensorArrayGatherV3", pick, self.flow, as_tensor(indices), name=name, outputs=[(self.dtype, dims)]
        )

    def concat(self, name: str | None = None) -> Tensor:
        """All elements, one after the other along their first axis."""
        dims = None if self.element_dims is None else (None, *self.element_dims[1:])
        join = lambda array: torch.cat([array.read(k) for k in range(array.size())])  # noqa: E731
        return apply("TensorArrayConcatV3", join, self.flow, name=name, outputs=[(self.dtype, dims)])

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """The array of the slices of a tensor along its first axis."""
        given = as_tensor(value, self.dtype)
        made = self.with_flow(
            self._operation("TensorArrayUnstack", lambda array, x: array.unstack(x), self.flow, given, name=name)
        )
        made.element_dims = None if given.dims is None else given.dims[1:]
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


def _made(size: torch.Tensor) -> Values:
    return Values(size=int(size))


def _write(array: Values, index: torch.Tensor, value: torch.Tensor) -> Values:
    return array.write(int(index), value)
