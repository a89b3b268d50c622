"""How operations that only move elements are lowered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unspool.engine.emit.cpp.row import Row, local_shape
from unspool.engine.emit.cpp.strided import Ref
from unspool.engine.emit.reasons import CannotEmitError
from unspool.engine.ir.program import Instruction, Rows, Value
from unspool.engine.trace.graph import aten

Rule = Callable[[Row, Instruction], "Ref | list[Ref]"]
"""Where the results of an instruction are."""


def given(instruction: Instruction, k: int, otherwise: Any) -> Any:
    """An argument, or what it is if it was not given."""
    return instruction.arguments[k] if len(instruction.arguments) > k else otherwise


def first(row: Row, instruction: Instruction) -> Ref:
    """Where an instruction's first argument is."""
    return row.ref(instruction.arguments[0])


def _same_elements(row: Row, instruction: Instruction) -> Ref:
    """The result's own shape says how they are seen."""
    return first(row, instruction)


def _slice(row: Row, instruction: Instruction) -> Ref:
    ref, dim = first(row, instruction), given(instruction, 1, 0)
    start, stop, step = (given(instruction, k, otherwise) for k, otherwise in ((2, 0), (3, None), (4, 1)))
    return _cut(ref, dim, start, stop, step)


def _cut(ref: Ref, dim: int, start: Any, stop: Any, step: int = 1) -> Ref:
    first, last = _bounds(ref.shape[dim], start, stop)
    if step != 1:
        raise CannotEmitError("a slice with steps")
    return ref.narrow(dim, first, max(last - first, 0))


def _bounds(size: int, start: Any, stop: Any) -> tuple[int, int]:
    begin, end, _ = slice(_plain(start), _plain(stop)).indices(size)
    return begin, end


def _plain(bound: int | Rows | None) -> int | None:
    return bound.times if isinstance(bound, Rows) else bound


def _select(row: Row, instruction: Instruction) -> Ref:
    _, dim, index = instruction.arguments
    return first(row, instruction).select(dim, index)


def _split(row: Row, instruction: Instruction) -> list[Ref]:
    ref, dim = first(row, instruction), int(given(instruction, 2, 0))
    each, total = instruction.arguments[1], ref.shape[dim]
    sizes: list[int] = each
    if isinstance(each, int):
        sizes = [min(each, total - start) for start in range(0, total, each)]
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    return [ref.narrow(dim, start, size) for start, size in zip(starts, sizes, strict=True)]


def _unbind(row: Row, instruction: Instruction) -> list[Ref]:
    ref, dim = first(row, instruction), int(given(instruction, 1, 0))
    return [ref.select(dim, k) for k in range(ref.shape[dim])]


def _t(row: Row, instruction: Instruction) -> Ref:
    ref = first(row, instruction)
    return ref.permute(list(reversed(range(len(ref.shape)))))


def _transpose(row: Row, instruction: Instruction) -> Ref:
    ref, one, other = first(row, instruction), instruction.arguments[1], instruction.arguments[2]
    dims = list(range(len(ref.shape)))
    dims[one], dims[other] = dims[other], dims[one]
    return ref.permute(dims)


def _permute(row: Row, instruction: Instruction) -> Ref:
    ref = first(row, instruction)
    return ref.permute([dim % len(ref.shape) for dim in instruction.arguments[1]])


def _expand(row: Row, instruction: Instruction) -> Ref:
    return first(row, instruction).expand(local_shape(instruction.results[0]))


def _cat(row: Row, instruction: Instruction) -> Ref:
    (result,) = instruction.results
    pieces = [row.ref(piece) for piece in instruction.arguments[0]]
    pieces = [piece for piece in pieces if piece.shape != (0,)]
    return row.join(result.name, result.dtype, pieces, given(instruction, 1, 0))


