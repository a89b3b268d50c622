"""Shapes, slices, and putting tensors together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from unspool.tf1.dtypes import as_dtype, bool_, float32, int32
from unspool.tf1.errors import InvalidArgumentError
from unspool.tf1.graph import get_default_graph
from unspool.tf1.operations import apply, as_tensor, known_ints, same_dtype
from unspool.tf1.shapes import Dim, Dims, TensorShape, compatible, described, fit, merged
from unspool.tf1.tensor import Operators, Tensor


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
    return apply("Identity", lambda value: value, input, name=name)


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
    return apply("Rank", lambda x: torch.tensor(x.dim(), dtype=torch.int32), input, name=name, outputs=[(int32, ())])


def size(input: Any, name: str | None = None, out_type: Any = int32) -> Any:
    """How many elements a tensor has."""
    wanted = as_dtype(out_type)
    return apply(
        "Size", lambda x: torch.tensor(x.numel(), dtype=wanted.torch), input, name=name, outputs=[(wanted, ())]
    )


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
    return apply(
        "Reshape",
        lambda x, s: x.reshape(s.tolist()),
        given,
        sizes,
        name=name,
        outputs=[(given.dtype, _reshaped(given.dims, known_ints(sizes)))],
    )


def _sizes(shape: Any) -> list[int]:
    return [int(each) for each in (shape if isinstance(shape, Sequence) or hasattr(shape, "__iter__") else [shape])]


def as_sizes(shape: Any) -> Tensor:
    """A shape as a tensor of ints; `Dimension`s and tensors may stand in it."""
    if isinstance(shape, Operators):
        return as_tensor(shape)
    if isinstance(shape, TensorShape):
        shape = shape.as_list()
    entries = [shape] if isinstance(shape, int) or not hasattr(shape, "__iter__") else list(shape)
    if any(each is None for each in entries):
        raise ValueError(f"a shape for values must have no None in it, but is {entries}; tf.shape(x)[0] is a size then")
    entries = [each if isinstance(each, Operators) else int(each) for each in entries]
    return as_tensor(entries if entries else np.zeros(0, np.int32), name="shape")


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


def expand_dims(input: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Any:
    """A tensor with one more axis, of size 1."""
    where = axis if axis is not None else dim
    if where is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    made = apply("ExpandDims", lambda x: x.unsqueeze(int(where)), input, name=name)
    if isinstance(made, Tensor) and made.op.inputs[0].known is not None and made.known is None:
        made.known = np.expand_dims(made.op.inputs[0].known, int(where))
    return made


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Any:
    """A tensor without its axes of size 1, or without those that are named, which must be of size 1."""
    where = axis if axis is not None else squeeze_dims
    chosen = None if where is None else [where] if isinstance(where, int) else list(where)

    def compute(x: torch.Tensor) -> torch.Tensor:
        for each in chosen or ():
            if x.shape[each] != 1:
                raise ValueError(f"Can not squeeze dim[{each}], expected a dimension of 1, got {x.shape[each]}")
        return x.squeeze() if chosen is None else x.squeeze(tuple(chosen))

    if isinstance(input, torch.Tensor):
        return compute(input)
    given = as_tensor(input)
    return apply("Squeeze", compute, given, name=name, outputs=[(given.dtype, _squeezed(given.dims, chosen))])


def _squeezed(dims: Dims, axes: Sequence[int] | None) -> Dims:
    if dims is None:
        return None
    if axes is None:
        return None if None in dims else tuple(each for each in dims if each != 1)
    gone = {each % len(dims) for each in axes}
    for each in gone:
        if not compatible(dims[each], 1):
            raise ValueError(f"Can not squeeze dim[{each}], expected a dimension of 1, got {dims[each]}")
    return tuple(size for axis, size in enumerate(dims) if axis not in gone)


def transpose(a: Any, perm: Any = None, name: str = "transpose", conjugate: bool = False) -> Any:
    """A tensor with its axes in another order; by default backwards."""

    def compute(x: torch.Tensor) -> torch.Tensor:
        return x.permute([int(each) for each in (reversed(range(x.dim())) if perm is None else perm)])

    return apply("Transpose", compute, a, name=name)


def fill(dims: Any, value: Any, name: str | None = None) -> Any:
    """A tensor of that shape, with the same value everywhere."""
    sizes, given = as_sizes(dims), as_tensor(value)
    found = known_ints(sizes)
    return apply(
        "Fill",
        lambda s, v: v.expand(s.tolist()).contiguous(),
        sizes,
        given,
        name=name,
        outputs=[(given.dtype, None if found is None else tuple(found))],
    )


def zeros(shape: Any, dtype: Any = float32, name: str | None = None) -> Any:
    """A tensor of zeros.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.zeros([2, 3]))
    array([[0., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    return _full("zeros", torch.zeros, shape, dtype, name)


def ones(shape: Any, dtype: Any = float32, name: str | None = None) -> Any:
    """A tensor of ones."""
    return _full("ones", torch.ones, shape, dtype, name)


def _full(kind: str, make: Any, shape: Any, dtype: Any, name: str | None) -> Any:
    wanted, sizes = as_dtype(dtype), as_sizes(shape)
    found = known_ints(sizes)
    dims = None if found is None else tuple(found)
    return apply(kind, lambda s: make(s.tolist(), dtype=wanted.torch), sizes, name=name, outputs=[(wanted, dims)])


def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Any:
    """Zeros in the shape of another tensor."""
    return _like("ZerosLike", torch.zeros_like, tensor, dtype, name)


def ones_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Any:
    """Ones in the shape of another tensor."""
    return _like("OnesLike", torch.ones_like, tensor, dtype, name)


def _like(kind: str, make: Any, tensor: Any, dtype: Any, name: str | None) -> Any:
    wanted = None if dtype is None else as_dtype(dtype).torch
    return apply(kind, lambda x: make(x, dtype=wanted), tensor, name=name)


def range_(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Any:
    """The numbers from `start` up to `limit`, without it."""
    first, last = (0, start) if limit is None else (start, limit)
    given = [as_tensor(each, dtype) if dtype is not None else as_tensor(each) for each in (first, last, delta)]
    kind = (
        as_dtype(dtype)
        if dtype is not None
        else next((each.dtype for each in given if each.dtype.is_floating), given[1].dtype)
    )
    made = apply(
        "Range",
        lambda a, b, d: torch.arange(a.item(), b.item(), d.item(), dtype=kind.torch),
        *given,
        name=name,
        outputs=[(kind, (None,))],
    )
    values = [None if each.known is None or each.known.dtype == object else each.known[()] for each in given]
    if None not in values:
        made.set_shape([len(np.arange(*values))])
    return made


def linspace(start: Any, stop: Any, num: int, name: str | None = None) -> Any:
    """So many numbers from `start` to `stop`, with equal steps."""
    first, last = same_dtype("LinSpace", start, stop)
    count = int(num)
    steps = lambda a, b: torch.linspace(a.item(), b.item(), count, dtype=a.dtype)  # noqa: E731
    return apply("LinSpace", steps, first, last, name=name, outputs=[(first.dtype, (count,))])


def eye(num_rows: int, num_columns: int | None = None, dtype: Any = float32, name: str | None = None) -> Any:
    """The identity matrix."""
    wanted, columns = as_dtype(dtype), num_rows if num_columns is None else num_columns
    make = lambda: torch.eye(num_rows, columns, dtype=wanted.torch)  # noqa: E731
    return apply("eye", make, name=name, outputs=[(wanted, (num_rows, columns))])


# -- slices ----------------------------------------------------------------------------------------------------------


def getitem(tensor: Any, key: Any) -> Any:
    """`tensor[key]`: ints, slices, `...`, None for a new axis, and tensors of indices or bounds."""
    keys = key if isinstance(key, tuple) else (key,)  # pyright: ignore[reportUnknownVariableType]
    bounds: list[Any] = []

    def parted(each: Any) -> Any:
        """The key with numbers for tensors, which become inputs."""
        if isinstance(each, slice):
            return slice(parted(each.start), parted(each.stop), parted(each.step))
        if isinstance(each, Operators):
            bounds.append(as_tensor(each))
            return _Bound(len(bounds) - 1)
        return int(each) if hasattr(each, "__index__") and not isinstance(each, bool) else each

    plan = tuple(parted(each) for each in keys)
    given = as_tensor(tensor)
    if any(isinstance(each, Operators) and as_tensor(each).dtype is bool_ for each in keys):
        return boolean_mask(given, keys[0])

    def compute(x: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return _index(x, tuple(_filled(each, values) for each in plan))

    if not bounds:
        made = apply("StridedSlice", compute, given, name="strided_slice")
    else:
        dims = _sliced(given.dims, plan)
        made = apply("StridedSlice", compute, given, *bounds, name="strided_slice", outputs=[(given.dtype, dims)])
    if given.known is not None and not bounds and made.known is None:
        made.known = np.asarray(given.known[plan])
        if made.known.dtype == object and None not in made.known.reshape(-1).tolist():
            made.known = made.known.astype(given.dtype.as_numpy_dtype)
    return made


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
    """The shape where bounds are only known later."""
    if dims is None:
        return None
    sizes: list[Dim] = []
    spelled = list(plan)
    missing = len(dims) - sum(each is not None and each is not Ellipsis for each in spelled)
    where = spelled.index(Ellipsis) if Ellipsis in spelled else len(spelled)
    spelled[where : where + 1] = [slice(None)] * missing
    axis = 0
    for each in spelled:
        if each is None:
            sizes.append(1)
            continue
        if isinstance(each, slice):
            whole = each.start is None and each.stop is None and each.step is None
            sizes.append(dims[axis] if whole else None)
        axis += 1
    return tuple(sizes)


Operators.overload("__getitem__", getitem)


def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Any:
    """The part of a tensor that begins at `begin` and has the shape `size`, -1 for all that is left."""
    start, count = as_sizes(begin), as_sizes(size)

    def compute(x: torch.Tensor, s: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        for axis, (first, length) in enumerate(zip(s.tolist(), n.tolist(), strict=True)):
            x = x.narrow(axis, first, x.shape[axis] - first if length == -1 else length)
        return x

    given, lengths = as_tensor(input_), known_ints(count)
    dims = None if lengths is None else tuple(None if each in (None, -1) else each for each in lengths)
    return apply("Slice", compute, given, start, count, name=name, outputs=[(given.dtype, dims)])


def strided_slice(
    input_: Any, begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None = None, name: str | None = None
) -> Any:
    """`input_[begin:end:strides]`, for each axis."""
    steps = [1] * len(begin) if strides is None else strides
    return getitem(as_tensor(input_), tuple(slice(*each) for each in zip(begin, end, steps, strict=True)))


def gather(params: Any, indices: Any, validate_indices: Any = None, name: str | None = None, axis: int = 0) -> Any:
    """The slices of a tensor at those indices along an axis.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.gather([10, 20, 30], [[2, 0]]))
    array([[30, 10]], dtype=int32)
    """

    def compute(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        where = axis % x.dim()
        chosen = x.index_select(where, places.reshape(-1))
        return chosen.reshape(*x.shape[:where], *places.shape, *x.shape[where + 1 :])

    given, places = as_tensor(params), as_tensor(indices)
    if not places.dtype.is_integer:
        raise TypeError(f"indices must be whole numbers, but are {places.dtype.name}")
    dims = None
    if given.dims is not None and places.dims is not None:
        where = axis % len(given.dims)
        dims = (*given.dims[:where], *places.dims, *given.dims[where + 1 :])
    if given.op.type == "VariableV2" and axis == 0 and given.dims is not None and len(given.dims) == 2:
        return apply("ResourceGather", _rows, given, places, name=name, outputs=[(given.dtype, dims)])
    return apply("GatherV2", compute, given, places, name=name, outputs=[(given.dtype, dims)])


def _rows(table: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Rows of a variable, with gradients that hold no more than these."""
    if places.numel() and (int(places.min()) < 0 or int(places.max()) >= len(table)):
        outside = places[(places < 0) | (places >= len(table))].reshape(-1)[0].item()
        raise ValueError(f"indices = {outside} is not in [0, {len(table)})")
    return torch.nn.functional.embedding(places, table, sparse=table.is_floating_point())


def gather_nd(params: Any, indices: Any, name: str | None = None) -> Any:
    """The elements, or slices, at indices of several axes, which stand in the last axis of `indices`."""
    return apply("GatherNd", lambda x, places: x[tuple(places.long().unbind(-1))], params, indices, name=name)


def boolean_mask(tensor: Any, mask: Any, name: str = "boolean_mask", axis: int | None = None) -> Any:
    """The slices of a tensor where the mask is true."""
    given, chosen = as_tensor(tensor), as_tensor(mask)
    where, deep = axis or 0, len(chosen.dims or (None,))
    dims = None
    if given.dims is not None and chosen.dims is not None:
        if not fit(given.dims[where : where + deep], chosen.dims):
            raise ValueError(
                f"Shapes {described(given.dims[where : where + deep])} and {described(chosen.dims)} are incompatible"
            )
        dims = (*given.dims[:where], None, *given.dims[where + deep :])
    key = (slice(None),) * where
    return apply("BooleanMask", lambda x, m: x[(*key, m)], given, chosen, name=name, outputs=[(given.dtype, dims)])


# -- several tensors -------------------------------------------------------------------------------------------------


def stack(values: Any, axis: int = 0, name: str = "stack") -> Any:
    """Tensors of one shape, side by side along a new axis."""
    if isinstance(values, Operators):
        return as_tensor(values)
    if any(isinstance(each, torch.Tensor) for each in values):
        return torch.stack(list(values), axis)
    given = same_dtype("Pack", *values)
    dims: Any = None
    for each in given:
        dims = merged(dims, each.dims)
    if dims is not None:
        where = axis % (len(dims) + 1)
        dims = (*dims[:where], len(given), *dims[where:])
    made = apply("Pack", lambda *each: torch.stack(each, axis), *given, name=name, outputs=[(given[0].dtype, dims)])
    if made.known is None and any(each.known is not None for each in given) and dims is not None and len(dims) == 1:
        entries = [None if each.known is None else each.known.item() for each in given]
        made.known = np.array(entries, object)
    return made


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
    return [made] if isinstance(made, Tensor) else made


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
    where = int(axis) if not isinstance(axis, Operators) else int((known_ints(axis) or [0])[0] or 0)
    given = same_dtype("ConcatV2", *parts)
    made = apply(
        "ConcatV2",
        lambda *each: torch.cat(each, where),
        *given,
        name=name,
        outputs=[(given[0].dtype, _joined([each.dims for each in given], where))],
    )
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


def split(value: Any, num_or_size_splits: Any, axis: int = 0, num: int | None = None, name: str = "split") -> list[Any]:
    """A tensor cut along an axis: into so many equal parts, or into parts of those sizes."""
    if isinstance(num_or_size_splits, Operators):
        raise TypeError("num_or_size_splits must be known when the graph is built")
    whole = isinstance(num_or_size_splits, int)
    count = num_or_size_splits if whole else len(num_or_size_splits)

    def compute(x: torch.Tensor) -> Any:
        length = x.shape[axis]
        if whole and length % count:
            raise ValueError(f"Dimension size must be evenly divisible by {count} but is {length}")
        sizes: Any = length // count if whole else [int(each) for each in num_or_size_splits]
        if not whole and -1 in sizes:
            sizes[sizes.index(-1)] = length - sum(sizes) - 1
        parts = x.split(sizes, axis) if length else [x] * count
        return parts[0] if count == 1 else parts

    if isinstance(value, torch.Tensor):
        made = compute(value)
        return [made] if count == 1 else list(made)
    given = as_tensor(value)
    dims: list[Dims] = [None] * count
    if given.dims is not None:
        where, length = axis % len(given.dims), given.dims[axis]
        if whole and length is not None and length % count:
            raise ValueError(f"Dimension size must be evenly divisible by {count} but is {length}, for axis {axis}")
        sizes = (
            [None if length is None else length // count] * count
            if whole
            else [int(each) for each in num_or_size_splits]
        )
        if not whole and -1 in sizes:
            rest = None if length is None else length - sum(each for each in sizes if each is not None) - 1
            sizes = [rest if each == -1 else each for each in sizes]
        dims = [(*given.dims[:where], each, *given.dims[where + 1 :]) for each in sizes]
    made = apply("Split", compute, given, name=name, outputs=[(given.dtype, each) for each in dims])
    return [made] if isinstance(made, Tensor) else made


def tile(input: Any, multiples: Any, name: str | None = None) -> Any:
    """A tensor repeated along its axes."""
    given, counts = as_tensor(input), as_sizes(multiples)
    found, dims = known_ints(counts), given.dims
    if dims is not None and found is not None:
        if len(found) != len(dims):
            raise ValueError(f"Tile: there are {len(found)} multiples for {len(dims)} axes")
        dims = tuple(None if a is None or b is None else a * b for a, b in zip(dims, found, strict=True))
    return apply("Tile", lambda x, m: x.repeat(m.tolist()), given, counts, name=name, outputs=[(given.dtype, dims)])


def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None, constant_values: Any = 0) -> Any:
    """A tensor with so many values before and after it, along each axis."""
    if mode.upper() != "CONSTANT":
        raise NotImplementedError(f"mode {mode!r} is not supported; it is CONSTANT")
    given, around = as_tensor(tensor), as_tensor(paddings)

    def compute(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(
            x, [int(each) for pair in reversed(p.tolist()) for each in pair], value=constant_values
        )

    dims = given.dims
    if dims is not None:
        pairs: list[Any] = [[None, None]] * len(dims) if around.known is None else around.known.tolist()
        dims = tuple(None if a is None or None in p else a + sum(p) for a, p in zip(dims, pairs, strict=True))
    return apply("Pad", compute, given, around, name=name, outputs=[(given.dtype, dims)])


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Any:
    """A tensor backwards along axes."""
    axes = [axis] if isinstance(axis, int) else [int(each) for each in axis]
    return apply("ReverseV2", lambda x: x.flip(axes), tensor, name=name)


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
        steps = torch.arange(rows.shape[1], device=x.device)
        last = lengths.to(torch.int64)[:, None]
        if lengths.numel() and (int(lengths.max()) > rows.shape[1] or int(lengths.min()) < 0):
            raise ValueError(f"seq_lengths must be in [0, {rows.shape[1]}], but are {lengths.tolist()}")
        places = torch.where(steps < last, last - 1 - steps, steps)
        turned = rows.gather(1, places.reshape(*places.shape, *[1] * (rows.dim() - 2)).expand_as(rows))
        return turned.movedim((0, 1), (batch, time))

    given = as_tensor(input)
    return apply("ReverseSequence", compute, given, seq_lengths, name=name, outputs=[(given.dtype, given.dims)])


def one_hot(
    indices: Any,
    depth: int,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Any:
    """A new axis with one value at the index and another everywhere else; only the other past the depth.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.one_hot([1, 5], 3))
    array([[0., 1., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    width = int(depth) if not isinstance(depth, Operators) else (known_ints(depth) or [None])[0]
    if width is None:
        raise ValueError("depth must be known when the graph is built")
    on, off = 1 if on_value is None else on_value, 0 if off_value is None else off_value
    wanted = (
        as_dtype(dtype)
        if dtype is not None
        else float32
        if on_value is None and off_value is None
        else as_tensor(on).dtype
    )

    def compute(x: torch.Tensor) -> torch.Tensor:
        hot = x.unsqueeze(-1 if axis is None else axis)
        shape_of = [1] * hot.dim()
        shape_of[-1 if axis is None else axis] = width
        places = torch.arange(width, device=x.device, dtype=x.dtype).reshape(shape_of)
        made = (
            torch.full((), on, dtype=wanted.torch, device=x.device),
            torch.full((), off, dtype=wanted.torch, device=x.device),
        )
        return torch.where(hot == places, *made)

    return apply("OneHot", compute, indices, name=name)


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
        if truth.dim() == 1 and one.dim() > 1:
            truth = truth.reshape(-1, *[1] * (one.dim() - 1))
        return torch.where(truth, one, other)

    if isinstance(condition, torch.Tensor):
        return choose(condition, torch.as_tensor(x), torch.as_tensor(y))
    truth = as_tensor(condition)
    if truth.dtype is not bool_:
        raise TypeError(f"Select: the condition must be bool, but is {truth.dtype.name}")
    one, other = same_dtype("Select", x, y)
    dims = merged(one.dims, other.dims) if one.dims != () and other.dims != () else (one.dims or other.dims)
    rows = truth.dims is not None and dims is not None and len(truth.dims) == 1 and len(dims) > 1
    if truth.dims not in (None, ()) and dims is not None and not fit(truth.dims, dims[:1] if rows else dims):
        raise ValueError(f"Select: the condition has shape {described(truth.dims)}, but x and y have {described(dims)}")
    return apply("Select", choose, truth, one, other, name=name, outputs=[(one.dtype, dims)])


def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = bool_, name: str | None = None) -> Any:
    """Whether each place is before the length: `mask[..., k] = k < lengths[...]`.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.sequence_mask([1, 3], 3, tf.int32))
    array([[1, 0, 0],
           [1, 1, 1]], dtype=int32)
    """
    given, wanted = as_tensor(lengths), as_dtype(dtype)
    most = [] if maxlen is None else [as_tensor(maxlen)]

    def compute(x: torch.Tensor, *bound: torch.Tensor) -> torch.Tensor:
        width = int(bound[0]) if bound else int(x.max()) if x.numel() else 0
        return (torch.arange(width, device=x.device) < x.unsqueeze(-1)).to(wanted.torch)

    width = None if not most or most[0].known is None else int(most[0].known[()])
    dims = None if given.dims is None else (*given.dims, width)
    return apply("SequenceMask", compute, given, *most, name=name, outputs=[(wanted, dims)])


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Any:
    """A tensor stretched to a shape."""
    given, sizes = as_tensor(input), as_sizes(shape)
    found = known_ints(sizes)
    dims = None if found is None else tuple(found)
    return apply(
        "BroadcastTo", lambda x, s: x.expand(s.tolist()), given, sizes, name=name, outputs=[(given.dtype, dims)]
    )


def unique(x: Any, name: str | None = None) -> tuple[Any, Any]:
    """The different values in the order of their first appearance, and for each element which of them it is."""

    def compute(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found, places = torch.unique(values, return_inverse=True)
        first = torch.full((len(found),), len(values)).scatter_reduce_(0, places, torch.arange(len(values)), "amin")
        order = first.argsort()
        return found[order], order.argsort()[places].int()

    given = as_tensor(x)
    made = apply("Unique", compute, given, name=name, outputs=[(given.dtype, (None,)), (int32, given.dims)])
    return made[0], made[1]


def matrix_band_part(input: Any, num_lower: int, num_upper: int, name: str | None = None) -> Any:
    """A matrix that is zero outside so many diagonals below and above the main one; all of them if negative."""

    def compute(x: torch.Tensor) -> torch.Tensor:
        kept = x if num_lower < 0 else x.triu(-num_lower)
        return kept if num_upper < 0 else kept.tril(num_upper)

    return apply("MatrixBandPart", compute, input, name=name)
