"""Pointwise instructions joined into CUDA kernels, which NVRTC compiles at the first call.

On a GPU a small operation takes as long as its launch and the gap behind it, so that a step takes as long as it has
operations. Neighbours that compute elements in the same places become one kernel, and a search for the largest element
of each row has a kernel of its own.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from unspool.engine.graph import aten
from unspool.engine.program import Instruction, Kind, Program, Rows, Value, can_run

log = logging.getLogger("unspool")

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

THREADS = 256
"""In a block."""


class Kernel:
    """An operation of our own, `kernel(rows, *inputs)`: its one output, or all of them.

    Args:
        name: its name.
        source: its code.
        otherwise: what does the same if it cannot be compiled.
    """

    def __init__(self, name: str, source: str, otherwise: Callable[..., Any]) -> None:
        self.name, self.source, self._otherwise = name, source, otherwise
        self._function: Any = None
        self._failed = False

    def __str__(self) -> str:
        return self.name

    def __call__(self, rows: int, *inputs: Tensor) -> Any:
        """Runs it; at the first call it is compiled."""
        if any(not each.is_cuda for each in inputs):
            return self._otherwise(rows, *inputs)
        if self._function is None and not self._failed:
            try:
                self._function = torch.cuda._compile_kernel(self.source, self.name)  # pyright: ignore
            except (RuntimeError, OSError, AttributeError, ImportError) as error:
                log.info("%s runs one operation after another, since it could not be compiled: %s", self.name, error)
                self._failed = True
        return self._otherwise(rows, *inputs) if self._failed else self._launch(rows, inputs)

    def _launch(self, rows: int, inputs: Sequence[Tensor]) -> Any:
        raise NotImplementedError


class Pointwise(Kernel):
    """Pointwise instructions, all with results of the same shape.

    Args:
        instructions: these, in order.
        outputs: which of the results others need.
        otherwise, name: as in `Kernel`.
    """

    def __init__(
        self, instructions: Sequence[Instruction], outputs: Sequence[Value], otherwise: Callable[..., Any], name: str
    ) -> None:
        self.inputs, self.outputs = _inputs(instructions), tuple(outputs)
        self._shape, self._times = self.outputs[0].shape, self.outputs[0].times
        super().__init__(name, self._text(instructions, name), otherwise)

    def _launch(self, rows: int, inputs: Sequence[Tensor]) -> Any:
        rows *= self._times
        shape = (rows, *self._shape)
        count = math.prod(shape)
        if not 0 < count < 2**31:
            return self._otherwise(rows // self._times, *inputs)
        made = [torch.empty(shape, dtype=each.dtype, device=inputs[0].device) for each in self.outputs]
        strides = [stride for each in inputs for stride in each.expand(shape).stride()]
        self._function(grid=(-(-count // THREADS), 1, 1), block=(THREADS, 1, 1), args=[*inputs, *made, *strides, count])
        return made[0] if len(made) == 1 else made

    def _text(self, instructions: Sequence[Instruction], name: str) -> str:
        axes = range(1 + len(self._shape))
        given = [f"const {TYPES[each.dtype]}* {each.name}_at" for each in self.inputs]
        given += [f"{TYPES[each.dtype]}* {each.name}_out" for each in self.outputs]
        given += [f"int s{axis}_{each.name}" for each in self.inputs for axis in axes]
        lines = [
            f'extern "C" __global__ void {name}({", ".join([*given, "int count"])}) {{',
            "  const int place = blockIdx.x * blockDim.x + threadIdx.x;",
            "  if (place >= count) return;",
            "  int left = place;",
        ]
        for axis in reversed(axes[1:]):
            size = self._shape[axis - 1]
            lines += [f"  const long long i{axis} = left % {size};", f"  left /= {size};"]
        lines.append("  const long long i0 = left;")
        for each in self.inputs:
            index = " + ".join(f"i{axis} * s{axis}_{each.name}" for axis in axes)
            lines.append(f"  const {TYPES[each.dtype]} {_name(each)} = {each.name}_at[{index}];")
        for each in instructions:
            result, (kind, *_) = each.results[0], [*_dtypes(each), torch.bool]
            arguments = [_name(a) if isinstance(a, Value) else _number(a, kind) for a in each.arguments]
            text = (
                (FORMS.get(each.operation) or REAL[each.operation]).format(*arguments).replace("T(", f"{TYPES[kind]}(")
            )
            lines.append(f"  const {TYPES[result.dtype]} {_name(result)} = {text};")
        lines += [f"  {each.name}_out[place] = {_name(each)};" for each in self.outputs]
        return "\n".join([*lines, "}"])


class Largest(Kernel):
    """The place of the largest element of each row, the first one if there are several; NaN is larger than anything.

    Args:
        row: the rows to search, vectors.
        otherwise, name: as in `Kernel`.
    """

    def __init__(self, row: Value, otherwise: Callable[..., Any], name: str) -> None:
        (self._width,) = row.shape
        super().__init__(name, _LARGEST.format(name=name, type=TYPES[row.dtype], width=self._width), otherwise)

    def _launch(self, rows: int, inputs: Sequence[Tensor]) -> Tensor:
        (given,) = inputs
        given = given.contiguous()
        made = torch.empty(len(given), dtype=torch.int64, device=given.device)
        self._function(grid=(max(len(given), 1), 1, 1), block=(THREADS, 1, 1), args=[given, made, len(given)])
        return made


_LARGEST = """
__device__ bool before({type} a, int i, {type} b, int j) {{  // whether a, at i, comes before b, at j
  if (a != a || b != b) return a != a && (b == b || i < j);
  return a > b || (a == b && i < j);
}}
extern "C" __global__ void {name}(const {type}* rows, long long* found, int count) {{
  if (blockIdx.x >= count) return;
  const {type}* row = rows + (long long)blockIdx.x * {width};
  int place = threadIdx.x < {width} ? threadIdx.x : 0;
  {type} best = row[place];
  for (int k = threadIdx.x + blockDim.x; k < {width}; k += blockDim.x) {{
    const {type} next = row[k];
    if (before(next, k, best, place)) best = next, place = k;
  }}
  for (int apart = 16; apart > 0; apart /= 2) {{
    const {type} other = __shfl_down_sync(0xffffffffu, best, apart);
    const int there = __shfl_down_sync(0xffffffffu, place, apart);
    if (before(other, there, best, place)) best = other, place = there;
  }}
  __shared__ {type} bests[32];
  __shared__ int places[32];
  if (threadIdx.x % 32 == 0) bests[threadIdx.x / 32] = best, places[threadIdx.x / 32] = place;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int k = 1; k < blockDim.x / 32; k++)
    if (before(bests[k], places[k], best, place)) best = bests[k], place = places[k];
  found[blockIdx.x] = place;
}}
"""


def join_pointwise(program: Program, as_function: Callable[[Program, str], Callable[..., Any]]) -> Program:
    """A program in which neighbours that are pointwise are one instruction each.

    Args:
        program: the program.
        as_function: makes what runs a part of it without kernels.
    """
    left, made = list(program.instructions), list[Instruction]()
    known = set(program.inputs)
    while left:
        ready = can_run([each for each in left if not _has_form(each)], known)
        taken = ready or _most([each for each in left if _has_form(each)], known)
        rest = [each for each in left if each not in taken]
        if ready:
            made += [_largest(each, as_function, f"largest_{len(made) + k}") for k, each in enumerate(ready)]
        else:
            used = {*program.outputs, *(value for each in rest for value in each.uses())}
            made += _joined(taken, used, as_function, f"pointwise_{len(made)}")
        known.update(value for each in taken for value in each.results)
        left = rest
    return Program(program.inputs, tuple(made), program.outputs)


def _has_form(instruction: Instruction) -> bool:
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


def _dtypes(instruction: Instruction) -> list[torch.dtype]:
    """The dtype in which an instruction computes, but for truths; more than one if it converts."""
    values = [*instruction.uses(), *instruction.results]
    return list(dict.fromkeys(value.dtype for value in values if value.dtype != torch.bool))


def _inputs(instructions: Sequence[Instruction]) -> tuple[Value, ...]:
    """What is read and not made by them."""
    made = {result for each in instructions for result in each.results}
    return tuple(dict.fromkeys(value for each in instructions for value in each.uses() if value not in made))


def _most(instructions: Sequence[Instruction], known: set[Value]) -> list[Instruction]:
    """The most that can run now with results of one shape."""

    def kind(instruction: Instruction) -> tuple[Any, ...]:
        return instruction.results[0].shape, instruction.results[0].times

    kinds = dict.fromkeys(map(kind, instructions))
    return max((can_run([each for each in instructions if kind(each) == one], known) for one in kinds), key=len)


def _joined(
    taken: Sequence[Instruction],
    used: set[Value],
    as_function: Callable[[Program, str], Callable[..., Any]],
    name: str,
) -> list[Instruction]:
    """`taken` as a kernel; what is alone stays as it is."""
    if len(taken) == 1:
        return list(taken)
    outputs = tuple(each.results[0] for each in taken if each.results[0] in used)
    inputs = _inputs(taken)
    kernel = Pointwise(taken, outputs, as_function(Program(inputs, tuple(taken), outputs), name), name)
    return [Instruction(Kind.POINTWISE, kernel, (Rows(), *inputs), {}, outputs)]


def _largest(
    instruction: Instruction, as_function: Callable[[Program, str], Callable[..., Any]], name: str
) -> Instruction:
    """A search for the largest element as a kernel; anything else stays as it is."""
    if instruction.operation is not aten.argmax.default or instruction.arguments[1:] not in ((-1,), (1,)):
        return instruction
    row, result = instruction.arguments[0], instruction.results[0]
    fits = len(row.shape) == 1 and row.shape[0] < 2**31 and row.dtype in TYPES and row.dtype.is_floating_point
    if not fits or row.shared or row.axis or row.times > 1 or instruction.options:
        return instruction
    kernel = Largest(row, as_function(Program((row,), (instruction,), (result,)), name), name)
    return Instruction(instruction.kind, kernel, (Rows(), row), {}, (result,), instruction.source)


def _name(value: Value) -> str:
    return f"{value.name}_"  # `exp` is a function


def _number(number: float, dtype: torch.dtype) -> str:
    if math.isinf(number) or math.isnan(number):
        text = 'nan("")' if math.isnan(number) else f"{'-' if number < 0 else ''}(1.0 / 0.0)"
    else:
        text = repr(float(number)) if dtype.is_floating_point else str(int(number))
    return f"(({TYPES[dtype]})({text}))"