def _stack(row: Row, instruction: Instruction) -> Ref:
    (result,) = instruction.results
    rank = len(local_shape(result))
    dim = given(instruction, 1, 0) % rank
    pieces = [row.ref(piece) for piece in instruction.arguments[0]]
    pieces = [row.reshape(piece, (*piece.shape[:dim], 1, *piece.shape[dim:])) for piece in pieces]
    return row.join(result.name, result.dtype, pieces, dim)


def _slice_backward(row: Row, instruction: Instruction) -> Ref:
    gradient, _, dim, start, stop, step = instruction.arguments
    (result,) = instruction.results
    zeros = row.constant(0, result.dtype, local_shape(result))
    return _put(row, result, zeros, row.ref(gradient), dim, start, stop, step)


def _slice_scatter(row: Row, instruction: Instruction) -> Ref:
    base, piece = (row.ref(each) for each in instruction.arguments[:2])
    dim, start, stop, step = (given(instruction, k, other) for k, other in ((2, 0), (3, None), (4, None), (5, 1)))
    return _put(row, instruction.results[0], base, piece, dim, start, stop, step)


def _select_scatter(row: Row, instruction: Instruction) -> Ref:
    base, piece = (row.ref(each) for each in instruction.arguments[:2])
    dim = int(instruction.arguments[2]) % len(base.shape)
    index = int(instruction.arguments[3]) % base.shape[dim]
    piece = row.reshape(piece, (*piece.shape[:dim], 1, *piece.shape[dim:]))
    return _put(row, instruction.results[0], base, piece, dim, index, index + 1)


def _put(row: Row, result: Value, base: Ref, piece: Ref, dim: int, start: Any, stop: Any, step: int = 1) -> Ref:
    """`base` with `piece` in the place of some of its entries."""
    size = base.shape[dim]
    first, last = _bounds(size, start, stop)
    place = _cut(base, dim, start, stop, step)
    pieces = [base.narrow(dim, 0, first), piece.expand(place.shape), base.narrow(dim, last, size - last)]
    return row.join(result.name, result.dtype, [each for each in pieces if each.size] or pieces[:1], dim)


def _full(row: Row, instruction: Instruction) -> Ref:
    (result,) = instruction.results
    numbers = {aten.zeros_like.default: 0, aten.ones_like.default: 1, aten.zeros.default: 0, aten.ones.default: 1}
    number = numbers[instruction.operation] if instruction.operation in numbers else instruction.arguments[-1]
    if not isinstance(number, bool | int | float):
        raise CannotEmitError(f"{instruction.operation} of {number!r}")
    return row.constant(number, result.dtype, local_shape(result))


def _copy_into(row: Row, instruction: Instruction) -> Ref:
    (result,) = instruction.results
    ref = row.ref(instruction.arguments[1])
    if ref.buffer.dtype == result.dtype:
        return ref.expand(local_shape(result))
    return row.compute(result.name, "{0}", result.dtype, local_shape(result), ref)


VIEWS: dict[Any, Rule] = {
    aten.slice.Tensor: _slice,
    aten.select.int: _select,
    aten.split_with_sizes.default: _split,
    aten.split.Tensor: _split,
    aten.unbind.int: _unbind,
    aten.reshape.default: _same_elements,
    aten.view.default: _same_elements,
    aten.unsqueeze.default: _same_elements,
    aten.squeeze.dim: _same_elements,
    aten.squeeze.dims: _same_elements,
    aten.t.default: _t,
    aten.transpose.int: _transpose,
    aten.permute.default: _permute,
    aten.expand.default: _expand,
    aten.cat.default: _cat,
    aten.stack.default: _stack,
    aten.slice_backward.default: _slice_backward,
    aten.slice_scatter.default: _slice_scatter,
    aten.select_scatter.default: _select_scatter,
    aten.full.default: _full,
    aten.full_like.default: _full,
    aten.zeros_like.default: _full,
    aten.ones_like.default: _full,
    aten.zeros.default: _full,
    aten.ones.default: _full,
    aten.scalar_tensor.default: _full,
    aten.copy.default: _copy_into,
}
