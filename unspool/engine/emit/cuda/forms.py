"""The CUDA printer for pointwise instructions: one line of device code each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch

from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.dtypes import DTYPES
from unspool.engine.ir.program import Instruction, Value
from unspool.engine.ops import op_of
from unspool.engine.ops.scalar import Numbers, Scalar, expression

TYPES = {dtype: each.cuda for dtype, each in DTYPES.items() if each.cuda is not None}


def has_form(instruction: Instruction) -> bool:
    """Whether an instruction can be a line of CUDA."""
    (result, *others) = instruction.results
    if instruction.options or others or result.shared:
        return False
    values = [*instruction.uses(), result]
    if any(value.axis or value.dtype not in TYPES for value in values):
        return False
    scalar = _scalar(instruction)
    served = {each for each in Numbers if each in scalar.cuda and scalar.text(each) is not None}
    if Numbers.of(result.dtype) not in served:
        return False
    dtypes = _dtypes(instruction)
    if len(dtypes) > 1:
        return False
    if served == {Numbers.REAL} and any(not value.dtype.is_floating_point for value in values):
        return False  # torch promotes integers and truth values first
    numbers = [each for each in instruction.arguments if not isinstance(each, Value)]
    if not dtypes and any(number not in (0, 1) for number in numbers):
        return False  # no truth is 2
    whole = not dtypes or not dtypes[0].is_floating_point
    if not all(isinstance(each, int if whole else int | float) for each in numbers):
        return False
    try:
        expression(instruction.operation, scalar, instruction.arguments, {}, result.dtype)
    except CannotEmitError:
        return False
    return True


def _scalar(instruction: Instruction) -> Scalar:
    """The texts of its operation; none where it is not pointwise."""
    op = op_of(instruction.operation)
    return Scalar() if op is None or op.scalar is None else op.scalar


def inputs_of(instructions: Sequence[Instruction]) -> tuple[Value, ...]:
    """What is read and not made by them."""
    made = {result for each in instructions for result in each.results}
    return tuple(dict.fromkeys(value for each in instructions for value in each.uses() if value not in made))


def named(value: Value) -> str:
    """A value's element."""
    return f"{value.name}_"  # `exp` is a function


def pointers(inputs: Iterable[Value], outputs: Iterable[Value]) -> list[str]:
    """Parameters: where values are read and written."""
    given = [f"const {TYPES[each.dtype]}* {each.name}_at" for each in inputs]
    return given + [f"{TYPES[each.dtype]}* {each.name}_out" for each in outputs]


def strides(inputs: Iterable[Value], axes: Sequence[int]) -> list[str]:
    """Parameters: how far apart the elements of what is read are along each axis."""
    return [f"int s{axis}_{each.name}" for each in inputs for axis in axes]


def reads(inputs: Iterable[Value], axes: Sequence[int]) -> list[str]:
    """The elements at `i0, i1, ...`."""
    lines: list[str] = []
    for each in inputs:
        index = " + ".join(f"i{axis} * s{axis}_{each.name}" for axis in axes)
        lines.append(f"const {TYPES[each.dtype]} {named(each)} = {each.name}_at[{index}];")
    return lines


def computes(instructions: Iterable[Instruction]) -> list[str]:
    """One line for each instruction."""
    lines: list[str] = []
    for each in instructions:
        result, (kind, *_) = each.results[0], [*_dtypes(each), torch.bool]
        scalar = _scalar(each)
        form, numbers = expression(each.operation, scalar, each.arguments, each.options, result.dtype)
        given = (*each.arguments, *numbers)
        arguments = [_argument(a, torch.bool if k == scalar.condition else kind) for k, a in enumerate(given)]
        if kind == torch.int64 and scalar.wraps:  # as torch's do; in C++ only unsigned numbers wrap around
            arguments, form = [f"((unsigned long long){a})" for a in arguments], f"(long long)({form})"
        text = form.format(*arguments)
        lines.append(f"const {TYPES[result.dtype]} {named(result)} = {text.replace('T(', f'({TYPES[kind]})(')};")
    return lines


def writes(outputs: Iterable[Value], place: str) -> list[str]:
    """Writes elements to their place."""
    return [f"{each.name}_out[{place}] = {named(each)};" for each in outputs]


def _dtypes(instruction: Instruction) -> list[torch.dtype]:
    """The dtype in which an instruction computes, but for truths; more than one if it converts."""
    values = [*instruction.uses(), *instruction.results]
    return list(dict.fromkeys(value.dtype for value in values if value.dtype != torch.bool))


def _argument(given: Value | float, dtype: torch.dtype) -> str:
    """An element or a number, as it is taken to a type."""
    if not isinstance(given, Value):
        return _number(given, dtype)
    return named(given) if given.dtype == dtype else f"(({TYPES[dtype]}){named(given)})"


def _number(number: float, dtype: torch.dtype) -> str:
    if math.isinf(number) or math.isnan(number):
        text = 'nan("")' if math.isnan(number) else f"{'-' if number < 0 else ''}(1.0 / 0.0)"
    else:
        text = repr(float(number)) if dtype.is_floating_point else str(int(number))
    return f"(({TYPES[dtype]})({text}))"
