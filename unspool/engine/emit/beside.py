"""What is beside a core in groups: neighbouring instructions on rows become one operation, compiled by an emitter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from unspool.engine.emit.protocol import Beside, Chunk, CoreLoop
from unspool.engine.emit.stages.lowering import has_form
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Instruction, Kind, Program, RowCount, Value, can_run
from unspool.engine.trace.graph import aten


class Group:
    """Instructions on rows as one operation: `group(rows, prepared, *row values)`.

    Args:
        loop: what runs them, as a core that carries nothing.
        counts: how many rows it is given at each of its steps.
    """

    def __init__(self, loop: CoreLoop, counts: Callable[[int], Counts]) -> None:
        self.loop, self.shared, self._counts = loop, loop.core.shared, counts

    def call(self, prepared: Value) -> Instruction:
        """The instruction that runs it."""
        core = self.loop.core
        return Instruction(Kind.OTHER, self, (RowCount(), prepared, *core.streamed), {}, core.emitted)

    def prepare(self, shared: Sequence[Tensor]) -> list[Tensor]:
        """Its `shared` values as it takes them."""
        return self.loop.prepare(shared)

    def __call__(self, rows: int, prepared: Sequence[Tensor], *given: Tensor) -> Tensor | list[Tensor]:
        """Its one output, or all of them."""
        _, results = self.loop(prepared, Chunk(self._counts(rows), given, ()))
        return results[0] if len(results) == 1 else results


def in_groups(program: Program, on_rows: Callable[[Instruction], bool], make: Callable[[Core, int], Group]) -> Beside:
    """A part with as few groups as there can be in place of what they compute.

    Args:
        program: the part.
        on_rows: whether an instruction may be in a group.
        make: makes the group of these instructions, and is told its number.
    """
    left = without_dead(program.instructions, program.outputs)
    known = set(program.inputs)
    made: list[Instruction] = []
    groups: list[Group] = []
    prepared: list[Value] = []
    while left:
        taken = can_run([each for each in left if not on_rows(each)], known)
        if taken:
            made += taken
        else:
            ready = can_run([each for each in left if on_rows(each)], known)
            taken = _without_last_views(ready) or ready
            rest = [each for each in left if each not in taken]
            if any(each.kind is not Kind.VIEW for each in taken):
                used = {*program.outputs, *(value for each in rest for value in each.uses())}
                groups.append(make(_core_of(taken, used), len(groups)))
                prepared.append(Value(f"prepared_{len(prepared)}", (), torch.float32))
                made.append(groups[-1].call(prepared[-1]))
            else:
                made += taken  # torch does that for nothing
        known.update(value for each in taken for value in each.results)
        left = [each for each in left if each not in taken]
    return Beside(Program((*program.inputs, *prepared), tuple(made), program.outputs), tuple(groups))


def has_row_form(instruction: Instruction) -> bool:
    """Whether an instruction computes rows from rows, each by itself, and has a compiled form that pays."""
    values = [*instruction.uses(), *instruction.results]
    if instruction.operation is aten.convolution.default:
        return False  # torch's own is as fast for many rows at once
    if any(value.interleaved for value in values) or any(value.shared for value in instruction.results):
        return False
    return has_form(instruction)


def without_dead(instructions: Sequence[Instruction], outputs: Sequence[Value]) -> list[Instruction]:
    """Those whose results somebody needs."""
    needed = set(outputs)
    kept: list[Instruction] = []
    for each in reversed(instructions):
        if not needed.isdisjoint(each.results):
            kept.append(each)
            needed.update(each.uses())
    return kept[::-1]


def _core_of(instructions: Sequence[Instruction], wanted: set[Value]) -> Core:
    used = dict.fromkeys(value for each in instructions for value in each.uses())
    made = dict.fromkeys(value for each in instructions for value in each.results if value.name != "_")
    taken = [value for value in used if value not in made]
    given, shared = (tuple(value for value in taken if value.shared is which) for which in (False, True))
    return Core((), given, shared, tuple(instructions), (), tuple(value for value in made if value in wanted))


def _without_last_views(own: Sequence[Instruction]) -> list[Instruction]:
    """`own` without the views that only others look at, which cost nothing where they are."""
    kept: list[Instruction] = []
    used: set[Value] = set()
    for each in reversed(own):
        if each.kind is not Kind.VIEW or not used.isdisjoint(each.results):
            kept.append(each)
            used.update(each.uses())
    return kept[::-1]
