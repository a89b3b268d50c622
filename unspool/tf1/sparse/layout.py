"""Sparse tensors with other places: put in order, reshaped, cut, joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from unspool.tf1.dtypes import bool_, int64
from unspool.tf1.operations import apply, as_sizes, as_tensor, known_ints
from unspool.tf1.shapes import Dim, Dims
from unspool.tf1.sparse.dense import flat_places
from unspool.tf1.sparse.tensor import SparseTensor, as_sparse

__all__ = [
    "sparse_concat",
    "sparse_fill_empty_rows",
    "sparse_reorder",
    "sparse_reset_shape",
    "sparse_reshape",
    "sparse_retain",
    "sparse_slice",
    "sparse_transpose",
]

Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _made(
    kind: str,
    compute: Callable[..., Any],
    inputs: Sequence[Any],
    like: SparseTensor,
    dims: Dims,
    name: str | None,
    count: Dim = None,
) -> SparseTensor:
    """The sparse tensor, of `count` elements if that is known, that `compute` makes of the values of the inputs."""
    rank = None if dims is None else len(dims)
    outputs = [(int64, (count, rank)), (like.dtype, (count,)), (int64, (rank,))]
    places, values, sizes = apply(kind, compute, *inputs, name=name, outputs=outputs)
    if dims is not None and sizes.known is None:
        sizes.known = np.array(dims, object if None in dims else np.int64)
    return SparseTensor(places, values, sizes)


def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """The same elements, row by row."""
    given = as_sparse(sp_input)

    def compute(places: torch.Tensor, values: torch.Tensor, sizes: torch.Tensor) -> Parts:
        order = flat_places(places, sizes, ordered=False).sort(stable=True).indices
        return places[order], values[order], sizes

    return _made("SparseReorder", compute, given.parts(), given, given.dims, name, given.count)


def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """The same elements in another shape; -1 stands for what is left.

    >>> from unspool import tf1 as tf
    >>> flat = tf.sparse_reshape(tf.SparseTensor([[1, 2]], [7], [2, 3]), [-1])
    >>> tf.Session().run(flat).indices
    array([[5]])
    """
    given, wanted = as_sparse(sp_input), as_sizes(shape)

    def compute(places: torch.Tensor, values: torch.Tensor, sizes: torch.Tensor, new: torch.Tensor) -> Parts:
        count, asked = int(sizes.prod()), new.tolist()
        rest = int(np.prod([each for each in asked if each != -1], dtype=np.int64))
        if -1 in asked:
            if not rest or count % rest:
                raise ValueError(f"SparseReshape: {count} dense values are no multiple of {rest}")
            asked[asked.index(-1)] = count // rest
        elif rest != count:
            raise ValueError(
                f"Input to reshape is a tensor with {count} dense values, but the requested shape has {rest}"
            )
        flat = flat_places(places, sizes, ordered=False)
        moved = torch.stack(torch.unravel_index(flat, asked), 1) if asked else places.new_zeros(len(flat), 0)
        return moved, values, torch.tensor(asked, dtype=torch.int64)

    dims = _reshaped(given.dims, known_ints(wanted))
    return _made("SparseReshape", compute, [*given.parts(), wanted], given, dims, name, given.count)


def _reshaped(before: Dims, sizes: list[Dim] | None) -> Dims:
    if sizes is None:
        return None
    open_sizes = sum(each in (None, -1) for each in sizes)
    if before is not None and None not in before and open_sizes <= 1:
        count, rest = (int(np.prod([each for each in of if each not in (None, -1)])) for of in (before, sizes))
        if rest and (count % rest if open_sizes else count != rest):
            raise ValueError(f"SparseReshape: {count} dense values do not fit the shape {sizes}")
        if rest:
            return tuple(count // rest if each in (None, -1) else each for each in sizes)
    return tuple(None if each == -1 else each for each in sizes)


def sparse_transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """The axes in another order, the reverse by default."""
    given = as_sparse(sp_input)
    chosen = None if perm is None else [int(each) for each in known_ints(perm) or ()]  # pyright: ignore[reportArgumentType]

    def compute(places: torch.Tensor, values: torch.Tensor, sizes: torch.Tensor) -> Parts:
        axes = list(range(len(sizes)))[::-1] if chosen is None else chosen
        moved, wide = places[:, axes], sizes[axes]
        order = flat_places(moved, wide, ordered=False).sort(stable=True).indices
        return moved[order], values[order], wide

    dims = given.dims if given.dims is not None or chosen is None else (None,) * len(chosen)
    if dims is not None:
        dims = dims[::-1] if chosen is None else tuple(dims[each] for each in chosen)
    return _made("SparseTranspose", compute, given.parts(), given, dims, name, given.count)


def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """Some of the elements: those where a vector of truths says so."""
    given, truths = as_sparse(sp_input), as_tensor(to_retain, bool_)

    def compute(places: torch.Tensor, values: torch.Tensor, sizes: torch.Tensor, kept: torch.Tensor) -> Parts:
        if kept.shape != values.shape:
            raise ValueError(f"there are {len(values)} elements, but to_retain has shape {list(kept.shape)}")
        return places[kept], values[kept], sizes

    return _made("SparseRetain", compute, [*given.parts(), truths], given, given.dims, None)


def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """What lies in a box, which begins at `start` and ends with the tensor where it is larger."""
    given, first, wide = as_sparse(sp_input), as_sizes(start), as_sizes(size)

    def compute(
        places: torch.Tensor, values: torch.Tensor, sizes: torch.Tensor, at: torch.Tensor, by: torch.Tensor
    ) -> Parts:
        inside = ((places >= at) & (places < at + by)).all(1)
        left = torch.minimum(by.long(), (sizes - at).clamp_min(0))
        return places[inside] - at, values[inside], left

    rank = None if given.dims is None else (None,) * len(given.dims)
    return _made("SparseSlice", compute, [*given.parts(), first, wide], given, rank, name)


def sparse_concat(
    axis: int,
    sp_inputs: Sequence[Any],
    name: str | None = None,
    expand_nonconcat_dim: bool = False,
    concat_dim: int | None = None,
    expand_nonconcat_dims: bool | None = None,
) -> SparseTensor:
    """Sparse tensors side by side along an axis; the other sizes are equal, unless they may be expanded."""
    given, where = [as_sparse(each) for each in sp_inputs], axis if concat_dim is None else concat_dim
    expand = expand_nonconcat_dim if expand_nonconcat_dims is None else expand_nonconcat_dims
    if len(given) == 1:
        return given[0]

    def compute(*values: torch.Tensor) -> Parts:
        parts = [values[k : k + 3] for k in range(0, len(values), 3)]
        all_sizes = torch.stack([each[2] for each in parts])
        along = where % all_sizes.shape[1]
        wide = all_sizes.amax(0)
        others = [k for k in range(all_sizes.shape[1]) if k != along]
        if not expand and not bool((all_sizes[:, others] == wide[others]).all()):
            raise ValueError(f"Input shapes should match along other axes than {along}, but are {all_sizes.tolist()}")
        wide[along] = all_sizes[:, along].sum()
        before = all_sizes[:, along].cumsum(0) - all_sizes[:, along]
        moved = [each[0].clone() for each in parts]
        for shift, places in zip(before, moved, strict=True):
            places[:, along] += shift
        places, kept = torch.cat(moved), torch.cat([each[1] for each in parts])
        order = flat_places(places, wide, ordered=False).sort(stable=True).indices
        return places[order], kept[order].detach(), wide  # as in TensorFlow, without a gradient

    rank = next((len(each.dims) for each in given if each.dims is not None), None)
    dims = None if rank is None else (None,) * rank
    inputs = [part for each in given for part in each.parts()]
    counts = [each.count for each in given]
    count = None if None in counts else sum(each or 0 for each in counts)
    return _made("SparseConcat", compute, inputs, given[0], dims, name, count)


def sparse_reset_shape(sp_input: Any, new_shape: Any = None) -> SparseTensor:
    """The same elements in a whole of another size: as small as they allow by default."""
    given = as_sparse(sp_input)
    asked = [] if new_shape is None else [as_sizes(new_shape)]

    def compute(places: torch.Tensor, values: torch.Tensor, sizes: torch.Tensor, *new: torch.Tensor) -> Parts:
        if not new:
            return places, values, places.amax(0) + 1 if len(places) else torch.zeros_like(sizes)
        if len(new[0]) != len(sizes) or bool((new[0] < sizes).any()):
            raise ValueError(f"new_shape {new[0].tolist()} must be at least the shape {sizes.tolist()}")
        return places, values, new[0].long()

    dims = None if given.dims is None else (None,) * len(given.dims)
    if asked and (found := known_ints(asked[0])) is not None:
        dims = tuple(found)
    return _made("SparseResetShape", compute, [*given.parts(), *asked], given, dims, None, given.count)


def sparse_fill_empty_rows(sp_input: Any, default_value: Any, name: str | None = None) -> tuple[SparseTensor, Any]:
    """A matrix with a default at the start of every row that has nothing, and which rows these are."""
    given = as_sparse(sp_input)
    default = as_tensor(default_value, given.dtype)

    def compute(
        places: torch.Tensor, values: torch.Tensor, sizes: torch.Tensor, d: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        empty = torch.ones(int(sizes[0]), dtype=torch.bool, device=values.device).index_fill(0, places[:, 0], False)
        rows = empty.nonzero()
        new = torch.cat([places, torch.cat([rows, rows.new_zeros(len(rows), places.shape[1] - 1)], 1)])
        order = new[:, 0].sort(stable=True).indices
        return new[order], torch.cat([values, d.expand(len(rows))])[order], sizes, empty

    rank = None if given.dims is None else len(given.dims)
    rows = None if not given.dims else given.dims[0]
    outputs = [(int64, (None, rank)), (given.dtype, (None,)), (int64, (rank,)), (bool_, (rows,))]
    made = apply("SparseFillEmptyRows", compute, *given.parts(), default, name=name, outputs=outputs)
    return SparseTensor(made[0], made[1], given.dense_shape), made[3]
