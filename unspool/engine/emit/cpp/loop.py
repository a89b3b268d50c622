"""A core as one compiled C++ function that runs all steps of a chunk."""

from __future__ import annotations

import ctypes
import math
from array import array
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from unspool.engine.emit.cpp.libraries.module import Module
from unspool.engine.emit.cpp.libraries.runtime import Needs, Runtime, threads
from unspool.engine.emit.cpp.printer.source import Printer
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.protocol import Chunk, Results
from unspool.engine.emit.stages.lowering import add_up, is_added_up, lower_instruction, total_of
from unspool.engine.emit.stages.passes import accesses, arrange
from unspool.engine.emit.stages.row import Row, local_shape
from unspool.engine.emit.stages.statements import Correlate
from unspool.engine.emit.stages.strided import Buffer, Place, Ref
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Instruction, Value
from unspool.engine.memory.allocation import empty
from unspool.engine.reasons import Reason


class Compiled:
    """Runs a core over a chunk of steps in one call.

    Args:
        core: what to run.
        module: what it is compiled with.
        function: the name of its function there.
    """

    def __init__(self, core: Core, module: Module, function: str = "core") -> None:
        self.core = core
        added = [each for each in core.instructions if is_added_up(each)]
        self._totals = [total_of(each) for each in added]
        self._places = [k for k, value in enumerate(core.emitted) if value not in self._totals]
        self._emitted = [core.emitted[k] for k in self._places]
        self._order = [[*self._emitted, *self._totals].index(value) for value in core.emitted]
        rest = tuple(each for each in core.instructions if each not in added)
        printer, self._read, self._changed, self._needs = _emit(
            replace(core, instructions=rest, emitted=tuple(self._emitted)), added, rounds=module.rounds
        )
        self.source = module.add(function, printer.text())
        module.need(*printer.kernels)
        self._module, self._function = module, function
        self._carried_bytes = _bytes(core.carried)
        self._emitted_bytes = _bytes(self._emitted)
        self._summed_bytes = _bytes([replace(each, dtype=torch.float64) for each in self._totals])
        self._needs.carried_count, self._needs.emitted_count = len(core.carried), len(self._emitted)
        self._needs.summed_count, self._needs.summed_bytes = len(added), ctypes.addressof(self._summed_bytes)
        self._needs.carried_bytes = ctypes.addressof(self._carried_bytes)
        self._needs.emitted_bytes = ctypes.addressof(self._emitted_bytes)
        self._nowhere = [None] * len(self._emitted)
        self._moved, self._turned = (any(each.axis for each in group) for group in (self._emitted, core.streamed))
        self._apart = array("q", (each.times * math.prod(each.shape) for each in core.streamed))
        """How many numbers the rows of streamed values are apart where these are contiguous."""
        self._matrices = [_part_of(each, core) for each in printer.matrices]
        self._searched = [_part_of(each, core) for each in printer.searched]
        self._filters = [
            (
                None if isinstance(each, Correlate) else _part_of(each.matrix, core),
                torch.tensor(each.geometry.numbers, device="cpu"),
                each.left.buffer.dtype,
            )
            for each in printer.convolutions
        ]
        shared = len(core.shared) + len(self._matrices) + 2 * len(self._searched) + 2 * len(self._filters)
        sizes = (shared, len(core.streamed), len(self._emitted), len(core.carried))
        self._offsets = [place * ctypes.sizeof(ctypes.c_void_p) for place in accumulate(sizes, initial=0)]
        """Where the pointers to shared, streamed, emitted, carried and summed values begin, in bytes."""
        self._steps = 0

    def wait(self) -> None:
        """Waits until it is compiled.

        Raises:
            CannotEmitError: if it cannot be.
        """
        self._steps = self._steps or self._module.function(self._function)

    def prepare(self, shared: Sequence[Tensor]) -> list[Tensor]:
        """The core's `shared` values as its steps read them: matrices of products packed."""
        self.wait()
        runtime = Runtime.get()
        plain = [each.contiguous() if k in self._read else each for k, each in enumerate(shared)]
        packed = [runtime.pack(_seen(shared[k], part)) for k, part in self._matrices]
        searched = [runtime.pack_search(_seen(shared[k], part)) for k, part in self._searched]
        convolved = [
            [how, how if own is None else runtime.pack_filters(_seen(shared[own[0]], own[1]).to(dtype), how)]
            for own, how, dtype in self._filters
        ]
        return [*plain, *packed, *(each for both in (*searched, *convolved) for each in both)]

    def interpreted(self, *, ragged: bool) -> Reason | None:
        """It runs any rows."""
        return None

    def __call__(self, shared: Sequence[Tensor], chunk: Chunk) -> Results:
        """Runs every step of a chunk."""
        counts = chunk.counts
        if not self._turned and all(map(_is_contiguous, chunk.streamed)):
            given, apart = chunk.streamed, self._apart
        else:
            given = list(map(row_by_row, chunk.streamed, self.core.streamed))
            each_apart = (each.stride(0) * like.times for each, like in zip(given, self.core.streamed, strict=True))
            apart = array("q", each_apart)
        state = [
            each.clone(memory_format=torch.contiguous_format) if changed and not chunk.owned else each.contiguous()
            for each, changed in zip(chunk.carried, self._changed, strict=True)
        ]
        targets = self._nowhere if chunk.into is None else [chunk.into[k] for k in self._places]
        emitted = [
            _space(like, counts.total) if target is None or not _can_take(target, like) else target
            for target, like in zip(targets, self._emitted, strict=True)
        ]
        summed = [torch.zeros((threads(), *each.shape), dtype=torch.float64, device="cpu") for each in self._totals]
        fault = array("q", bytes(32))
        pointers = array("q", map(_data_ptr, (*shared, *given, *emitted, *state, *summed)))
        first, _ = pointers.buffer_info()
        places = [first + offset for offset in self._offsets]
        ends = (fault.buffer_info()[0], apart.buffer_info()[0])
        told = array("q", (len(counts), chunk.reverse, counts[0], *counts.places, *places, *ends))
        Runtime.get().run(self._steps, told.buffer_info()[0], self._needs)
        if fault[0]:
            raise IndexError(f"index {fault[1]} is out of bounds for dimension {fault[2]} with size {fault[3]}")
        if self._moved or chunk.into is not None:
            for k, (target, like) in enumerate(zip(targets, self._emitted, strict=True)):
                if like.axis:
                    emitted[k] = emitted[k].movedim(0, like.axis)
                if target is not None and target is not emitted[k]:
                    emitted[k] = target.copy_(emitted[k])
        for each, like in zip(summed, self._totals, strict=True):
            emitted.append((each[0] if len(each) == 1 else each.sum(0)).to(like.dtype))
        return state, [emitted[k] for k in self._order]


