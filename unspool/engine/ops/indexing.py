"""Gathers, scatters and look-ups: elements that are found by indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.places import gather, scatter
from unspool.engine.emit.stages.statements import Along
from unspool.engine.ops.arguments import dim_of, first, given
from unspool.engine.ops.table import Linear, Lowering, Op, OpKind
from unspool.engine.rows import index_rules, op_axes
from unspool.engine.trace.graph import aten

if TYPE_CHECKING:  # the stages of emitters import the table of operations
    from unspool.engine.emit.stages.row import Row
    from unspool.engine.emit.stages.strided import Ref
    from unspool.engine.ir.program import Instruction, Value


class _Found(NamedTuple):
    """Elements of a reference at indices: what they would be at the first places, and how much further they are."""

    first: Ref
    places: list[Along]


def _indices(row: Row, value: Value) -> Ref:
    ref = row.ref(value)
    if ref.buffer.dtype not in (torch.int64, torch.int32):
        raise CannotEmitError(f"indices of {ref.buffer.dtype}")
    return ref


def _along(ref: Ref, index: Ref, dim: int, *, from_end: bool = False) -> Along:
    return Along(index, ref.strides[dim], ref.shape[dim], dim, from_end)


# -- one axis ---------------------------------------------------------------------------------------------------------


def _each_at(ref: Ref, dim: int, index: Ref) -> _Found:
    """For every element of `index`, the one of `ref` in the same place but for `dim`."""
    for axis, size in enumerate(index.shape):
        if axis != dim:
            ref = ref.narrow(axis, 0, size)
    return _Found(ref.repeat(dim, index.shape[dim]), [_along(ref, index, dim)])


def _all_at(ref: Ref, dim: int, index: Ref) -> _Found:
    """Entries of `ref` along `dim`, all that is in the same place of them."""
    spread = ref.repeat(dim, index.size)
    (step,) = index.strides or (0,)
    strides = tuple(step if axis == dim else 0 for axis in range(len(ref.shape)))
    return _Found(spread, [_along(ref, replace(index, shape=spread.shape, strides=strides), dim)])


def _gather(row: Row, instruction: Instruction) -> Ref:
    ref = first(row, instruction)
    found = _each_at(ref, dim_of(instruction, ref), _indices(row, instruction.arguments[2]))
    return gather(row, instruction.results[0].name, ref, *found)


def _index_select(row: Row, instruction: Instruction) -> Ref:
    ref = first(row, instruction)
    found = _all_at(ref, dim_of(instruction, ref), _indices(row, instruction.arguments[2]))
    return gather(row, instruction.results[0].name, ref, *found)


def _scatter(row: Row, instruction: Instruction) -> Ref:
    (result,), base = instruction.results, first(row, instruction)
    index, put = _indices(row, instruction.arguments[2]), instruction.arguments[3]
    target = row.compute(result.name, "{0}", result.dtype, base.shape, base)
    found = _each_at(target, dim_of(instruction, base), index)
    value = row.argument(put, result.dtype)
    if not value.shape:
        value = value.expand(index.shape)
    for axis, size in enumerate(index.shape):
        value = value.narrow(axis, 0, size)
    scatter(row, target, *found, value, adds=instruction.operation is aten.scatter_add.default)
    return target


def _index_add(row: Row, instruction: Instruction) -> Ref:
    (result,), base = instruction.results, first(row, instruction)
    index, value = _indices(row, instruction.arguments[2]), row.ref(instruction.arguments[3])
    scale = instruction.options.get("alpha", 1)
    if scale != 1:
        number = row.constant(scale, result.dtype, ())
        value = row.compute(f"{result.name}_part", "{0} * {1}", result.dtype, value.shape, value, number)
    target = row.compute(result.name, "{0}", result.dtype, base.shape, base)
    found = _all_at(target, dim_of(instruction, base), index)
    scatter(row, target, *found, value.expand(found.first.shape), adds=True)
    return target


# -- several axes -----------------------------------------------------------------------------------------------------


def _at(row: Row, ref: Ref, given_indices: Sequence[Any]) -> _Found:
    """`ref[i, :, j]`: what is found stands where the indices stand if they are side by side, else in front."""
    indices = {dim: _indices(row, each) for dim, each in enumerate(given_indices) if each is not None}
    shape = _broadcast([each.shape for each in indices.values()])
    dims = list(indices)
    side_by_side = dims == list(range(dims[0], dims[-1] + 1))
    kept = [dim for dim in range(len(ref.shape)) if dim not in indices]
    front = [dim for dim in kept if side_by_side and dim < dims[0]]
    behind = kept[len(front) :]
    whole = replace(
        ref,
        shape=(*(ref.shape[dim] for dim in front), *shape, *(ref.shape[dim] for dim in behind)),
        strides=(*(ref.strides[dim] for dim in front), *[0] * len(shape), *(ref.strides[dim] for dim in behind)),
    )
    places: list[Along] = []
    for dim, index in indices.items():
        own = index.expand(shape)
        strides = (*[0] * len(front), *own.strides, *[0] * len(behind))
        places.append(_along(ref, replace(own, shape=whole.shape, strides=strides), dim, from_end=True))
    return _Found(whole, places)


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    padded = [(*[1] * (rank - len(shape)), *shape) for shape in shapes]
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in zip(*padded, strict=True))


def _index(row: Row, instruction: Instruction) -> Ref:
    ref = first(row, instruction)
    return gather(row, instruction.results[0].name, ref, *_at(row, ref, instruction.arguments[1]))


def _index_put(row: Row, instruction: Instruction) -> Ref:
    (result,), base = instruction.results, first(row, instruction)
    target = row.compute(result.name, "{0}", result.dtype, base.shape, base)
    found = _at(row, target, instruction.arguments[1])
    value = row.ref(instruction.arguments[2])
    scatter(row, target, *found, value.expand(found.first.shape), adds=bool(given(instruction, 3, False)))
    return target


def _embedding(row: Row, instruction: Instruction) -> Ref:
    table, index = first(row, instruction), _indices(row, instruction.arguments[1])
    flat = row.reshape(index, (math.prod(index.shape),))
    return gather(row, instruction.results[0].name, table, *_all_at(table, 0, flat))


def _indexing(target: Any, rule: Any, lowering: Lowering | None = None, linear: Linear | None = None) -> Op:
    return Op(target, OpKind.INDEXING, rule, linear=linear, lowering=lowering)


ROWS = (
    _indexing(aten.embedding.default, index_rules.looked_up, _embedding),
    _indexing(aten.embedding_dense_backward.default, index_rules.summed_look_up),
    _indexing(aten.index.Tensor, index_rules.indexed, _index, Linear.FIRST),
    _indexing(aten._unsafe_index.Tensor, index_rules.indexed, _index, Linear.FIRST),
    Op(
        aten.index_select.default,
        OpKind.INDEXING,
        axes=op_axes.second,
        linear=Linear.FIRST,
        lowering=_index_select,
    ),
    _indexing(aten.index_put.default, index_rules.index_put, _index_put, Linear.PUT),
    _indexing(aten._unsafe_index_put.default, index_rules.index_put, _index_put, Linear.PUT),
    _indexing(aten.index_add.default, index_rules.index_added, _index_add),
    _indexing(aten.gather.default, index_rules.addressed, _gather, Linear.FIRST),
    _indexing(aten.take_along_dim.default, None),
    _indexing(aten.scatter.src, index_rules.addressed, _scatter),
    _indexing(aten.scatter.value, index_rules.addressed, _scatter),
    _indexing(aten.scatter_add.default, index_rules.addressed, _scatter),
    _indexing(aten.scatter_reduce.two, None),
)
