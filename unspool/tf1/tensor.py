"""Symbolic tensors: what an operation will have computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from unspool.tf1.dtypes import DType
from unspool.tf1.shapes import Dims, TensorShape, described, merged

if TYPE_CHECKING:
    from unspool.tf1.graph import Graph
    from unspool.tf1.operation import Operation


class Operators:
    """Arithmetic, comparison and indexing, for tensors and variables alike; `tf1.ops` fills them in."""

    __array_priority__ = 100
    """So that NumPy leaves `array + tensor` to the tensor."""

    __slots__ = ()

    @classmethod
    def overload(cls, name: str, function: Callable[..., Any]) -> None:
        """Lets `function` answer to the operator."""
        setattr(cls, name, function)

    def __iter__(self) -> Any:
        raise TypeError("Tensor objects are not iterable when the graph is built; use tf.unstack, or tf.map_fn")

    def __len__(self) -> int:
        raise TypeError("len() of a Tensor is not known when the graph is built; use x.shape, or tf.shape(x)")

    def __bool__(self) -> bool:
        raise TypeError(
            "Using a tf.Tensor as a Python bool is not allowed, for it has no value when the graph is built: use "
            "`if t is not None:` to see whether it is there, and tf.cond for a choice that depends on its value"
        )

    def __deepcopy__(self, memo: Any) -> Any:
        return self  # it stands for something in a graph, of which there is one: copies of cells mean the same

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"Cannot convert a symbolic Tensor ({self!r}) to a numpy array; run it in a session")


class Tensor(Operators):
    """The output of an operation, with its dtype, and its shape as far as it is known.

    >>> from unspool import tf1 as tf
    >>> x = tf.placeholder(tf.float32, [None, 3], name="x")
    >>> y = 2 * x
    >>> y, y.get_shape().as_list()
    (<tf.Tensor 'mul:0' shape=(?, 3) dtype=float32>, [None, 3])
    """

    __slots__ = ("__weakref__", "dims", "dtype", "index", "known", "op")

    def __init__(self, op: Operation, index: int, dtype: DType, dims: Dims) -> None:
        self.op, self.index, self.dtype, self.dims = op, index, dtype, dims
        self.known: np.ndarray[Any, Any] | None = None
        """The value, where it is clear before anything runs; None in it where a part is not."""

    @property
    def name(self) -> str:
        """`operation:number`."""
        return f"{self.op.name}:{self.index}"

    @property
    def graph(self) -> Graph:
        """The graph that it is in."""
        return self.op.graph

    @property
    def device(self) -> str:
        """Empty: a session runs where torch's default device is."""
        return ""

    @property
    def shape(self) -> TensorShape:
        """The shape as far as it is known."""
        return TensorShape(self.dims)

    def get_shape(self) -> TensorShape:
        """The shape as far as it is known."""
        return self.shape

    @property
    def ndim(self) -> int | None:
        """How many axes there are, if that is known."""
        return self.shape.ndims

    def set_shape(self, shape: Any) -> None:
        """Adds what is known about the shape; `ValueError` if it contradicts what was."""
        self.dims = merged(self.dims, TensorShape(shape).sizes)

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """The value, computed in the default session or in the one given."""
        from unspool.tf1.session import session_for

        return session_for(session, self.graph).run(self, feed_dict)

    def consumers(self) -> list[Operation]:
        """The operations that read it."""
        return [each for each in self.graph.get_operations() if any(self is read for read in each.inputs)]

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={described(self.dims)} dtype={self.dtype.name}>"
