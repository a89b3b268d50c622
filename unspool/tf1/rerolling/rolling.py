"""A period as one loop: what its steps share becomes a composite cell, what differs its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unspool.structure import Containers, map_structure
from unspool.tf1.gradients import gradients_by
from unspool.tf1.operation import Operation
from unspool.tf1.rerolling.alike import Alike
from unspool.tf1.rerolling.composite import Called, Computed, Ingredients, LookedUp, Part, Reading, Recipe, Rolled
from unspool.tf1.rerolling.joining import Rewrite
from unspool.tf1.rerolling.periods import Given, Last, Made, Period, Source
from unspool.tf1.rnn.modules import Bound
from unspool.tf1.tables import LOOKUP, VARIABLE
from unspool.tf1.tensor import Tensor
from unspool.tf1.variables import Variable


def roll(rewrite: Rewrite, period: Period, alike: Alike) -> None:
    """Has a loop in the place of a period, if its steps can be those of a cell."""
    cell = _Cell(rewrite, period, alike)
    if not cell.can_be_one():
        return
    steps = period.steps
    operations = [each for step in steps for each in step.operations]
    rewrite.remove(operations)
    read = rewrite.read()
    _keep(rewrite, period, cell, read)
    read = rewrite.read() - rewrite.made()
    final = steps[-1].operations
    ended = [k for k, each in enumerate(cell.carries) if each.place < len(final)]
    ends = [cell.tensor(len(steps) - 1, cell.carries[each]) for each in ended]
    shown = cell.shown(read.difference(ends))
    sequences = [
        rewrite.sequence([step.given[each] for step in (steps[:-1] if each in period.short else steps)])
        for each in cell.sequences
    ]
    ingredients, held = cell.ingredients(shown)
    rolled = Rolled(
        ingredients,
        len(steps),
        padded=[each in period.short for each in cell.sequences],
        trimmed=[place >= len(final) for place, _ in shown],
        ended=ended,
    )
    starts = [steps[0].last[each] for each in cell.carries]
    columns = [cell.column(*each) for each in shown]
    rewrite.put_loop(operations, rolled, [*sequences, *starts, *held], columns, ends)


def _keep(rewrite: Rewrite, period: Period, cell: _Cell, read: set[Tensor]) -> None:
    """Keeps the operations that somebody needs the outputs of, which a loop does not show."""
    for number in reversed(range(len(period.steps))):
        opens = period.opened and number == 0
        for operation in reversed(period.steps[number].operations):
            wanted = [each for each in operation.outputs if each in read]
            if wanted and operation not in cell.calls and (opens or not all(map(cell.has_rows, wanted))):
                rewrite.keep(operation)
                read.update(operation.inputs)


class _Cell:
    """The cell that the steps of a period are calls of.

    Its values are what it carries, its inputs, what it holds, and then what each operation makes.
    """

    def __init__(self, rewrite: Rewrite, period: Period, alike: Alike) -> None:
        self._rewrite, self._steps, self._template = rewrite, period.steps, period.template
        self._whole = period.steps[0] if period.turned else period.steps[-1]
        """A step that has everything."""
        self._operations = self._whole.operations
        self._call = 0 if period.turned else len(self._operations) - 1
        self.calls = {each.operations[self._call] for each in period.steps}
        self.carries = list(self._whole.last)
        given = [{alike.value(step.given[k]) for step in period.steps} for k in range(len(period.template.given))]
        self.sequences = [number for number, values in enumerate(given) if len(values) > 1]
        """The numbers of what is given anew at every step."""
        read = [each for place, sources in enumerate(self._template.sources) for each in self._own(place, sources)]
        used = dict.fromkeys(each.number for each in read if isinstance(each, Given))
        self._held = [each for each in used if each not in self.sequences]
        """The numbers of what is given once."""

    def can_be_one(self) -> bool:
        """Whether there is something to carry, all inputs have rows, nothing that cells need changes, and all steps'
        readings of variables have gradients or none.
        """
        changing = [self._whole.given[each] for each in self.sequences]
        lookups = [place for place, each in enumerate(self._operations) if each.type == LOOKUP]
        return (
            bool(self.carries)
            and all(map(self.has_rows, [*self._whole.last.values(), *changing]))
            and all(self._needs(place) is not None for place in range(len(self._operations)))
            and all(None not in (self._operations[each].inputs[1].dims or (None,))[1:] for each in lookups)
            and all(self._has_gradient(each) is not None for each in lookups)
            and all(self.has_rows(self._operations[each].outputs[0]) for each in lookups)
        )

    def has_rows(self, tensor: Tensor) -> bool:
        """Whether a tensor seems to have a row for each of the batch."""
        first = self._whole.last[self.carries[0]].dims
        if not first or not tensor.dims:
            return False
        return None in (first[0], tensor.dims[0]) or first[0] == tensor.dims[0]

    def tensor(self, number: int, source: Made | Last) -> Tensor:
        """What an operation of a step makes."""
        return self._steps[number].operations[source.place].outputs[source.output]

    def column(self, place: int, output: int) -> tuple[Tensor, ...]:
        """The same of all steps that have it."""
        steps = [each.operations for each in self._steps if place < len(each.operations)]
        return tuple(each[place].outputs[output] for each in steps)

    def shown(self, read: set[Tensor]) -> list[tuple[int, int]]:
        """What a loop has to show of every step, since somebody reads it: something at least."""
        pairs = [(place, each.index) for place, operation in enumerate(self._operations) for each in operation.outputs]
        return [each for each in pairs if not read.isdisjoint(self.column(*each))] or [(self._call, 0)]

    def ingredients(self, shown: Sequence[tuple[int, int]]) -> tuple[Ingredients, list[Tensor]]:
        """What the cell is made of, and what it is given in a run."""
        variables: dict[str, Variable] = {}
        constants: dict[str, Any] = {}
        outside: dict[str, Tensor] = {}
        for number in self._held:
            name, tensor = f"held_{number}", self._whole.given[number]
            if tensor in self._rewrite.fed or (tensor.op.type != VARIABLE and tensor.op.constant is None):
                outside[name] = tensor
            elif tensor.op.type == VARIABLE:
                (variables[name],) = tensor.op.variables
            else:
                constants[name] = tensor.op.constant
        late = list(outside.values())
        cells: dict[str, tuple[Bound, slice]] = {}
        for place, operation in enumerate(self._operations):
            if operation.call is not None:
                needed = self._needs(place) or []
                cells[f"cell_{place}"] = operation.call.bound, slice(len(late), len(late) + len(needed))
                late += needed
        rows = tuple(name for name, tensor in outside.items() if self.has_rows(tensor))
        made = Ingredients(self._recipe(shown), cells, variables, constants, tuple(outside), rows)
        return made, late

    def _recipe(self, shown: Sequence[tuple[int, int]]) -> Recipe:
        bases, first = list[int](), len(self.carries) + len(self.sequences) + len(self._held)
        for operation in self._operations:
            bases.append(first)
            first += len(operation.outputs)

        def where(source: Source) -> int:
            if isinstance(source, Last):
                return self.carries.index(source)
            if isinstance(source, Made):
                return bases[source.place] + source.output
            if source.number in self.sequences:
                return len(self.carries) + self.sequences.index(source.number)
            return len(self.carries) + len(self.sequences) + self._held.index(source.number)

        parts: list[tuple[Part, tuple[int, ...], int | None]] = []
        readings: list[Reading] = []
        noted: list[int] = []
        for place, (operation, sources) in enumerate(zip(self._operations, self._template.sources, strict=True)):
            reads = tuple(map(where, self._own(place, sources)))
            if operation.type != LOOKUP:
                parts.append((self._part(place, operation), reads, None))
                continue
            table, places = operation.inputs
            _, whole = gradients_by(table, self._rewrite.operations)
            counted = bool(self._has_gradient(place)) and table not in self._rewrite.fed
            parts.append((LookedUp(bool(whole)), reads, len(readings) if counted else None))
            if counted:
                readings.append(
                    Reading(table.op.variables[0], tuple(int(each or 0) for each in (places.dims or ())[1:]))
                )
                noted.append(reads[1])
        return Recipe(
            len(self.sequences),
            tuple(f"held_{each}" for each in self._held),
            tuple(parts),
            (*(where(Made(*each)) for each in shown), *noted),
            tuple(bases[each.place] + each.output for each in self.carries),
            tuple(readings),
            len(self._steps[-1].operations),
        )

    def _part(self, place: int, operation: Operation) -> Part:
        call = operation.call
        if call is None:
            return Computed(operation.function, len(operation.outputs) == 1)
        given, made = (call.inputs, call.state), (call.output, call.new_state)
        return Called(f"cell_{place}", *(Containers(map_structure(lambda _: 0, each)) for each in (given, made)))

    def _has_gradient(self, place: int) -> bool | None:
        """Whether every step's rows of a lookup have a gradient of their own; False if none of them has, else None.

        A gradient holds the rows that were read on the way to what is differentiated, and no others.
        """
        by_rows, _ = gradients_by(self._operations[place].inputs[0], self._rewrite.operations)
        rows = self.column(place, 0)
        found = {each for gradient in by_rows for each in gradient.comes_to(rows, self._rewrite.fed)}
        return found.pop() if len(found) == 1 else None if found else False

    def _own(self, place: int, sources: Sequence[Source]) -> Sequence[Source]:
        """Those of an operation's sources that a step reads: not what a cell needs of a run."""
        call = self._operations[place].call
        return sources if call is None else sources[: len(sources) - len(call.late)]

    def _needs(self, place: int) -> list[Tensor] | None:
        """What a cell needs of a run; None if it is not the same at every step."""
        sources = self._template.sources[place]
        rest = sources[len(self._own(place, sources)) :]
        if any(not isinstance(each, Given) or each.number in self.sequences for each in rest):
            return None
        return [self._whole.given[each.number] for each in rest if isinstance(each, Given)]
