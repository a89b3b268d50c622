"""Values put at places: into new tensors, and into variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from unspool.tf1.indexed_slices import IndexedSlices
from unspool.tf1.operations import apply, as_sizes, as_tensor, known_ints
from unspool.tf1.shapes import Dims, described, fit, merged
from unspool.tf1.tensor import Operators, Tensor
from unspool.tf1.variables import Variable

if TYPE_CHECKING:
    from unspool.tf1.session import Run

__all__ = [
    "dynamic_partition",
    "dynamic_stitch",
    "scatter_add",
    "scatter_div",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_nd",
    "scatter_nd_add",
    "scatter_nd_sub",
    "scatter_nd_update",
    "scatter_sub",
    "scatter_update",
]


# -- into new tensors ------------------------------------------------------------------------------------------------


def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Any:
    """Zeros of a shape, with elements or slices added at indices, which stand in the last axis of `indices`.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.scatter_nd([[3], [1], [3]], [1, 2, 4], [5]))
    array([0, 2, 0, 5, 0], dtype=int32)
    """
    places, values, sizes = as_tensor(indices), as_tensor(updates), as_sizes(shape)

    def compute(at: torch.Tensor, new: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
        blank = new.new_zeros(size.tolist())
        return blank.index_put(_checked(at, blank, new), new, accumulate=True)

    found = known_ints(sizes)
    dims = None if found is None else tuple(found)
    _check_places(places.dims, values.dims, dims)
    return apply("ScatterNd", compute, places, values, sizes, name=name, outputs=[(values.dtype, dims)])


def dynamic_stitch(indices: Sequence[Any], data: Sequence[Any], name: str | None = None) -> Any:
    """The slices of several tensors, in the places that `indices` say; of two in one place, the later.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.dynamic_stitch([[0, 2], [1]], [[10, 30], [20]]))
    array([10, 20, 30], dtype=int32)
    """
    if not isinstance(indices, list | tuple) or not isinstance(data, list | tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError("DynamicStitch: indices and data must be lists")
    if len(indices) != len(data) or not indices:
        raise ValueError(f"DynamicStitch: there are {len(indices)} indices for {len(data)} data")
    places, values = [as_tensor(each) for each in indices], [as_tensor(each) for each in data]
    rest: Dims = None
    for place, value in zip(places, values, strict=True):
        if place.dims is not None and value.dims is not None:
            if not fit(place.dims, value.dims[: len(place.dims)]):
                raise ValueError(f"DynamicStitch: {described(value.dims)} must begin with {described(place.dims)}")
            mine = value.dims[len(place.dims) :]
            if not fit(rest, mine):
                raise ValueError(f"DynamicStitch: slices have shapes {described(rest)} and {described(mine)}")
            rest = merged(rest, mine)
    known = [each.known for each in places]
    count = None
    if all(each is not None and each.dtype != object for each in known):
        count = max((int(each.max()) + 1 for each in known if each is not None and each.size), default=0)

    def compute(*given: torch.Tensor) -> torch.Tensor:
        at, parts = given[: len(places)], given[len(places) :]
        flat = torch.cat([each.reshape(-1) for each in at])
        rows = [part.reshape(place.numel(), *part.shape[place.dim() :]) for place, part in zip(at, parts, strict=True)]
        if flat.numel() and int(flat.min()) < 0:
            raise ValueError(f"DynamicStitch: indices must not be negative, but are {flat.tolist()}")
        return _Stitched.apply(flat.long(), torch.cat(rows))

    outputs = [(values[0].dtype, None if rest is None else (count, *rest))]
    return apply("DynamicStitch", compute, *places, *values, name=name, outputs=outputs)


class _Stitched(torch.autograd.Function):
    """Rows at places. As in TensorFlow, a row that another one replaces has the gradient of its place all the same."""

    @staticmethod
    def forward(ctx: Any, at: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(at)
        last = torch.full([int(at.max()) + 1 if at.numel() else 0], -1, dtype=torch.int64, device=at.device)
        last.scatter_reduce_(0, at, torch.arange(len(at), device=at.device), "amax")
        made = rows.new_zeros(len(last), *rows.shape[1:])
        made[last >= 0] = rows[last[last >= 0]]
        return made

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (at,) = ctx.saved_tensors
        return None, gradients[0].index_select(0, at)


def dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list[Any]:
    """The slices of a tensor by the number of the part that each belongs to.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.dynamic_partition([10, 20, 30], [0, 1, 0], 2))
    [array([10, 30], dtype=int32), array([20], dtype=int32)]
    """
    given, numbers, count = as_tensor(data), as_tensor(partitions), int(num_partitions)
    if count < 1:
        raise ValueError(f"DynamicPartition: num_partitions must be at least 1, but is {count}")
    dims: Dims = None
    if given.dims is not None and numbers.dims is not None:
        if not fit(numbers.dims, given.dims[: len(numbers.dims)]):
            raise ValueError(f"DynamicPartition: {described(given.dims)} must begin with {described(numbers.dims)}")
        dims = (None, *given.dims[len(numbers.dims) :])

    def compute(x: torch.Tensor, part: torch.Tensor) -> Any:
        if part.numel() and not 0 <= int(part.min()) <= int(part.max()) < count:
            raise ValueError(f"DynamicPartition: partitions must be within [0, {count}), but are {part.tolist()}")
        rows, flat = x.reshape(part.numel(), *x.shape[part.dim() :]), part.reshape(-1)
        made = [rows[flat == number] for number in range(count)]
        return made[0] if count == 1 else made

    made = apply("DynamicPartition", compute, given, numbers, name=name, outputs=[(given.dtype, dims)] * count)
    return [made] if count == 1 else made


# -- into variables --------------------------------------------------------------------------------------------------

Change = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _scatter(kind: str, change: Change, deep: bool, what: str) -> Callable[..., Tensor]:
    """A function that changes rows of a variable, or with `deep` what several indices say."""

    def call(ref: Variable, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
        if not isinstance(ref, Variable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{kind}: ref must be a variable, but is {ref!r}")
        places = as_tensor(indices)
        if not places.dtype.is_integer:
            raise TypeError(f"{kind}: indices must be whole numbers, but are {places.dtype.name}")
        values = as_tensor(updates, None if isinstance(updates, Operators) else ref.dtype)
        if values.dtype is not ref.dtype:
            raise TypeError(f"{kind}: {ref.op.name} is {ref.dtype.name}, but updates are {values.dtype.name}")
        if deep:
            _check_places(places.dims, values.dims, ref.dims)
        elif values.dims and places.dims is not None and ref.dims is not None:
            expected = (*places.dims, *ref.dims[1:])
            if not fit(expected, values.dims):
                raise ValueError(f"{kind}: updates have shape {described(values.dims)}, not {described(expected)}")

        def scatter(run: Run, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                target = run.state.value_of(ref).detach().clone()
                steps = at if deep else at.unsqueeze(-1)
                spread = new if deep or new.dim() else new.expand((*at.shape, *target.shape[1:]))
                _put(target, _checked(steps, target, spread), spread, change)
                return run.state.assign(ref, target)

        outputs = [(ref.dtype, ref.dims)]
        return apply(
            kind, scatter, places, values, name=name, outputs=outputs, takes_run=True, effect=True, changes=(ref,)
        )

    call.__doc__ = what
    call.__name__ = call.__qualname__ = kind
    return call


def _put(target: torch.Tensor, at: tuple[torch.Tensor, ...], new: torch.Tensor, change: Change) -> None:
    """Changes the target at places: in their order where one comes twice."""
    count = at[0].numel()
    flat = torch.stack([each.reshape(-1) for each in at], -1)
    if len(flat.unique(dim=0)) == count:
        target[at] = change(target[at], new)
        return
    rows = new.reshape(count, *new.shape[at[0].dim() :])
    for place, row in zip(flat, rows, strict=True):
        one = tuple(place)
        target[one] = change(target[one], row)


def _checked(at: torch.Tensor, target: torch.Tensor, new: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The indices of each axis, all within the target; `ValueError` if they or the values do not fit."""
    deep = at.shape[-1]
    sizes = torch.tensor(target.shape[:deep], device=at.device)
    if bool(((at < 0) | (at >= sizes)).any()):
        raise ValueError(f"indices {at.tolist()} are not all within {list(target.shape)}")
    if tuple(new.shape) != (*at.shape[:-1], *target.shape[deep:]):
        raise ValueError(f"updates have shape {list(new.shape)}, not {[*at.shape[:-1], *target.shape[deep:]]}")
    return tuple(at.long().unbind(-1))


