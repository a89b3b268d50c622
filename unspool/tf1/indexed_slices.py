"""`tf.IndexedSlices`: sparse gradients of embedding tables, as values and row indices."""

from __future__ import annotations

from typing import Any

import torch

from unspool.tf1.operations import apply
from unspool.tf1.shapes import Dims, TensorShape, described
from unspool.tf1.tensor import Operators, Tensor


class IndexedSlices(Operators):
    """Some rows of a tensor that is zero everywhere else; a row may stand in it several times, which adds up.

    Args:
        values: the rows.
        indices: the number of each.
        dense_shape: the shape of the whole.

    >>> from unspool import tf1 as tf
    >>> table = tf.get_variable("table", [5, 2])
    >>> gradient, = tf.gradients(tf.reduce_sum(tf.gather(table, [3, 3])), [table])
    >>> with tf.Session() as session:
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(gradient.indices), session.run(tf.convert_to_tensor(gradient))[3]
    (array([3, 3], dtype=int32), array([2., 2.], dtype=float32))
    """

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Any = None) -> None:
        self.values, self.indices = values, indices
        self.dense_dims: Dims = None if dense_shape is None else tuple(dense_shape)
        self._dense: Tensor | None = None

    @property
    def dense_shape(self) -> Dims:
        """The shape of the whole."""
        return self.dense_dims

    @property
    def shape(self) -> TensorShape:
        """The same, as far as it is known."""
        return TensorShape(self.dense_dims)

    @property
    def device(self) -> str:
        """Empty: a session runs where torch's default device is."""
        return ""

    @property
    def dtype(self) -> Any:
        """The dtype of the rows."""
        return self.values.dtype

    @property
    def graph(self) -> Any:
        """The graph that it is in."""
        return self.values.graph

    @property
    def name(self) -> str:
        """The name of the rows."""
        return self.values.name

    @property
    def op(self) -> Any:
        """The operation that makes the rows."""
        return self.values.op

    def _as_graph_element(self) -> Tensor:
        """The whole tensor."""
        if self._dense is None:
            if self.dense_dims is None or None in self.dense_dims:
                raise ValueError(f"Tensor conversion requested for {self!r} without a known dense_shape")
            rows = int(self.dense_dims[0] or 0)

            def add_up(values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
                return values.new_zeros(rows, *values.shape[1:]).index_add(0, indices.long(), values)

            outputs = [(self.values.dtype, self.dense_dims)]
            made: Tensor = apply("UnsortedSegmentSum", add_up, self.values, self.indices, outputs=outputs)
            self._dense = made
        return self._dense

    def __repr__(self) -> str:
        return (
            f"IndexedSlices(indices={self.indices!r}, values={self.values!r}, dense_shape={described(self.dense_dims)})"
        )


class IndexedSlicesValue(tuple[Any, ...]):
    """What a session returns for `IndexedSlices`: values, indices and the shape of the whole."""

    def __new__(cls, values: Any, indices: Any, dense_shape: Any) -> IndexedSlicesValue:
        """These three."""
        return super().__new__(cls, (values, indices, dense_shape))

    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])
    dense_shape = property(lambda self: self[2])
