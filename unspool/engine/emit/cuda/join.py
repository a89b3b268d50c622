"""Fuses instructions of a step into kernels: products of the same rows, and the pointwise chains between them.

On a GPU a small operation takes as long as its launch and the gap behind it, so that a step takes as long as it has
operations. Products of few rows are joined with their neighbours; of the rest, neighbours that compute elements in the
same places become one kernel, and a search for the largest element of each row has one with what follows from it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from unspool.engine.emit.cuda.forms import TYPES, has_form, inputs_of
from unspool.engine.emit.cuda.kernel import Kernel
from unspool.engine.emit.cuda.largest import Largest
from unspool.engine.emit.cuda.multiply import Factors, Multiply, MultiplyLargest
from unspool.engine.emit.cuda.pointwise import Pointwise
from unspool.engine.ir.program import Instruction, Kind, Program, RowCount, Value, can_run
from unspool.engine.trace.graph import aten

AsFunction = Callable[[Program, str], Callable[..., Any]]
"""Makes what runs a program without kernels: its one output, or all of them."""

MOST_ELEMENTS = 3 << 19
"""Of a matrix: with more, torch's products are faster, however few the rows are."""
PARTS = (1, 2, 4, 8)
"""Into how many parts of the same width a product can be cut for a kernel to go on with them."""


def join_products(program: Program, as_function: AsFunction) -> tuple[Program, list[Value]]:
    """A program in which a product of rows with a matrix and its neighbours are one instruction, where that pays.

    Args:
        program: the program.
        as_function: makes what runs a part of it with more rows.

    Returns:
        The program, and the matrices that it takes transposed too, after all its other inputs.
    """
    matrices: dict[Value, Value] = {}
    instructions = list(program.instructions)
    for number, product in enumerate(program.instructions):
        group = _Chain(product, instructions, program) if _is_small_product(product, program) else None
        if group is None or len(group.instructions) == 1:
            continue
        matrix = group.matrix
        matrices[matrix] = Value(f"{matrix.name}_across", matrix.shape[::-1], matrix.dtype, shared=True)
        kernel = group.kernel(matrices[matrix], as_function, f"product_{number}")
        arguments = (RowCount(), *kernel.inputs)
        instructions = [each for each in instructions if each not in group.instructions]
        instructions.append(Instruction(Kind.PRODUCT, kernel, arguments, {}, kernel.outputs, product.source))
        instructions = _in_order(instructions, [*program.inputs, *matrices.values()])
    return Program((*program.inputs, *matrices.values()), tuple(instructions), program.outputs), list(matrices)


class _Chain:
    """A product and what can be joined with it: reading its rows, cutting it, and what is pointwise from there on."""

    def __init__(self, product: Instruction, instructions: Sequence[Instruction], program: Program) -> None:
        *addend, rows, self.matrix = product.arguments
        self._addend: Value | None = addend[0] if addend else None
        uses = Counter(value for each in instructions for value in each.uses())
        uses.update(program.outputs)
        made = {each.results[0]: each for each in instructions if len(each.results) == 1 and uses[each.results[0]] == 1}
        before: list[Instruction] = []
        pieces: Sequence[Value] = [rows]
        if rows in made and _is_row_of_pieces(made[rows]):
            before, pieces = [made[rows]], made[rows].arguments[0]
        self._pieces: list[tuple[Value, Value | None]] = []
        for piece in pieces:
            looked_up = piece in made and _is_lookup(made[piece])
            before = [made[piece], *before] if looked_up else before
            self._pieces.append(made[piece].arguments[:2] if looked_up else (piece, None))

        self._found: Value | None = None
        self._parts = product.results
        users = [each for each in instructions if product.results[0] in each.uses()]
        after = users if len(users) == 1 and product.results[0] not in program.outputs else []
        if after and _is_largest(after[0]):
            (self._found,) = after[0].results
        elif after and _is_even_cut(after[0]):
            self._parts = after[0].results
        else:
            after = []
        results = self._parts if self._found is None else (self._found,)
        later = _following(product, instructions)
        known = {value for each in instructions if each not in later for value in each.results}
        candidates = [each for each in instructions if each in later and has_form(each) and _alike(each, results[0])]
        self._tail = can_run(candidates, {*known, *results, *program.inputs})
        if self._found is None and not self._tail:
            after, self._parts, results = [], product.results, product.results  # the cut is only a view

        self.instructions = [*before, product, *after, *self._tail]
        others = [each for each in instructions if each not in self.instructions]
        used = {*program.outputs, *(value for each in others for value in each.uses())}
        self._outputs = [each for each in [*results, *(each.results[0] for each in self._tail)] if each in used]

    def kernel(self, across: Value, as_function: AsFunction, name: str) -> Multiply | MultiplyLargest:
        """All of it as a kernel."""
        factors = Factors(tuple(self._pieces), self.matrix, across, self._addend, self._parts)
        inputs = tuple(dict.fromkeys([across, *inputs_of(self.instructions)]))
        alone = Program(inputs, tuple(self.instructions), tuple(self._outputs))
        function = as_function(join_pointwise(alone, as_function, f"{name}_"), name)

        def otherwise(rows: int, *given: Tensor) -> Any:
            by_value = dict(zip(kernel.inputs, given, strict=True))
            return function(rows, *(by_value[each] for each in inputs))

        if self._found is None:
            kernel = Multiply(factors, self._tail, self._outputs, otherwise, name)
        else:
            kernel = MultiplyLargest(factors, self._found, self._tail, self._outputs, otherwise, name)
        return kernel