def _check_places(places: Dims, values: Dims, target: Dims) -> None:
    if not places or places[-1] is None or target is None:
        return
    deep = places[-1]
    if deep > len(target):
        raise ValueError(f"indices name {deep} axes, but {described(target)} has {len(target)}")
    expected = (*places[:-1], *target[deep:])
    if not fit(expected, values):
        raise ValueError(f"updates have shape {described(values)}, not {described(expected)}")


def _quotient(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    return torch.div(old, new, rounding_mode=None if old.is_floating_point() else "trunc")


def _new(_: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    return new


scatter_update = _scatter("ScatterUpdate", _new, False, "Rows of a variable are replaced; the result is its new value.")
scatter_add = _scatter("ScatterAdd", torch.add, False, "Rows are added to those of a variable.")
scatter_sub = _scatter("ScatterSub", torch.sub, False, "Rows are subtracted from those of a variable.")
scatter_mul = _scatter("ScatterMul", torch.mul, False, "Rows of a variable are multiplied.")
scatter_div = _scatter("ScatterDiv", _quotient, False, "Rows of a variable are divided.")
scatter_min = _scatter("ScatterMin", torch.minimum, False, "The smaller of rows and those of a variable.")
scatter_max = _scatter("ScatterMax", torch.maximum, False, "The larger of rows and those of a variable.")
scatter_nd_update = _scatter("ScatterNdUpdate", _new, True, "Elements or slices of a variable are replaced.")
scatter_nd_add = _scatter("ScatterNdAdd", torch.add, True, "Elements or slices are added to those of a variable.")
scatter_nd_sub = _scatter("ScatterNdSub", torch.sub, True, "Elements or slices are subtracted from a variable.")


def _by_slices(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A method of variables that takes the rows and their places as `tf.IndexedSlices`."""

    def call(self: Variable, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
        if not isinstance(sparse_delta, IndexedSlices):
            raise TypeError(f"sparse_delta is not IndexedSlices: {sparse_delta!r}")
        return function(self, sparse_delta.indices, sparse_delta.values, name=name)

    call.__doc__ = function.__doc__
    return call


def _by_indices(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(self: Variable, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        return function(self, indices, updates, name=name)

    call.__doc__ = function.__doc__
    return call


for _name, _function in dict(scatter_update=scatter_update, scatter_add=scatter_add, scatter_sub=scatter_sub).items():
    Variable.overload(_name, _by_slices(_function))
for _name, _function in dict(
    scatter_nd_update=scatter_nd_update, scatter_nd_add=scatter_nd_add, scatter_nd_sub=scatter_nd_sub
).items():
    Variable.overload(_name, _by_indices(_function))
