"""Sparse tensors: the elements that are there, with their places; a session feeds and fetches them as one value."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unspool.tf1.dtypes import DType, as_dtype, int64
from unspool.tf1.operations import as_tensor, known_ints
from unspool.tf1.ops.array import placeholder
from unspool.tf1.shapes import Dim, Dims, TensorShape, described
from unspool.tf1.tensor import Operators, Tensor

__all__ = ["SparseTensor", "SparseTensorValue", "convert_to_tensor_or_sparse_tensor", "sparse_placeholder"]


class SparseTensorValue(NamedTuple):
    """What a session returns for a `SparseTensor`, and takes as its feed."""

    indices: Any
    values: Any
    dense_shape: Any


class SparseTensor:
    """A tensor that is zero, or absent, everywhere but at some places.

    Args:
        indices: `[count, rank]` int64, the place of each element.
        values: `[count]`, the elements.
        dense_shape: `[rank]` int64, the shape of the whole.

    >>> from unspool import tf1 as tf
    >>> labels = tf.SparseTensor([[0, 0], [1, 2]], [5, 7], [2, 3])
    >>> tf.Session().run(tf.sparse_tensor_to_dense(labels))
    array([[5, 0, 0],
           [0, 0, 7]], dtype=int32)
    """

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        self.indices: Tensor = as_tensor(_empty_as_ints(indices, 2), int64, name="indices")
        self.values: Tensor = as_tensor(values, name="values")
        self.dense_shape: Tensor = as_tensor(_empty_as_ints(dense_shape, 1), int64, name="dense_shape")
        for each, rank, what in (
            (self.indices, 2, "indices"),
            (self.values, 1, "values"),
            (self.dense_shape, 1, "dense_shape"),
        ):
            if each.dims is not None and len(each.dims) != rank:
                raise ValueError(
                    f"{what} of a SparseTensor must have rank {rank}, but have shape {described(each.dims)}"
                )
        count, wide = self.indices.dims or (None, None)
        if self.values.dims and count is not None and self.values.dims[0] not in (None, count):
            raise ValueError(f"there are {count} indices of a SparseTensor, but {self.values.dims[0]} values")
        if self.dense_shape.dims and wide is not None and self.dense_shape.dims[0] not in (None, wide):
            raise ValueError(
                f"indices of a SparseTensor have {wide} columns, but dense_shape has {self.dense_shape.dims[0]} sizes"
            )

    @classmethod
    def from_value(cls, sparse_tensor_value: Any) -> SparseTensor:
        """The tensor with that value, a `SparseTensorValue`; a `SparseTensor` as it is."""
        if isinstance(sparse_tensor_value, SparseTensor):
            return sparse_tensor_value
        if not isinstance(sparse_tensor_value, SparseTensorValue):
            raise TypeError(f"Neither a SparseTensor nor SparseTensorValue: {sparse_tensor_value!r}.")
        return cls(*sparse_tensor_value)

    @property
    def dims(self) -> Dims:
        """The sizes of the whole, as far as they are known."""
        sizes = known_ints(self.dense_shape)
        return None if sizes is None else tuple(None if each is None or each < 0 else each for each in sizes)

    @property
    def count(self) -> Dim:
        """How many elements there are, if that is known."""
        found = [each.dims[0] for each in (self.values, self.indices) if each.dims]
        return next((each for each in found if each is not None), None)

    @property
    def shape(self) -> TensorShape:
        """The shape of the whole, as far as it is known."""
        return TensorShape(self.dims)

    def get_shape(self) -> TensorShape:
        """The shape of the whole, as far as it is known."""
        return self.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self.values.dtype

    @property
    def op(self) -> Any:
        """The operation that makes the elements."""
        return self.values.op

    @property
    def graph(self) -> Any:
        """The graph that it is in."""
        return self.values.graph

    @property
    def name(self) -> str:
        """The name of the elements."""
        return self.values.name

    def eval(self, feed_dict: Any = None, session: Any = None) -> SparseTensorValue:
        """The value, computed in the default session or in the one given."""
        from unspool.tf1.session import session_for

        return session_for(session, self.graph).run(self, feed_dict)

    def parts(self) -> list[Tensor]:
        """What a session feeds and fetches for it."""
        return [self.indices, self.values, self.dense_shape]

    def with_values(self, values: Any) -> SparseTensor:
        """Other elements at the same places."""
        return SparseTensor(self.indices, values, self.dense_shape)

    def __repr__(self) -> str:
        return f"SparseTensor(indices={self.indices!r}, values={self.values!r}, dense_shape={self.dense_shape!r})"


def as_sparse(value: Any, what: str = "Input") -> SparseTensor:
    """A `SparseTensor`, or one of a value; `TypeError` if it is something else."""
    if isinstance(value, SparseTensor | SparseTensorValue):
        return SparseTensor.from_value(value)
    raise TypeError(f"{what} must be a SparseTensor, but is a {type(value).__name__}")


def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """`tf.convert_to_tensor`, but a sparse tensor stays one."""
    if not isinstance(value, SparseTensor | SparseTensorValue):
        return as_tensor(value, dtype, name)
    found = SparseTensor.from_value(value)
    if dtype is not None and found.dtype is not as_dtype(dtype):
        raise RuntimeError(f"Sparse dtype: requested = {as_dtype(dtype).name}, actual = {found.dtype.name}")
    return found


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """A sparse tensor that has to be fed: with a `SparseTensorValue`, or a tuple of indices, values and shape.

    >>> from unspool import tf1 as tf
    >>> x = tf.sparse_placeholder(tf.float32)
    >>> tf.Session().run(tf.sparse_tensor_to_dense(x), {x: ([[0, 1]], [3.0], [1, 2])})
    array([[0., 3.]], dtype=float32)
    """
    of = lambda part: None if name is None else f"{name}/{part}"  # noqa: E731
    rank: int | None = None
    sizes: Any = None
    if isinstance(shape, Operators):
        sizes = as_tensor(shape, int64)
        rank = None if not sizes.dims else sizes.dims[0]
    elif shape is not None:
        known = TensorShape(shape).as_list()
        rank = len(known)
        sizes = None if None in known else as_tensor(np.array(known, np.int64), name=of("shape"))
    if sizes is None:
        sizes = placeholder(int64, [rank], of("shape"))
    return SparseTensor(
        placeholder(int64, [None, rank], of("indices")), placeholder(dtype, [None], of("values")), sizes
    )


def _empty_as_ints(value: Any, rank: int) -> Any:
    """Python's numbers as int64; an empty list says no dtype, and not how deep it is."""
    if isinstance(value, Operators):
        return value
    array = np.asarray(value)
    if not array.size:
        return array.astype(np.int64).reshape(array.shape if array.ndim == rank else (0,) * rank)
    return value
