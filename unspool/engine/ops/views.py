"""Views, concatenations, scatters of slices, and tensors of one number."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.places import scatter
from unspool.engine.ops.arguments import first, given
from unspool.engine.ops.table import Axes, Linear, Lowering, Op, OpKind, Rule
from unspool.engine.rows import op_axes
from unspool.engine.rows.rules import aligned, joined, moved, one_of_several, put_back, reshaped, squeezed, stacked
from unspool.engine.trace.graph import aten

if TYPE_CHECKING:  # the stages of emitters import the table of operations
    from unspool.engine.emit.stages.row import Row
    from unspool.engine.emit.stages.strided import Ref
    from unspool.engine.ir.program import Instruction, RowCount, Value


def _same_elements(row: Row, instruction: Instruction) -> Ref:
    """The result's own shape says how they are seen."""
    return first(row, instruction)


def _slice(row: Row, instruction: Instruction) -> Ref:
    ref, dim = first(row, instruction), given(instruction, 1, 0)
    start, stop, step = (given(instruction, k, otherwise) for k, otherwise in ((2, 0), (3, None), (4, 1)))
    return _sliced(ref, dim, start, stop, step)


def _sliced(ref: Ref, dim: int, start: Any, stop: Any, step: int = 1) -> Ref:
    places = range(ref.shape[dim])[slice(_plain(start), _plain(stop), step)]
    return ref.narrow(dim, places.start, len(places), step)


def _plain(bound: int | RowCount | None) -> int | None:
    return bound if bound is None or isinstance(bound, int) else bound.times


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
    return first(row, instruction).expand(instruction.results[0].local_shape)


def _cat(row: Row, instruction: Instruction) -> Ref:
    (result,) = instruction.results
    pieces = [row.ref(piece) for piece in instruction.arguments[0]]
    pieces = [piece for piece in pieces if piece.shape != (0,)]
    return row.join(result.name, result.dtype, pieces, given(instruction, 1, 0))


def _stack(row: Row, instruction: Instruction) -> Ref:
    (result,) = instruction.results
    rank = len(result.local_shape)
    dim = given(instruction, 1, 0) % rank
    pieces = [row.ref(piece) for piece in instruction.arguments[0]]
    pieces = [row.reshape(piece, (*piece.shape[:dim], 1, *piece.shape[dim:])) for piece in pieces]
    return row.join(result.name, result.dtype, pieces, dim)


def _slice_backward(row: Row, instruction: Instruction) -> Ref:
    gradient, _, dim, start, stop, step = instruction.arguments
    (result,) = instruction.results
    zeros = row.constant(0, result.dtype, result.local_shape)
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
    place = _sliced(base, dim, start, stop, step)
    if step != 1:
        return _put_over(row, result, base, piece, lambda whole: _sliced(whole, dim, start, stop, step))
    first = range(size)[slice(_plain(start), _plain(stop))].start
    last = first + place.shape[dim]
    pieces = [base.narrow(dim, 0, first), piece.expand(place.shape), base.narrow(dim, last, size - last)]
    return row.join(result.name, result.dtype, [each for each in pieces if each.size] or pieces[:1], dim)


def _put_over(row: Row, result: Value, base: Ref, piece: Ref, place: Callable[[Ref], Ref]) -> Ref:
    """A copy of `base`, and then `piece` in some places of it."""
    whole = row.compute(result.name, "{0}", result.dtype, base.shape, base)
    taken = place(whole)
    scatter(row, whole, taken, [], piece.expand(taken.shape), adds=False)
    return whole


# -- elements that change places --------------------------------------------------------------------------------------


def _diagonal(row: Row, instruction: Instruction) -> Ref:
    return _on_diagonal(first(row, instruction), instruction, 1)


def _diagonal_scatter(row: Row, instruction: Instruction) -> Ref:
    base, piece = (row.ref(each) for each in instruction.arguments[:2])
    return _put_over(row, instruction.results[0], base, piece, lambda whole: _on_diagonal(whole, instruction, 2))


def _on_diagonal(ref: Ref, instruction: Instruction, k: int) -> Ref:
    """The diagonal of two dimensions, as the last one; the instruction says which from its k-th argument on."""
    names = ("offset", "dim1", "dim2")
    shift, one, other = (
        int(given(instruction, k + n, instruction.options.get(name, otherwise)))
        for n, (name, otherwise) in enumerate(zip(names, (0, 0, 1), strict=True))
    )
    one, other = one % len(ref.shape), other % len(ref.shape)
    down, right = max(-shift, 0), max(shift, 0)
    length = max(min(ref.shape[one] - down, ref.shape[other] - right), 0)
    kept = [dim for dim in range(len(ref.shape)) if dim not in (one, other)]
    return replace(
        ref,
        shape=(*(ref.shape[dim] for dim in kept), length),
        strides=(*(ref.strides[dim] for dim in kept), ref.strides[one] + ref.strides[other]),
        offset=ref.offset + down * ref.strides[one] + right * ref.strides[other],
    )


