"""Lowers instructions to statements over one row's elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.dtypes import HALVES, MULTIPLIED, computed
from unspool.engine.emit.stages.row import Row, local_shape
from unspool.engine.emit.stages.statements import Compute, Contract
from unspool.engine.emit.stages.strided import Place, Ref
from unspool.engine.ir.program import Instruction, Kind, Value
from unspool.engine.ops import OpKind, kind_of, op_of
from unspool.engine.ops.convolutions import gradient_of_filters
from unspool.engine.ops.scalar import argument_dtype, expression
from unspool.engine.trace.graph import aten

MOST_HEADS = 16
"""Products by this many matrices at most are written out one by one."""


def lower_instruction(row: Row, instruction: Instruction) -> None:
    """Adds the statements of one instruction to `row`.

    Raises:
        CannotEmitError: if it has no compiled form.
    """
    row.source = instruction.source
    op = op_of(instruction.operation)
    if instruction.kind is Kind.PRODUCT:
        _product(row, instruction)
    elif op is not None and op.lowering is not None:
        found = op.lowering(row, instruction)
        for value, ref in zip(instruction.results, found if isinstance(found, list) else [found], strict=True):
            row.keep(value, ref, is_view=instruction.kind is Kind.VIEW)
    elif instruction.kind is Kind.POINTWISE:
        _pointwise(row, instruction)
    else:
        raise CannotEmitError(f"{instruction.operation} has no compiled form")


def has_form(instruction: Instruction) -> bool:
    """Whether an instruction can be lowered."""
    row = Row([instruction], instruction.results)
    try:
        for k, value in enumerate(dict.fromkeys(instruction.uses())):
            row.give(value, Place.SHARED if value.shared else Place.STREAMED, k)
        lower_instruction(row, instruction)
        row.finish()
    except CannotEmitError:
        return False
    return True


def decides(instructions: Iterable[Instruction]) -> bool:
    """Whether halves are rounded after every operation, as torch does, since the last bit of a number may decide.

    So it is where numbers are compared or searched: what is decided is then what torch decides, by the numbers that
    are stored, and it is the same whether these are at hand, read, or computed again from others that were stored.
    """
    every = list(instructions)
    halves = any(value.dtype in HALVES for each in every for value in (*each.uses(), *each.results))
    return halves and any(map(_decides, every))


def _decides(instruction: Instruction) -> bool:
    if instruction.operation in (aten.amax.default, aten.amin.default):
        return True  # whose gradients go to what equals them
    given = any(each.dtype.is_floating_point for each in instruction.uses())
    decided = any(not each.dtype.is_floating_point for each in instruction.results)
    return given and decided and kind_of(instruction.operation) is not OpKind.DRAW


def is_row_sum(instruction: Instruction) -> bool:
    """Whether it is a sum over rows and nothing else, which can be added up from row to row."""
    over_rows = instruction.operation is aten.sum.dim_IntList and instruction.arguments[1] == [0]
    return over_rows and has_plain_rows(instruction.arguments[0])


def is_added_up(instruction: Instruction) -> bool:
    """Whether it is a sum over rows that is added up from row to row: it, or a gradient of filters from large images.

    Small ones, and what is not floating-point numbers, torch does better.
    """
    return is_row_sum(instruction) or gradient_of_filters(instruction) is not None


def total_of(instruction: Instruction) -> Value:
    """The sum that an instruction adds up."""
    return instruction.results[0] if is_row_sum(instruction) else instruction.results[1]


def add_up(row: Row, instruction: Instruction, index: int) -> None:
    """Adds the statement of a sum over rows to `row`; it is the sum of that number."""
    row.source = instruction.source
    found = gradient_of_filters(instruction)
    if found is None:
        row.add_up(instruction.arguments[0], index)
    else:
        row.correlate(total_of(instruction), *found, index)


def has_plain_rows(value: Any) -> bool:
    """Whether `value` is floating-point numbers with rows in front."""
    plain = isinstance(value, Value) and not value.shared and value.axis == 0 and value.times == 1
    return plain and value.dtype in MULTIPLIED


def _pointwise(row: Row, instruction: Instruction) -> None:
    operation, arguments = instruction.operation, instruction.arguments
    (result,) = instruction.results
    if operation is aten.add.Tensor and not instruction.options and _joins_product(row, instruction):
        return
    op = op_of(operation)
    scalar = None if op is None else op.scalar
    text, numbers = expression(operation, scalar, arguments, instruction.options, result.dtype)
    assert scalar is not None  # since it has a text
    dtypes = [each.dtype for each in arguments if isinstance(each, Value)]
    given = [each for each in arguments if isinstance(each, int | float)]
    dtype = argument_dtype(scalar, dtypes, given, result.dtype)
    if result.dtype is torch.bool and any(each.is_floating_point != dtype.is_floating_point for each in dtypes):
        raise CannotEmitError(f"{operation} compares numbers of different kinds")
    shape = local_shape(result)
    elements: list[tuple[Ref, torch.dtype]] = []
    for k, each in enumerate((*arguments, *numbers)):
        own = torch.bool if scalar.condition == k else dtype
        used = f"{{{k}}}" in text  # other arguments have become part of the text
        elements.append(((row.argument(each, own) if used else row.constant(0, own, ())).expand(shape), own))
    target = row.new(result.name, result.dtype, shape)
    row.statements.append(Compute(target, text, tuple(elements), instruction.source, rounds=row.rounds))
    row.keep(result, target)


def _joins_product(row: Row, instruction: Instruction) -> bool:
    (result,), (one, other) = instruction.results, instruction.arguments
    if not (isinstance(one, Value) and isinstance(other, Value)) or one == other:
        return False
    return row.add_to_held(one, other, result) or row.add_to_held(other, one, result)


def _product(row: Row, instruction: Instruction) -> None:
    operation, (left, right), (result,) = instruction.operation, instruction.arguments, instruction.results
    if result.dtype not in MULTIPLIED:
        raise CannotEmitError(f"{operation} has no compiled form for {result.dtype}")
    a, b = row.ref(left), row.ref(right)
    if not a.size or not b.size:
        row.keep(result, row.constant(0, result.dtype, local_shape(result)))
        return
    a, b = (row.copy(each) if each.buffer.place is Place.CONSTANT else each for each in (a, b))
    if operation is aten.mm.default and right.shared and not left.shared:
        row.hold(result, a, b)
    elif operation is aten.mm.default and left.shared and not right.shared:
        target = row.new(result.name, result.dtype, (b.shape[1], a.shape[0]), Place.PRODUCT)
        row.multiply(target, b.permute([1, 0]), a.permute([1, 0]))
        row.keep(result, target.permute([1, 0]))
    elif operation is aten.bmm.default and right.shared and not left.shared and a.shape[0] <= MOST_HEADS:
        target = row.new(result.name, result.dtype, local_shape(result), Place.PRODUCT)
        for head in range(a.shape[0]):
            row.multiply(target.select(0, head), a.select(0, head), b.select(0, head))
        row.keep(result, target)
    else:
        if operation is aten.mv.default:
            b = row.reshape(b, (*b.shape, 1))
        a, b = (each if len(each.shape) == 3 else each.expand((1, *each.shape)) for each in (a, b))
        if a.shape[2] == 1:  # every entry is one product of two numbers
            shape = (*a.shape[:2], b.shape[2])
            row.keep(result, row.compute(result.name, "{0} * {1}", result.dtype, shape, a, b))
            return
        target = row.new(result.name, computed(result.dtype), (*a.shape[:2], b.shape[2]))
        row.statements.append(Contract(target, a, b, instruction.source))
        row.keep(result, target)
