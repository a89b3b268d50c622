"""Builds the statements of one row: where each value is, and what computes it.

Rows are independent, so what a program does to all rows is what it does to each: its instructions with a single row.
Views then are strides and offsets, and sums, norms and softmaxes are loops over elements of that row.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.convolutions import MOST_IMAGES, Geometry, Options
from unspool.engine.emit.stages.dtypes import DTYPES, HALVES, MULTIPLIED, computed
from unspool.engine.emit.stages.reserved import RESERVED
from unspool.engine.emit.stages.statements import Compute, Convolve, Correlate, Largest, Product, Reduce, Statement
from unspool.engine.emit.stages.strided import Buffer, Place, Ref
from unspool.engine.ir.program import Instruction, Value


class Row:
    """Collects the statements of a row.

    Args:
        instructions: what will be lowered.
        outputs: what is needed of it.
        rounds: whether halves are rounded after every operation.
        one_pass: whether folds are not to wait for others' results, where that is exact enough.
    """

    def __init__(
        self,
        instructions: Sequence[Instruction],
        outputs: Sequence[Value | None],
        *,
        rounds: bool = False,
        one_pass: bool = False,
    ) -> None:
        self.rounds, self.one_pass = rounds, one_pass
        self.statements: list[Statement] = []
        self._refs: dict[Value, Ref] = {}
        self._names: Counter[str] = Counter()
        self._uses = Counter(value for each in instructions for value in each.uses())
        self._outputs = {value for value in outputs if value is not None}
        self._uses.update(value for value in outputs if value is not None)
        self._held: dict[Value, Product] = {}
        self._made: dict[Value, Product] = {}
        """The products that make values by themselves."""
        self.source = ""
        """The line of the user's code that is being lowered."""

    # -- values --------------------------------------------------------------------------------------------------------

    def give(self, value: Value, place: Place, index: int) -> Ref:
        """Makes a value known that comes from outside. Its rows are in front of everything else."""
        shape = local_shape(value)
        front = shape if value.shared else (value.times, *value.shape)
        buffer = self._buffer(value.name, value.dtype, math.prod(shape), place, index)
        ref = Ref.whole(buffer, front)
        if not value.shared:
            order = list(range(1, len(front)))
            order.insert(value.axis, 0)
            ref = ref.permute(order)
        self._refs[value] = ref
        return ref

    def ref(self, value: Value) -> Ref:
        """Where a value is."""
        if value in self._held:
            self._release(value)
        return self._refs[value]

    def add_up(self, value: Value, index: int) -> None:
        """Sums a value over rows, in double precision: there may be many."""
        ref = self.ref(value)
        target = self.new(f"{value.name}_total", torch.float64, ref.shape, Place.SUMMED)
        target.buffer.index = index
        self.statements.append(Compute(target, "{0}", ((ref, torch.float64),), self.source, adds=True))

    def _buffer(self, name: str, dtype: torch.dtype, size: int, place: Place = Place.SCRATCH, index: int = 0) -> Buffer:
        if dtype not in DTYPES:
            raise CannotEmitError(f"compiled loops have no {str(dtype).removeprefix('torch.')}")
        return Buffer(self._unique(name), dtype, size, place, index)

    def _unique(self, name: str) -> str:
        self._names[name] += 1
        count = self._names[name]
        if count == 1 and name not in RESERVED:
            return name
        # A copy of what is called so may ask for that name again.
        return self._unique(f"{name}_" if count == 1 else f"{name}_{count}_")

    def new(self, name: str, dtype: torch.dtype, shape: Sequence[int], place: Place = Place.SCRATCH) -> Ref:
        """Memory for a new value."""
        return Ref.whole(self._buffer(name, dtype, math.prod(shape), place), shape)

    def constant(self, number: bool | int | float, dtype: torch.dtype, shape: Sequence[int]) -> Ref:
        """A number, as often as `shape` says."""
        buffer = Buffer("", dtype, 1, Place.CONSTANT, number=number)
        return Ref(buffer, tuple(shape), (0,) * len(shape))

    def counted(self, shape: Sequence[int], strides: Sequence[int], start: int = 0) -> Ref:
        """Whole numbers: from `start`, so much more along each dimension."""
        return Ref(Buffer("", torch.int64, 1, Place.COUNTED), tuple(shape), tuple(strides), start)

    def compute(
        self, name: str, text: str, dtype: torch.dtype, shape: Sequence[int], *arguments: Ref, target: Ref | None = None
    ) -> Ref:
        """A new value, or one in the place of `target`; arguments are broadcast, and taken to its type."""
        target = target or self.new(name, dtype, shape)
        given = tuple((each.expand(tuple(shape)), dtype) for each in arguments)
        self.statements.append(Compute(target, text, given, self.source, rounds=self.rounds))
        return target

    def copy(self, ref: Ref, target: Ref | None = None) -> Ref:
        """The same elements, one after another, or in the place of `target`."""
        name = ref.buffer.name or "number"
        return self.compute(name, "{0}", ref.buffer.dtype, ref.shape, ref, target=target)

    def reduce(self, name: str, fold: str, ref: Ref, dims: Sequence[int]) -> Ref:
        """`ref` folded over `dims`, which stay as dimensions of size one."""
        return self.narrowed(name, self.fold(name, fold, ref, dims), ref.buffer.dtype)

    def narrowed(self, name: str, ref: Ref, dtype: torch.dtype) -> Ref:
        """`ref` in `dtype`, in which it is wanted; what is summed may be of another."""
        return ref if ref.buffer.dtype == dtype else self.compute(name, "{0}", dtype, ref.shape, ref)

    def widened(self, ref: Ref) -> Ref:
        """`ref` in the dtype that it is computed with."""
        own = ref.buffer.dtype
        return self.narrowed(f"{ref.buffer.name or 'number'}_wide", ref, computed(own)) if own in HALVES else ref

    def fold(self, name: str, fold: str, ref: Ref, dims: Sequence[int]) -> Ref:
        """`reduce`, but sums of float32 are float64: of blocks of these, where they lie in line."""
        rank = len(ref.shape)
        folded = sorted({dim % rank for dim in dims}) if dims else list(range(rank))
        kept = [dim for dim in range(rank) if dim not in folded]
        argument = ref.permute([*kept, *folded])
        dtype = ref.buffer.dtype
        count = math.prod(ref.shape[dim] for dim in folded)
        if count == 0:
            raise CannotEmitError("a reduction over nothing")
        if count == 1:
            return ref
        if fold == "sum" and computed(dtype) == torch.float32:
            name, dtype = f"{name}_wide", torch.float64
        target = self.new(name, dtype, [ref.shape[dim] for dim in kept])
        self.statements.append(Reduce(target, fold, argument, self.source))
        shape = tuple(1 if dim in folded else size for dim, size in enumerate(ref.shape))
        return self.reshape(target, shape)

    def search(self, name: str, value: Value, dim: int) -> Ref:
        """Where along `dim`, which stays with size one, the largest element of a value is."""
        ref = self.ref(value)
        product = self._made.get(value)
        one_row = dim == len(ref.shape) - 1 and ref.size == ref.shape[dim] and value.dtype == torch.float32
        if product is None or not one_row or self._uses[value] != 1:
            return self.find(name, "argmax", ref, dim)
        target = self.new(name, torch.int64, (*ref.shape[:-1], 1))
        place = self.statements.index(product)
        self.statements[place] = Largest(target, product.left, product.matrix, product.added, product.source)
        return target

    def find(self, name: str, fold: str, ref: Ref, dim: int) -> Ref:
        """Where along `dim`, which stays with size one, the largest or the smallest element is, by `fold`."""
        kept = [each for each in range(len(ref.shape)) if each != dim]
        shape = tuple(1 if each == dim else size for each, size in enumerate(ref.shape))
        if ref.shape[dim] == 0:
            raise CannotEmitError("a search in nothing")
        if ref.shape[dim] == 1 or ref.size == 0:
            return self.constant(0, torch.int64, shape)
        target = self.new(name, torch.int64, [ref.shape[each] for each in kept])
        self.statements.append(Reduce(target, fold, ref.permute([*kept, dim]), self.source))
        return self.reshape(target, shape)

    def reshape(self, ref: Ref, shape: Sequence[int]) -> Ref:
        """The same elements under another shape, copied if need be."""
        same = ref.reshape(shape)
        if same is None:
            same = self.copy(ref).reshape(shape)
        assert same is not None  # what lies one after another has any shape
        return same

    def keep(self, value: Value, ref: Ref, *, is_view: bool = False) -> None:
        """Makes known where an instruction's result is; a half computed as float32 becomes a half, but in a view."""
        if value.name == "_":
            return
        shape = local_shape(value)
        if math.prod(shape) != ref.size:
            raise CannotEmitError(f"{value.name} has another shape for a single row")
        if value.dtype in HALVES and not is_view:
            ref = self.narrowed(value.name, ref, value.dtype)
        self._refs[value] = ref if ref.shape == shape else self.reshape(ref, shape)

    def argument(self, each: Any, dtype: torch.dtype) -> Ref:
        """An argument of an instruction: a value or a number."""
        if isinstance(each, Value):
            return self.ref(each)
        if not isinstance(each, bool | int | float):
            raise CannotEmitError(f"{each!r} has no compiled form")
        return self.constant(each, dtype, ())

    # -- products ------------------------------------------------------------------------------------------------------

    def multiply(self, target: Ref, left: Ref, matrix: Ref, added: Ref | None = None, source: str = "") -> Product:
        """Rows times a shared matrix, plus `added`, in the place of `target`."""
        if matrix.buffer.place is not Place.SHARED:
            raise CannotEmitError("a product by a matrix that is computed in the loop")
        if any(stride < 0 for stride in matrix.strides):
            raise CannotEmitError("a product by a matrix that is read backwards")
        own = matrix.buffer.dtype
        if computed(own) != computed(target.buffer.dtype) or computed(left.buffer.dtype) != computed(own):
            raise CannotEmitError("a product of numbers of different types")
        left = self.narrowed(f"{left.buffer.name}_narrow", left, own)
        if left.buffer.place is Place.CONSTANT or (left.strides[-1] != 1 and left.shape[-1] != 1):
            left = self.copy(left)
        product = Product(target, left, matrix, added, source or self.source)
        self.statements.append(product)
        return product

    def hold(self, value: Value, left: Ref, matrix: Ref) -> None:
        """Puts a product off until it is known what is added to it."""
        target = self.new(value.name, self._product_dtype(value), local_shape(value), Place.PRODUCT)
        self._held[value] = Product(target, left, matrix, None, self.source)
        self._refs[value] = target

    def _product_dtype(self, value: Value) -> torch.dtype:
        """That of a product's scratch: sums of halves stay float32, unless they are stored elsewhere as they are."""
        return value.dtype if self.rounds or value in self._outputs else computed(value.dtype)

    def convolve(self, value: Value, image: Value, filters: Value, bias: Value | None, options: Options) -> Ref:
        """A convolution by shared filters; put off like a product if it has no bias."""
        left, matrix, shape = self.widened(self.ref(image)), self.ref(filters), local_shape(value)
        dtype = computed(value.dtype)
        if matrix.buffer.place is not Place.SHARED:
            raise CannotEmitError("a convolution with filters that are computed in the loop")
        if value.dtype not in MULTIPLIED or {image.dtype, filters.dtype} != {value.dtype}:
            raise CannotEmitError(f"a convolution has no compiled form for {value.dtype}")
        if not left.size or not matrix.size or not math.prod(shape):
            raise CannotEmitError("a convolution of nothing")
        if shape[0] > MOST_IMAGES:
            raise CannotEmitError(f"a convolution of more than {MOST_IMAGES} images a row")
        left = self.copy(left) if left.buffer.place is Place.CONSTANT else left
        geometry = Geometry(left.shape[1:], left.strides[1:], matrix.shape, shape[1:], options, dtype.itemsize)
        target = self.new(value.name, dtype, shape, Place.PRODUCT)
        images = [(target.narrow(0, k, 1), left.narrow(0, k, 1)) for k in range(shape[0])]  # those of one row
        statements = [Convolve(*each, matrix, None, self.source, geometry=geometry) for each in images]
        if bias is None and value.dtype == dtype and len(images) == 1:
            self._held[value] = statements[0]
        elif bias is None:
            self.statements += statements
        else:
            added = self.reshape(self.widened(self.ref(bias)), (1, shape[1], *[1] * (len(shape) - 2)))
            self.statements += [replace(each, added=added) for each in statements]
        return target

    def correlate(self, total: Value, image: Value, gradient: Value, options: Options, index: int) -> None:
        """Sums the gradient of filters over rows, in double precision."""
        left, right = self.widened(self.ref(image)), self.widened(self.ref(gradient))
        left, right = (self.copy(each) if each.buffer.place is Place.CONSTANT else each for each in (left, right))
        right = right if _lies_like(right, Ref.whole(right.buffer, right.shape)) else self.copy(right)
        size = left.buffer.dtype.itemsize
        geometry = Geometry(left.shape[1:], left.strides[1:], total.shape, right.shape[1:], options, size)
        target = self.new(f"{total.name}_total", torch.float64, total.shape, Place.SUMMED)
        target.buffer.index = index
        self.statements.append(Correlate(target, left, right, None, self.source, geometry=geometry))

    def add_to_held(self, product: Value, addend: Value, result: Value) -> bool:
        """Lets a product that nobody else needs start from what is added to it; False if it cannot."""
        held = self._held.get(product)
        if held is None or self._uses[product] != 1 or local_shape(result) != held.target.shape:
            return False
        added = self.ref(addend)
        same = addend.dtype == product.dtype == result.dtype
        if product not in self._held or not same:
            return False
        added = added.expand(held.target.shape)
        if added.buffer.place is Place.CONSTANT or not _can_start(held, added):
            return False
        held.target.buffer.name, own = self._unique(result.name), held.target.buffer
        own.dtype = own.dtype if isinstance(held, Convolve) else self._product_dtype(result)
        self._release(product, added)
        self._refs[result] = self._refs[product]
        if product in self._made:
            self._made[result] = self._made[product]
        return True

    def _release(self, value: Value, added: Ref | None = None) -> None:
        held = self._held.pop(value)
        if isinstance(held, Convolve):
            self.statements.append(replace(held, added=added))
            return
        self._made[value] = self.multiply(held.target, held.left, held.matrix, added, held.source)

    def finish(self) -> None:
        """Lowers the products that nothing was added to."""
        for value in list(self._held):
            self._release(value)

    # -- joining -------------------------------------------------------------------------------------------------------

    def join(self, name: str, dtype: torch.dtype, pieces: Sequence[Ref], dim: int) -> Ref:
        """`pieces` side by side. What has just been computed, and is nowhere else, is computed in its place at once."""
        rank = len(pieces[0].shape)
        dim %= rank
        shape = list(pieces[0].shape)
        shape[dim] = sum(piece.shape[dim] for piece in pieces)
        whole = self.new(name, dtype, shape)
        start = 0
        for piece in pieces:
            place = whole.narrow(dim, start, piece.shape[dim])
            start += piece.shape[dim]
            if piece.size == 0:
                continue
            own = piece.buffer
            if (
                own.place is Place.SCRATCH
                and own.home is None
                and own.dtype == dtype
                and piece.is_whole
                and place.is_contiguous
            ):
                own.home = place
            else:
                self.compute(f"{name}_part", "{0}", dtype, piece.shape, piece, target=place)
        return whole


def _can_start(product: Product, added: Ref) -> bool:
    """Whether a product can start from `added`, which has its shape."""
    if not isinstance(product, Convolve):
        return added.strides[-1] == 1
    return _lies_like(added, product.target)


def _lies_like(image: Ref, other: Ref) -> bool:
    """Whether the pixels of an image's channels lie like those of another."""
    pixels = zip(image.shape[2:], image.strides[2:], other.strides[2:], strict=True)
    return all(size == 1 or own == right for size, own, right in pixels)


def local_shape(value: Value) -> tuple[int, ...]:
    """The shape of a value with a single row."""
    return value.local_shape
