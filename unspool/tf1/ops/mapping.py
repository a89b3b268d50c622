"""Functions over the slices of tensors: `map_fn`, `scan`, `foldl`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from unspool.flags import checks_flags
from unspool.structure import Structure, flatten, map_structure, unflatten_as
from unspool.tf1.functions import Function, Like
from unspool.tf1.graph import get_default_graph
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.joining import concat
from unspool.tf1.tables import together
from unspool.tf1.tensor import Tensor

if TYPE_CHECKING:
    from unspool.tf1.session import Run

__all__ = [
    "foldl",
    "map_fn",
    "scan",
]


@checks_flags
def map_fn(
    fn: Callable[[Any], Any],
    elems: Structure,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
) -> Any:
    """`fn` of each slice along the first axis, stacked.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.map_fn(lambda x: x * x, tf.constant([1, 2, 3])))
    array([1, 4, 9], dtype=int32)
    """
    given = map_structure(as_tensor, elems)
    return _over_slices("map", lambda _, each: (None, fn(each)), None, given, name)


@checks_flags
def scan(
    fn: Callable[[Any, Any], Any],
    elems: Structure,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """`fn` of what it returned last and the next slice, along the first axis; all that it returned, stacked.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.scan(lambda total, x: total + x, tf.constant([1, 2, 3])))
    array([1, 3, 6], dtype=int32)
    """
    with get_default_graph().name_scope(name or "scan"):
        return _scanned(fn, elems, initializer, reverse)


def _scanned(fn: Callable[[Any, Any], Any], elems: Structure, initializer: Any, reverse: bool) -> Any:
    given = map_structure(as_tensor, elems)
    turned = map_structure(lambda each: each[::-1], given) if reverse else given
    if initializer is None:
        start = map_structure(lambda each: each[0], turned)
        rest = map_structure(lambda each: each[1:], turned)
    else:
        start, rest = map_structure(as_tensor, initializer), turned

    def step(before: Any, each: Any) -> tuple[Any, Any]:
        made = map_structure(as_tensor, fn(before, each))
        return made, made

    made = _over_slices("scan", step, start, rest, None)
    if initializer is None:
        made = map_structure(lambda one, others: concat([one[None], others], 0), start, made)
    return map_structure(lambda each: each[::-1], made) if reverse else made


@checks_flags
def foldl(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """What `scan` returns last."""
    return map_structure(lambda each: each[-1], scan(fn, elems, initializer, name=name))


def _over_slices(
    kind: str, step: Callable[[Any, Any], tuple[Any, Any]], start: Any, elems: Structure, name: str | None
) -> Any:
    """Carries a value over the slices of tensors, and stacks what each step puts out."""
    leaves = flatten(elems)
    if any(each.dims == () for each in leaves):
        raise ValueError("elements in elems must be 1+ dimensional Tensors, not scalars")
    one = [Like(each.dtype, None if each.dims is None else each.dims[1:]) for each in leaves]
    carries = [] if start is None else flatten(start)

    def call(*given: Any) -> Any:
        before = None if start is None else unflatten_as(start, given[: len(carries)])
        after, out = step(before, unflatten_as(elems, given[len(carries) :]))
        return (() if start is None else after), out

    turn = Function(call, *carries, *one)
    outs = flatten(turn.result[1])
    first = len(turn.outputs) - len(outs)
    steps = leaves[0].dims[0] if leaves[0].dims else None

    def run_slices(run: Run, *values: Any) -> Any:
        now = list(values[: len(carries)])
        slices, outside = values[len(carries) : len(carries) + len(leaves)], values[len(carries) + len(leaves) :]
        found: list[list[Any]] = []
        for k in range(len(slices[0])):
            made = turn(run, [*now, *(each[k] for each in slices), *outside])
            now = made[:first]
            found.append(made[first:])
        columns = [torch.stack(each) for each in zip(*found, strict=True)]
        if not found:
            columns = [
                torch.zeros((0, *(size or 0 for size in each.dims or ())), dtype=each.dtype.torch)
                for each in turn.outputs[first:]
            ]
        return columns[0] if len(columns) == 1 else columns

    outputs = [(each.dtype, None if each.dims is None else (steps, *each.dims)) for each in turn.outputs[first:]]
    made = apply(
        kind,
        run_slices,
        *carries,
        *leaves,
        *turn.captured,
        name=name,
        outputs=outputs,
        takes_run=True,
        variables=turn.variables,
        reads=together([turn.reads], looped=True),
    )
    return unflatten_as(turn.result[1], [made] if isinstance(made, Tensor) else made)