def row_by_row(tensor: Tensor, like: Value) -> Tensor:
    """A streamed value whose rows are in front, and lie in memory as they are; if need be, a copy."""
    tensor = tensor.movedim(like.axis, 0) if like.axis else tensor
    whole = tensor.is_contiguous() or (like.times == 1 and len(tensor) and tensor[0].is_contiguous())
    return tensor if whole else tensor.contiguous()


def _emit(core: Core, sums: Sequence[Instruction], *, rounds: bool) -> tuple[Printer, set[int], list[bool], Needs]:
    """What a core does at every step, the shared values it reads unpacked, the carried ones it changes, its needs."""
    summed = (value for each in sums for value in each.uses())
    row = Row(core.instructions, (*core.new_carried, *core.emitted, *summed), rounds=rounds)
    groups = {Place.CARRIED: core.carried, Place.STREAMED: core.streamed, Place.SHARED: core.shared}
    for place, group in groups.items():
        for k, value in enumerate(group):
            row.give(value, place, k)
    for each in core.instructions:
        lower_instruction(row, each)
    row.finish()
    for k, value in enumerate(core.emitted):
        _emit_value(row, value, k)
    for k, each in enumerate(sums):
        add_up(row, each, k)
    stores: list[tuple[Ref, Ref]] = []
    changed: list[bool] = []
    for old, new in zip(core.carried, core.new_carried, strict=True):
        target = row.ref(old)
        if not target.is_whole:
            raise CannotEmitError(f"{old.name} is carried with its rows not in front")
        ref = row.constant(0, old.dtype, target.shape) if new is None else row.ref(new)
        changed.append(ref != target)
        if not changed[-1]:
            continue
        if ref.root().buffer.place is Place.CARRIED:
            ref = row.copy(ref)  # two states may change places
        stores.append((target, ref))
    stages = arrange(row.statements, stores)
    printer = Printer(stages, len(core.shared))
    matrices = [*printer.matrices, *printer.searched, *printer.filters]
    needs = Needs(
        printer.block.size,
        printer.products.size,
        printer.row_bytes,
        printer.by_row,
        max((each.shape[0] for each in printer.searched), default=0),
        len(printer.searched),
        printer.multiplications,
        sum(each.size * each.buffer.dtype.itemsize for each in matrices),
        printer.elements,
    )
    seen = {each.ref.root().buffer for each in accesses(stages)}
    read = {buffer.index for buffer in seen if buffer.place is Place.SHARED}
    return printer, read, changed, needs


def _emit_value(row: Row, value: Value, index: int) -> None:
    """Lets an emitted value be computed where it is collected, or copies it there."""
    ref = row.ref(value)
    own = ref.root().buffer
    as_it_is = value.axis == 0 and own.dtype == value.dtype
    if own.place in (Place.SCRATCH, Place.PRODUCT) and ref.root().is_whole and own is ref.buffer and as_it_is:
        own.place, own.index, own.by_all = Place.EMITTED, index, own.place is Place.PRODUCT
        return
    buffer = Buffer(f"{value.name}_out", value.dtype, ref.size, Place.EMITTED, index)
    order = [value.axis, *(dim for dim in range(len(ref.shape)) if dim != value.axis)]
    front = ref.permute(order)
    row.copy(front, Ref.whole(buffer, front.shape))


def _part_of(matrix: Ref, core: Core) -> tuple[int, Ref | None]:
    """Which of the shared values a matrix is, and which part of it if it is not the whole."""
    index = matrix.buffer.index
    return index, None if matrix.is_whole and matrix.shape == core.shared[index].shape else matrix


def _seen(tensor: Tensor, ref: Ref | None) -> Tensor:
    """The part of a tensor that `ref` is; all of it if there is none."""
    if ref is None:
        return tensor
    tensor = tensor.contiguous()
    return tensor.as_strided(ref.shape, ref.strides, tensor.storage_offset() + ref.offset)


_CPU = torch.device("cpu")
_data_ptr, _is_contiguous = Tensor.data_ptr, Tensor.is_contiguous


def _bytes(values: Sequence[Value]) -> ctypes.Array[ctypes.c_int64]:
    sizes = [math.prod(local_shape(value)) * value.dtype.itemsize for value in values]
    return (ctypes.c_int64 * len(sizes))(*sizes)


def _space(like: Value, rows: int) -> Tensor:
    return empty((rows * like.times, *like.shape), like.dtype, _CPU)


def _can_take(target: Tensor, like: Value) -> bool:
    return like.axis == 0 and target.dtype == like.dtype and target.is_contiguous()