def join_pointwise(program: Program, as_function: AsFunction, prefix: str = "") -> Program:
    """A program in which neighbours that are pointwise are one instruction each.

    Args:
        program: the program.
        as_function: makes what runs a part of it without kernels.
        prefix: what the names of its kernels begin with.
    """
    left, made = list(program.instructions), list[Instruction]()
    known = set(program.inputs)
    while left:
        ready = can_run([each for each in left if not has_form(each)], known)
        taken = ready[:1] or _most([each for each in left if has_form(each)], known)
        if _is_largest(taken[0]):
            (found,) = taken[0].results
            like = [each for each in left if has_form(each) and _alike(each, found)]
            taken += can_run(like, {*known, found})
        rest = [each for each in left if each not in taken]
        used = {*program.outputs, *(value for each in rest for value in each.uses())}
        made.append(_joined(taken, used, as_function, f"{prefix}{{}}_{len(made)}"))
        known.update(value for each in taken for value in each.results)
        left = rest
    return Program(program.inputs, tuple(made), program.outputs)


def _joined(taken: Sequence[Instruction], used: set[Value], as_function: AsFunction, name: str) -> Instruction:
    """`taken` as a kernel; a pointwise instruction alone, or one that is not, stays as it is."""
    first, inputs = taken[0], inputs_of(taken)
    outputs = tuple(value for each in taken for value in each.results if value in used)
    if _is_largest(first):
        name = name.format("largest")
        otherwise = as_function(Program(inputs, tuple(taken), outputs), name)
        kernel: Kernel = Largest(first.arguments[0], first.results[0], taken[1:], outputs, otherwise, name)
    elif len(taken) > 1:
        name = name.format("pointwise")
        kernel = Pointwise(taken, outputs, as_function(Program(inputs, tuple(taken), outputs), name), name)
    else:
        return first
    return Instruction(first.kind, kernel, (RowCount(), *inputs), {}, outputs, first.source)


def _most(instructions: Sequence[Instruction], known: set[Value]) -> list[Instruction]:
    """The most that can run now with results of one shape."""
    firsts = {(each.results[0].shape, each.results[0].times): each.results[0] for each in instructions}
    return max(
        (can_run([each for each in instructions if _alike(each, first)], known) for first in firsts.values()), key=len
    )


def _in_order(instructions: Sequence[Instruction], known: Iterable[Value]) -> list[Instruction]:
    """The same instructions, each after what it needs."""
    left, found, have = list(instructions), list[Instruction](), set(known)
    while left:
        ready = can_run(left, have)
        found += ready
        have.update(value for each in ready for value in each.results)
        left = [each for each in left if each not in ready]
    return found


def _following(first: Instruction, instructions: Iterable[Instruction]) -> set[Instruction]:
    """An instruction and all that need what it makes."""
    found, made = {first}, set(first.results)
    for each in instructions:
        if not made.isdisjoint(each.uses()):
            found.add(each)
            made.update(each.results)
    return found


# -- what an instruction is --------------------------------------------------------------------------------------------


def _alike(instruction: Instruction, value: Value) -> bool:
    """Whether its result has a number in the place of each of the value's."""
    result = instruction.results[0]
    return (result.shape, result.times) == (value.shape, value.times)


def _is_rows(value: Any, dtype: torch.dtype, axes: int) -> bool:
    """Whether it is a tensor with a row for each of the batch in front, of so many axes."""
    return isinstance(value, Value) and (value.dtype, len(value.shape), value.shared, value.axis, value.times) == (
        dtype,
        axes,
        False,
        0,
        1,
    )


def _is_small_product(instruction: Instruction, program: Program) -> bool:
    """Whether rows are multiplied with a matrix that is there from the start, in float32, in fours."""
    if instruction.operation not in (aten.mm.default, aten.addmm.default) or instruction.options:
        return False
    *addend, rows, matrix = instruction.arguments
    if not _is_rows(rows, torch.float32, 1) or not matrix.shared or matrix not in program.inputs:
        return False
    fours = matrix.dtype == torch.float32 and matrix.shape[0] % 4 == 0
    added = all(not each.axis and each.times == 1 and each.dtype == torch.float32 for each in addend)
    return fours and added and 0 < math.prod(matrix.shape) <= MOST_ELEMENTS


def _is_row_of_pieces(instruction: Instruction) -> bool:
    """Whether it puts rows beside each other, in fours."""
    if instruction.operation is not aten.cat.default or instruction.arguments[1:] not in ((1,), (-1,)):
        return False
    return all(_is_rows(each, torch.float32, 1) and each.shape[0] % 4 == 0 for each in instruction.arguments[0])


def _is_lookup(instruction: Instruction) -> bool:
    """Whether it looks up a row of a table for each row."""
    if instruction.operation is not aten.embedding.default:
        return False
    table, numbers, *_ = instruction.arguments
    return table.shared and len(table.shape) == 2 and _is_rows(numbers, torch.int64, 0)


def _is_even_cut(instruction: Instruction) -> bool:
    """Whether it cuts rows into parts of the same width, all of them used."""
    if instruction.operation not in (aten.split.Tensor, aten.split_with_sizes.default) or instruction.options:
        return False
    whole, _, *axis = instruction.arguments
    widths = {each.shape for each in instruction.results}
    even = widths == {(whole.shape[0] // len(instruction.results),)}
    return axis in ([1], [-1]) and even and len(instruction.results) in PARTS


def _is_largest(instruction: Instruction) -> bool:
    """Whether it looks for the place of the largest element of each row."""
    if instruction.operation is not aten.argmax.default or instruction.arguments[1:] not in ((-1,), (1,)):
        return False
    row = instruction.arguments[0]
    numbers = row.dtype in TYPES and row.dtype.is_floating_point
    return numbers and _is_rows(row, row.dtype, 1) and row.shape[0] < 2**31 and not instruction.options