def _unfold(row: Row, instruction: Instruction) -> Ref:
    ref = first(row, instruction)
    dim, size, step = map(int, instruction.arguments[1:4])
    windows = ref.narrow(dim, 0, (ref.shape[dim] - size) // step + 1, step)
    return replace(windows, shape=(*windows.shape, size), strides=(*windows.strides, ref.strides[dim]))


def _flip(row: Row, instruction: Instruction) -> Ref:
    ref, dims = first(row, instruction), list[int](instruction.arguments[1])
    for dim in dims:
        ref = ref.narrow(dim, max(ref.shape[dim] - 1, 0), ref.shape[dim], -1)
    return ref


def _roll(row: Row, instruction: Instruction) -> Ref:
    (result,), ref = instruction.results, first(row, instruction)
    shifts, dims = list[int](instruction.arguments[1]), list[int](given(instruction, 2, ()))
    if len(shifts) != len(dims):
        raise CannotEmitError("a roll of all elements")
    for by, dim in zip(shifts, dims, strict=True):
        size = ref.shape[dim]
        shift = by % size if size else 0
        if shift:
            pieces = [ref.narrow(dim, size - shift, shift), ref.narrow(dim, 0, size - shift)]
            ref = row.join(result.name, result.dtype, pieces, dim)
    return ref


def _pad(row: Row, instruction: Instruction) -> Ref:
    (result,), ref = instruction.results, first(row, instruction)
    widths, number = list[int](instruction.arguments[1]), given(instruction, 2, 0)
    for k in range(len(widths) // 2):
        dim = len(ref.shape) - 1 - k
        before, after = widths[2 * k : 2 * k + 2]
        inner = ref.narrow(dim, max(-before, 0), ref.shape[dim] - max(-before, 0) - max(-after, 0))
        padding = row.constant(number, result.dtype, inner.shape)
        sizes = (max(before, 0), inner.shape[dim], max(after, 0))
        pieces = [padding.repeat(dim, sizes[0]), inner, padding.repeat(dim, sizes[2])]
        kept = [piece for piece, size in zip(pieces, sizes, strict=True) if size]
        ref = row.join(result.name, result.dtype, kept, dim) if len(kept) > 1 else (kept or [inner])[0]
    return ref


def _triangle(sign: str) -> Lowering:
    def lowering(row: Row, instruction: Instruction) -> Ref:
        (result,), ref = instruction.results, first(row, instruction)
        if not result.dtype.is_floating_point:
            raise CannotEmitError(f"{instruction.operation} has no compiled form for {result.dtype}")
        # How far an element is right of the diagonal.
        right = row.counted(ref.shape, (*[0] * (len(ref.shape) - 2), -1, 1), -int(given(instruction, 1, 0)))
        text = f"({{0}} {sign} 0 ? {{1}} : 0)"
        return row.compute(result.name, text, result.dtype, ref.shape, right, ref)

    return lowering


def _full(row: Row, instruction: Instruction) -> Ref:
    (result,) = instruction.results
    numbers = {aten.zeros_like.default: 0, aten.ones_like.default: 1, aten.zeros.default: 0, aten.ones.default: 1}
    number = numbers[instruction.operation] if instruction.operation in numbers else instruction.arguments[-1]
    if not isinstance(number, bool | int | float):
        raise CannotEmitError(f"{instruction.operation} of {number!r}")
    return row.constant(number, result.dtype, result.local_shape)


def _filled(row: Row, instruction: Instruction) -> Ref:
    (result,), number = instruction.results, instruction.arguments[1]
    return row.constant(number, result.dtype, result.local_shape)


def _copy_into(row: Row, instruction: Instruction) -> Ref:
    (result,) = instruction.results
    ref = row.ref(instruction.arguments[1])
    if ref.buffer.dtype == result.dtype:
        return ref.expand(result.local_shape)
    return row.compute(result.name, "{0}", result.dtype, result.local_shape, ref)


def _view(target: Any, rule: Rule, lowering: Lowering | None, shape_at: int | None = None) -> Op:
    return Op(target, OpKind.VIEW, rule, linear=Linear.ALL, shape_at=shape_at, lowering=lowering)


def _cutting(target: Any, axes: Axes, lowering: Lowering, shape_at: int | None = None) -> Op:
    """A view that takes places of one axis."""
    return Op(target, OpKind.VIEW, axes=axes, linear=Linear.ALL, shape_at=shape_at, lowering=lowering)


ROWS = (
    _view(aten.reshape.default, reshaped, _same_elements, shape_at=1),
    _view(aten.view.default, reshaped, _same_elements, shape_at=1),
    _view(aten._unsafe_view.default, reshaped, None, shape_at=1),
    _view(aten.t.default, moved, _t),
    _view(aten.transpose.int, moved, _transpose),
    _view(aten.permute.default, moved, _permute),
    _view(aten.unsqueeze.default, moved, _same_elements),
    _view(aten.squeeze.dim, squeezed, _same_elements),
    _view(aten.squeeze.dims, squeezed, _same_elements),
    _view(aten.expand.default, moved, _expand, shape_at=1),
    _view(aten.cat.default, joined, _cat),
    _view(aten.stack.default, stacked, _stack),
    _cutting(aten.slice.Tensor, op_axes.second_or_first_axis, _slice),
    _cutting(aten.select.int, op_axes.second_or_first_axis, _select),
    _cutting(aten.unbind.int, op_axes.second_or_first_axis, _unbind),
    _cutting(aten.split.Tensor, op_axes.third_or_first_axis, _split),
    _cutting(aten.split_with_sizes.default, op_axes.third_or_first_axis, _split),
    _cutting(aten.slice_backward.default, op_axes.third_or_last_axis, _slice_backward, shape_at=1),
    Op(operator.getitem, OpKind.OTHER, one_of_several, linear=Linear.ALL),
    # What moves elements by copying them.
    Op(
        aten.slice_scatter.default,
        OpKind.OTHER,
        axes=op_axes.third_or_last_axis,
        linear=Linear.ALL,
        lowering=_slice_scatter,
    ),
    Op(aten.select_scatter.default, OpKind.OTHER, put_back, linear=Linear.ALL, lowering=_select_scatter),
    Op(aten.diagonal_scatter.default, OpKind.OTHER, put_back, linear=Linear.ALL, lowering=_diagonal_scatter),
    Op(aten.diagonal.default, OpKind.OTHER, axes=op_axes.diagonal, linear=Linear.ALL, lowering=_diagonal),
    Op(aten.unfold.default, OpKind.OTHER, axes=op_axes.second, linear=Linear.ALL, lowering=_unfold),
    Op(aten.view_as_real.default, OpKind.OTHER, moved, linear=Linear.ALL),
    Op(aten.view_as_complex.default, OpKind.OTHER, moved, linear=Linear.ALL),
    Op(aten._conj.default, OpKind.OTHER, aligned, linear=Linear.ALL),
    Op(aten.copy.default, OpKind.OTHER, aligned, lowering=_copy_into),
    Op(aten.fill.Scalar, OpKind.OTHER, aligned, lowering=_filled),
    Op(aten.fill.Tensor, OpKind.OTHER, aligned, lowering=_copy_into),
    Op(aten.flip.default, OpKind.OTHER, axes=op_axes.second, linear=Linear.ALL, lowering=_flip),
    Op(aten.roll.default, OpKind.OTHER, axes=op_axes.rolled, linear=Linear.ALL, lowering=_roll),
    Op(aten.tril.default, OpKind.OTHER, axes=op_axes.last_two, linear=Linear.ALL, lowering=_triangle("<=")),
    Op(aten.triu.default, OpKind.OTHER, axes=op_axes.last_two, linear=Linear.ALL, lowering=_triangle(">=")),
    Op(aten.constant_pad_nd.default, OpKind.OTHER, axes=op_axes.padded, lowering=_pad),
    # Rows are made by `full` alone: rewrites replace its relatives before rows are followed.
    Op(aten.full.default, OpKind.MAKER, shape_at=0, lowering=_full),
    Op(aten.full_like.default, OpKind.MAKER, lowering=_full),
    Op(aten.zeros_like.default, OpKind.MAKER, lowering=_full),
    Op(aten.ones_like.default, OpKind.MAKER, lowering=_full),
    Op(aten.zeros.default, OpKind.MAKER, lowering=_full),
    Op(aten.ones.default, OpKind.MAKER, lowering=_full),
    Op(aten.scalar_tensor.default, OpKind.MAKER, lowering=_full),
)
