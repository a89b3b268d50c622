"""Placeholders, and the shapes of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from unspool.tf1.dtypes import as_dtype, int32
from unspool.tf1.errors import InvalidArgumentError
from unspool.tf1.graph import get_default_graph
from unspool.tf1.operations import apply, as_axis, as_sizes, as_tensor, check_axis, ints, known_ints
from unspool.tf1.ops.creation import ones_like as ones_like
from unspool.tf1.ops.creation import zeros as zeros
from unspool.tf1.ops.creation import zeros_like as zeros_like
from unspool.tf1.ops.joining import concat as concat
from unspool.tf1.ops.joining import stack as stack
from unspool.tf1.ops.reductions import as_axes
from unspool.tf1.ops.slicing import gather as gather
from unspool.tf1.shapes import Dim, Dims, TensorShape, compatible, described, fit
from unspool.tf1.tensor import Operators, Tensor

__all__ = [
    "expand_dims",
    "identity",
    "placeholder",
    "placeholder_with_default",
    "rank",
    "reshape",
    "shape",
    "size",
    "squeeze",
    "transpose",
]


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """A tensor whose value every run is fed.

    Args:
        dtype: of the values.
        shape: what must be true of their shape; None, or None in it, for what may differ from run to run.
        name: its name, which errors mention.

    >>> from unspool import tf1 as tf
    >>> tf.placeholder(tf.float32, [None, 28], name="rows")
    <tf.Tensor 'rows:0' shape=(?, 28) dtype=float32>
    """
    wanted, dims = as_dtype(dtype), TensorShape(shape).sizes

    def not_fed() -> Any:
        raise InvalidArgumentError(
            None,
            operation,
            f"You must feed a value for placeholder tensor '{operation.name}' with dtype {wanted.name} and shape "
            f"{described(dims)}",
        )

    operation = get_default_graph().add("Placeholder", name, not_fed, (), [(wanted, dims)])
    return operation.outputs[0]


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """A tensor that may be fed, and has a value of its own if it is not."""
    given, dims = as_tensor(input), TensorShape(shape).sizes
    if not fit(given.dims, dims):
        raise ValueError(f"the default has shape {described(given.dims)}, which is not {described(dims)}")
    return apply(
        "PlaceholderWithDefault",
        lambda run, value: value,
        given,
        name=name,
        outputs=[(given.dtype, dims)],
        takes_run=True,
    )


def identity(input: Any, name: str | None = None) -> Any:
    """The same value."""
    if isinstance(input, torch.Tensor):
        return input
    given = as_tensor(input)
    return apply("Identity", lambda value: value, given, name=name, outputs=[(given.dtype, given.dims)])


# -- shapes ----------------------------------------------------------------------------------------------------------


def shape(input: Any, name: str | None = None, out_type: Any = int32) -> Any:
    """The shape of a tensor, when it has one.

    >>> from unspool import tf1 as tf
    >>> x = tf.placeholder(tf.float32, [None, 3])
    >>> tf.Session().run(tf.shape(x)[0], {x: [[1, 2, 3]]})
    np.int32(1)
    """
    given, wanted = as_tensor(input), as_dtype(out_type)
    rank = None if given.dims is None else len(given.dims)
    made = apply(
        "Shape", lambda x: torch.tensor(x.shape, dtype=wanted.torch), given, name=name, outputs=[(wanted, (rank,))]
    )
    if given.dims is not None:
        made.known = np.array(given.dims, object) if None in given.dims else np.array(given.dims, wanted.as_numpy_dtype)
    return made


def rank(input: Any, name: str | None = None) -> Any:
    """How many axes a tensor has."""
    given = as_tensor(input)
    count = lambda x: torch.tensor(x.dim(), dtype=torch.int32)  # noqa: E731
    made = apply("Rank", count, given, name=name, outputs=[(int32, ())])
    if given.dims is not None:
        made.known = np.array(len(given.dims), np.int32)
    return made


def size(input: Any, name: str | None = None, out_type: Any = int32) -> Any:
    """How many elements a tensor has."""
    given, wanted = as_tensor(input), as_dtype(out_type)
    count = lambda x: torch.tensor(x.numel(), dtype=wanted.torch)  # noqa: E731
    made = apply("Size", count, given, name=name, outputs=[(wanted, ())])
    if given.shape.is_fully_defined():
        made.known = np.array(given.shape.num_elements(), wanted.as_numpy_dtype)
    return made


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Any:
    """The same elements in another shape; -1 stands for what is left.

    Raises:
        ValueError: if the number of elements is known and another.

    >>> from unspool import tf1 as tf
    >>> x = tf.placeholder(tf.float32, [None, 5, 4])
    >>> tf.reshape(x, [-1, 20]).shape, tf.reshape(x, [tf.shape(x)[0], 20]).shape
    (TensorShape([None, 20]), TensorShape([None, 20]))
    """
    if isinstance(tensor, torch.Tensor):
        return tensor.reshape(_sizes(shape))
    given, sizes = as_tensor(tensor), as_sizes(shape)
    if sizes.dims == () or (not isinstance(shape, Operators | TensorShape) and not hasattr(shape, "__iter__")):
        raise ValueError(f"Reshape: a shape is a list of sizes, but is the number {shape!r}; [{shape!r}] is one")
    return apply(
        "Reshape",
        lambda x, s: x.reshape(ints(s)),
        given,
        sizes,
        name=name,
        outputs=[(given.dtype, _reshaped(given.dims, known_ints(sizes)))],
    )


def _sizes(shape: Any) -> list[int]:
    return [int(each) for each in (shape if isinstance(shape, Sequence) or hasattr(shape, "__iter__") else [shape])]


def _reshaped(before: Dims, sizes: Sequence[Dim] | None) -> Dims:
    if sizes is None:
        return None
    count = TensorShape(before).num_elements()
    rest = int(np.prod([each for each in sizes if each not in (None, -1)], dtype=np.int64))
    open_sizes = sum(each in (None, -1) for each in sizes)
    wrong = count is not None and ((not open_sizes and rest != count) or (open_sizes and rest and count % rest))
    if wrong:
        asked = ["?" if each is None else each for each in sizes]
        raise ValueError(f"Reshape: Cannot reshape a tensor with {count} elements to shape {asked} ({rest} elements)")
    if count is not None and open_sizes == 1 and rest:
        return tuple(count // rest if each in (None, -1) else each for each in sizes)
    return tuple(None if each == -1 else each for each in sizes)


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
    """A tensor with one more axis, of size 1; its place is a number, or a list of one."""
    chosen = axis if axis is not None else dim
    if chosen is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    if isinstance(chosen, list | tuple):
        if len(chosen) != 1:  # pyright: ignore[reportUnknownArgumentType]
            raise ValueError(f"ExpandDims: axis must be one number, but is {chosen}")
        (chosen,) = chosen  # pyright: ignore[reportUnknownVariableType]
    where = as_axis(chosen)
    if isinstance(where, Tensor):
        given = as_tensor(input)
        dims = None if given.dims is None else (None,) * (len(given.dims) + 1)
        insert = lambda x, a: x.unsqueeze(int(a))  # noqa: E731
        return apply("ExpandDims", insert, given, where, name=name, outputs=[(given.dtype, dims)])
    if isinstance(input, torch.Tensor):
        return input.unsqueeze(where)
    given, dims = as_tensor(input), None
    if given.dims is not None:
        check_axis("ExpandDims", where, len(given.dims) + 1)
        place = where % (len(given.dims) + 1)
        dims = (*given.dims[:place], 1, *given.dims[place:])
    made = apply("ExpandDims", lambda x: x.unsqueeze(where), given, name=name, outputs=[(given.dtype, dims)])
    if given.known is not None and made.known is None:
        made.known = np.expand_dims(given.known, where)
    return made


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Any:
    """A tensor without its axes of size 1, or without those that are named, which must be of size 1."""
    where = axis if axis is not None else squeeze_dims
    chosen = as_axes(where)

    def compute(x: torch.Tensor) -> torch.Tensor:
        for each in chosen or ():
            check_axis("Squeeze", each, x.dim())
            if x.shape[each] != 1:
                raise ValueError(f"Can not squeeze dim[{each}], expected a dimension of 1, got {x.shape[each]}")
        return x.squeeze() if chosen is None else x.squeeze(tuple(chosen))

    if isinstance(input, torch.Tensor):
        return compute(input)
    given = as_tensor(input)
    made = apply("Squeeze", compute, given, name=name, outputs=[(given.dtype, _squeezed(given.dims, chosen))])
    made.op.attributes = {"axis": chosen}
    return made


def _squeezed(dims: Dims, axes: Sequence[int] | None) -> Dims:
    if dims is None:
        return None
    if axes is None:
        return None if None in dims else tuple(each for each in dims if each != 1)
    for each in axes:
        check_axis("Squeeze", each, len(dims))
    gone = {each % len(dims) for each in axes}
    for each in gone:
        if not compatible(dims[each], 1):
            raise ValueError(f"Can not squeeze dim[{each}], expected a dimension of 1, got {dims[each]}")
    return tuple(size for axis, size in enumerate(dims) if axis not in gone)


def transpose(a: Any, perm: Any = None, name: str = "transpose", conjugate: bool = False) -> Any:
    """A tensor with its axes in another order; by default backwards."""
    order: list[Any] | None = None
    if isinstance(perm, Operators):
        order = known_ints(perm)
    elif perm is not None:
        order = [int(each) for each in perm]
    fed = [as_tensor(perm)] if isinstance(perm, Operators) and (order is None or None in order) else []

    def compute(x: torch.Tensor, *fed: torch.Tensor) -> torch.Tensor:
        places: Any = fed[0].tolist() if fed else order if perm is not None else list(range(x.dim()))[::-1]
        return x.permute(places)

    if isinstance(a, torch.Tensor):
        return compute(a)
    given = as_tensor(a)
    dims = _permuted(given.dims, perm is None, order)
    return apply("Transpose", compute, given, *fed, name=name, outputs=[(given.dtype, dims)])


def _permuted(dims: Dims, backwards: bool, order: Sequence[Dim] | None) -> Dims:
    if backwards:
        return None if dims is None else dims[::-1]
    if order is None:
        return None if dims is None else (None,) * len(dims)
    if dims is None:
        return (None,) * len(order)
    if len(order) != len(dims):
        raise ValueError(f"Transpose: perm {list(order)} names {len(order)} axes, but the shape is {described(dims)}")
    for each in order:
        check_axis("Transpose", each or 0, len(dims))
    return tuple(None if each is None else dims[each] for each in order)
