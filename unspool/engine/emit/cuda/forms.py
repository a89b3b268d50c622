"""Pointwise instructions as lines of CUDA."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from unspool.engine.ir.program import Instruction, Value
from unspool.engine.trace.graph import aten

TYPES = {torch.float32: "float", torch.float64: "double", torch.int64: "long long", torch.bool: "bool"}
"""What is not half precision: there, one needs to know where torch rounds."""

FORMS: dict[Any, str] = {
    aten.add.Tensor: "{0} + {1}",
    aten.add.Scalar: "{0} + {1}",
    aten.sub.Tensor: "{0} - {1}",
    aten.sub.Scalar: "{0} - {1}",
    aten.rsub.Scalar: "{1} - {0}",
    aten.mul.Tensor: "{0} * {1}",
    aten.mul.Scalar: "{0} * {1}",
    aten.addcmul.default: "{0} + {1} * {2}",
    aten.neg.default: "-{0}",
    aten.square.default: "{0} * {0}",
    aten.relu.default: "({0} < 0 ? 0 : {0})",
    aten.where.self: "({0} ? {1} : {2})",
    aten.eq.Scalar: "{0} == {1}",
    aten.eq.Tensor: "{0} == {1}",
    aten.ne.Scalar: "{0} != {1}",
    aten.ne.Tensor: "{0} != {1}",
    aten.gt.Scalar: "{0} > {1}",
    aten.gt.Tensor: "{0} > {1}",
    aten.ge.Scalar: "{0} >= {1}",
    aten.ge.Tensor: "{0} >= {1}",
    aten.lt.Scalar: "{0} < {1}",
    aten.lt.Tensor: "{0} < {1}",
    aten.le.Scalar: "{0} <= {1}",
    aten.le.Tensor: "{0} <= {1}",
    aten.bitwise_or.Tensor: "{0} | {1}",
    aten.bitwise_and.Tensor: "{0} & {1}",
    aten.logical_or.default: "{0} || {1}",
    aten.logical_and.default: "{0} && {1}",
    aten.logical_not.default: "!{0}",
}
"""By operation, an expression of its arguments."""

REAL: dict[Any, str] = {
    aten.div.Tensor: "{0} / {1}",
    aten.div.Scalar: "{0} / {1}",
    aten.abs.default: "fabs({0})",
    aten.reciprocal.default: "T(1) / {0}",
    aten.sqrt.default: "sqrt({0})",
    aten.rsqrt.default: "T(1) / sqrt({0})",
    aten.exp.default: "exp({0})",
    aten.log.default: "log({0})",
    aten.sigmoid.default: "T(1) / (T(1) + exp(-{0}))",
    aten.tanh.default: "tanh({0})",
    aten.sin.default: "sin({0})",
    aten.cos.default: "cos({0})",
}
"""The same for what only floating-point numbers have; `T` is their type."""


WRAPPED: set[Any] = {
    *(aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar, aten.rsub.Scalar),
    *(aten.mul.Tensor, aten.mul.Scalar, aten.addcmul.default, aten.neg.default, aten.square.default),
}
"""What may leave the range of int64, and then wraps around, as torch's does: in C++ only unsigned numbers do."""


def has_form(instruction: Instruction) -> bool:
    """Whether an instruction can be a line of CUDA."""
    (result, *others) = instruction.results
    operation = instruction.operation
    if not (operation in FORMS or operation in REAL) or instruction.options or others or result.shared:
        return False
    values = [*instruction.uses(), result]
    if any(value.axis or value.dtype not in TYPES for value in values):
        return False
    dtypes = _dtypes(instruction)
    if len(dtypes) > 1:
        return False
    if operation in REAL and any(not value.dtype.is_floating_point for value in values):
        return False  # truths are divided as other numbers than they are here
    numbers = [each for each in instruction.arguments if not isinstance(each, Value)]
    if not dtypes and any(number not in (0, 1) for number in numbers):
        return False  # no truth is 2
    whole = not dtypes or not dtypes[0].is_floating_point
    return all(isinstance(each, int if whole else int | float) for each in numbers)


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
        arguments = [named(a) if isinstance(a, Value) else _number(a, kind) for a in each.arguments]
        form = FORMS.get(each.operation) or REAL[each.operation]
        if kind == torch.int64 and each.operation in WRAPPED:
            arguments, form = [f"((unsigned long long){a})" for a in arguments], f"(long long)({form})"
        text = form.format(*arguments)
        lines.append(f"const {TYPES[result.dtype]} {named(result)} = {text.replace('T(', f'{TYPES[kind]}(')};")
    return lines


def writes(outputs: Iterable[Value], place: str) -> list[str]:
    """Writes elements to their place."""
    return [f"{each.name}_out[{place}] = {named(each)};" for each in outputs]


def _dtypes(instruction: Instruction) -> list[torch.dtype]:
    """The dtype in which an instruction computes, but for truths; more than one if it converts."""
    values = [*instruction.uses(), *instruction.results]
    return list(dict.fromkeys(value.dtype for value in values if value.dtype != torch.bool))


def _number(number: float, dtype: torch.dtype) -> str:
    if math.isinf(number) or math.isnan(number):
        text = 'nan("")' if math.isnan(number) else f"{'-' if number < 0 else ''}(1.0 / 0.0)"
    else:
        text = repr(float(number)) if dtype.is_floating_point else str(int(number))
    return f"(({TYPES[dtype]})({text}))"
