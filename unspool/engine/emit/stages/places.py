"""Statements along an axis of a row, scans and sorts, and at indices that a row computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.statements import Along, Gather, Order, Scan, Scatter
from unspool.engine.emit.stages.strided import Place, Ref

if TYPE_CHECKING:
    from unspool.engine.emit.stages.row import Row


def scan(row: Row, name: str, fold: str, ref: Ref, dim: int, dtype: torch.dtype, carry: torch.dtype) -> Ref:
    """`ref` folded along `dim`, with every intermediate result."""
    target, order = row.new(name, dtype, ref.shape), _last(ref, dim)
    row.statements.append(Scan(target.permute(order), fold, ref.permute(order), carry, row.source))
    return target


def order(
    row: Row, name: str, ref: Ref, dim: int, *, descending: bool, first: int | None = None, in_order: bool = True
) -> Ref:
    """The places along `dim` in the order of the numbers there; all, or the `first` so many."""
    order = _last(ref, dim)
    argument = (ref if ref.buffer.place.is_memory else row.copy(ref)).permute(order)
    target = row.new(name, torch.int64, argument.shape)
    row.statements.append(Order(target, argument, first, descending, in_order, row.source))
    back = target.permute([order.index(each) for each in range(len(order))])
    return back if first is None else back.narrow(dim, 0, first)


def take(row: Row, name: str, ref: Ref, dim: int, index: Ref) -> Ref:
    """The elements of `ref` at places along `dim` that this row has found itrow."""
    first = ref.repeat(dim, index.shape[dim])
    return gather(row, name, ref, first, [Along(index, ref.strides[dim], ref.shape[dim], None)])


def gather(row: Row, name: str, ref: Ref, first: Ref, places: Sequence[Along]) -> Ref:
    """Elements of `ref`; see `Gather`."""
    if ref.buffer.place is Place.CONSTANT or not first.size:
        return row.constant(ref.buffer.number, ref.buffer.dtype, first.shape)
    target = row.new(name, ref.buffer.dtype, first.shape)
    row.statements.append(Gather(target, first, _checked(places), ref, row.source))
    return target


def scatter(row: Row, target: Ref, first: Ref, places: Sequence[Along], value: Ref, *, adds: bool) -> None:
    """Writes to elements of `target`; see `Scatter`."""
    if value.size:
        row.statements.append(Scatter(target, first, _checked(places), value, adds, row.source))


def _checked(places: Sequence[Along]) -> tuple[Along, ...]:
    if any(each.size == 0 for each in places):
        raise CannotEmitError("an index into nothing")
    return tuple(places)


def _last(ref: Ref, dim: int) -> list[int]:
    """The dimensions of `ref`, with one of them behind all others."""
    return [*(each for each in range(len(ref.shape)) if each != dim % len(ref.shape)), dim % len(ref.shape)]
