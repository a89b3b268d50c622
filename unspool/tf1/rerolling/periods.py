"""Periods: what stands between the calls of a cell and is the same for every step.

    for each step:
        inputs = piece(output, ...)             # a projection, argmax, a lookup, attention, another cell
        output, state = cell(inputs, state)

A step is a call and all that it reads of the step before, up to that step. Steps are alike if their operations are, and
if they read the same things: of the step itself, of the last one, or of the graph around them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from unspool.tf1.operation import Operation
from unspool.tf1.rerolling.alike import Alike, is_pure, kind
from unspool.tf1.rerolling.order import Order
from unspool.tf1.tables import LOOKUP
from unspool.tf1.tensor import Tensor

CALL = -1
"""The place of the call in its step: the last."""


class Made(NamedTuple):
    """An output of an operation of the same step."""

    place: int
    output: int


class Last(NamedTuple):
    """What an output of an operation was at the last step."""

    place: int
    output: int
    kind: object


class Given(NamedTuple):
    """Something from around, by number."""

    number: int


Source = Made | Last | Given


@dataclass(frozen=True)
class Template:
    """What steps have in common.

    Args:
        functions: what each operation computes, as `Alike` numbers it; the call is the last.
        sources: where each finds its inputs.
        given: the kinds of what is given.
    """

    functions: tuple[int, ...]
    sources: tuple[tuple[Source, ...], ...]
    given: tuple[object, ...]


@dataclass(frozen=True)
class Step:
    """One step: operations, what is given to them, and what they read of the last step."""

    operations: list[Operation]
    given: list[Tensor]
    last: dict[Last, Tensor]


@dataclass(frozen=True)
class Period:
    """Steps that are alike, one after the other.

    Args:
        template: what they have in common.
        steps: these.
        opened: whether the first of them reads something else in the place of a last step.
        turned: whether steps begin with their call, and the last one ends with it.
        short: the numbers of what is given to all steps but the last.
    """

    template: Template
    steps: list[Step]
    opened: bool = False
    turned: bool = False
    short: frozenset[int] = frozenset()


@dataclass
class Search:
    """Looks for periods among the calls of a cell.

    Args:
        calls: these, in an order in which they can run.
        order: all operations.
        alike: which of them compute the same.
        fixed: tensors that somebody else computes, or that gradients are taken by.
    """

    calls: Sequence[Operation]
    order: Order
    alike: Alike
    fixed: Collection[Tensor]
    _levels: dict[Operation, int] = field(default_factory=dict[Operation, int])
    """The last call that an operation is, or depends on; -1 for none."""

    def __post_init__(self) -> None:
        self._members = frozenset(self.calls)
        places = {each: place for place, each in enumerate(self.calls)}
        for each in self.order.operations:
            found = places.get(each)
            before = self.order.before(each, each.inputs) if found is None else ()
            self._levels[each] = max((self._levels[one] for one in before), default=-1) if found is None else found

    def periods(self, fewest: int) -> list[Period]:
        """The periods of at least so many steps, of which no two share a call."""
        found: list[Period] = []
        start = 0
        while start + fewest <= len(self.calls):
            period, start = self._first_from(start)
            if len(period.steps) >= fewest:
                found.append(period)
        return found

    def _first_from(self, start: int) -> tuple[Period, int]:
        """Steps that are alike, among those from a call on, and where to look for more."""
        before = {self.calls[start]: CALL}
        template, steps = None, list[Step]()
        number = start + 1
        while number < len(self.calls):
            found = self._step(number, start, before)
            if found is None:
                break
            this, step = found
            if this != template:
                if len(steps) > 1:
                    break
                template, steps = this, []
            steps.append(step)
            before = {**{each: place for place, each in enumerate(step.operations)}, self.calls[number]: CALL}
            number += 1
        if template is None:
            return Period(Template((), (), ()), []), start + 1
        before_all = number - len(steps) - 1
        if len(steps) == 1 and any(read.place != CALL for read in steps[0].last):
            return Period(template, steps), number  # places are those of another template
        opening = self._opening(before_all, template)
        if opening is not None and _precedes(opening, steps[0]):
            return Period(template, [opening, *steps], opened=True), number
        return self._turned(before_all, Period(template, steps)) or Period(template, steps), number

    def _step(self, number: int, start: int, before: Mapping[Operation, int]) -> tuple[Template, Step] | None:
        """What the step of a call is, if all before the call `start` is around it; None if it can be no step."""
        call = self.calls[number]
        found, waiting = {call}, [call]
        while waiting:
            operation = waiting.pop()
            if not self._may_repeat(operation, start):
                return None
            for tensor in operation.inputs:
                maker = self.order.makers.get(tensor)
                if maker is None or self._levels[maker] < start or maker in before or maker in found:
                    continue
                if maker in self._members:
                    return None  # a call that is not the last
                found.add(maker)
                waiting.append(maker)
        operations = [*sorted(found - {call}, key=lambda each: each.number), call]
        places = {each: place for place, each in enumerate(operations)}
        given: dict[int, Tensor] = {}
        numbers: dict[int, int] = {}
        last: dict[Last, Tensor] = {}

        def source(tensor: Tensor) -> Source:
            maker = self.order.makers.get(tensor)
            if maker is not None and maker in places:
                return Made(places[maker], tensor.index)
            if maker is not None and maker in before:
                last[read := Last(before[maker], tensor.index, kind(tensor))] = tensor
                return read
            value = numbers.setdefault(self.alike.value(tensor), len(numbers))
            given.setdefault(value, tensor)
            return Given(value)

        sources = tuple(tuple(source(each) for each in operation.inputs) for operation in operations)
        functions = tuple(self.alike.function(each) for each in operations)
        kinds = tuple(kind(each) for each in given.values())
        return Template(functions, sources, kinds), Step(operations, list(given.values()), last)

    def _opening(self, number: int, template: Template) -> Step | None:
        """A call as the first of the steps, which may read anything in the place of a last step; None if it cannot."""
        operations: dict[int, Operation] = {len(template.functions) - 1: self.calls[number]}
        given: dict[int, Tensor] = {}
        last: dict[Last, Tensor] = {}
        for place in reversed(range(len(template.functions))):
            operation = operations.get(place)
            if operation is None or operation.type == LOOKUP or not self._may_repeat(operation, number):
                return None  # others may read what it makes, and no row may be read twice
            if self.alike.function(operation) != template.functions[place]:
                return None
            for tensor, source in zip(operation.inputs, template.sources[place], strict=True):
                maker = self.order.makers.get(tensor)
                if isinstance(source, Made):
                    if maker is None or tensor.index != source.output:
                        return None
                    if operations.setdefault(source.place, maker) is not maker:
                        return None
                    continue
                if maker is not None and self._levels[maker] >= number:
                    return None
                if isinstance(source, Last):
                    if kind(tensor) != source.kind or last.setdefault(source, tensor) is not tensor:
                        return None
                elif self.alike.value(given.setdefault(source.number, tensor)) != self.alike.value(tensor):
                    return None
        if tuple(kind(given[each]) for each in range(len(template.given))) != template.given:
            return None
        return Step([operations[each] for each in range(len(operations))], [given[k] for k in range(len(given))], last)

    def _turned(self, number: int, period: Period) -> Period | None:
        """The steps of a period, each from its call to the next, with a call before them as the first; None if not so.

        What that call reads is where the loop starts, whoever has computed it.
        """
        call, template, first = self.calls[number], period.template, period.steps[0]
        piece = len(template.functions) - 1
        like = first.operations[piece]
        same = self.alike.function(call) == template.functions[piece]
        if not piece or not same or not self._may_repeat(call, number) or _kinds(call) != _kinds(like):
            return None
        numbers: dict[tuple[bool, int], int] = {}
        given: dict[int, Tensor] = {}
        starts: dict[Last, Tensor] = {}

        def started(read: Last, tensor: Tensor) -> Source:
            starts.setdefault(read, tensor)
            fits.append(starts[read] is tensor)
            return read

        def of_call(tensor: Tensor, source: Source) -> Source:
            if isinstance(source, Made):
                return started(Last(source.place + 1, source.output, kind(tensor)), tensor)
            if isinstance(source, Last):
                fits.append(source.place == CALL)
                return started(Last(0, source.output, source.kind), tensor)
            fits.append(self.alike.value(given.setdefault(source.number, tensor)) == self.alike.value(tensor))
            return Given(numbers.setdefault((True, source.number), len(numbers)))

        def of_piece(source: Source) -> Source:
            if isinstance(source, Made):
                return Made(source.place + 1, source.output)
            if isinstance(source, Given):
                return Given(numbers.setdefault((False, source.number), len(numbers)))
            if source.place == CALL:
                return Made(0, source.output)
            return started(Last(source.place + 1, source.output, source.kind), first.last[source])

        fits: list[bool] = []
        sources = [tuple(map(of_call, call.inputs, template.sources[piece]))]
        sources += [tuple(map(of_piece, each)) for each in template.sources[:piece]]
        if not all(fits):
            return None
        steps: list[Step] = []
        for place in range(len(period.steps) + 1):
            own = period.steps[place - 1].given if place else given
            following = period.steps[min(place, len(period.steps) - 1)]
            calls = period.steps[place - 1].operations[piece:] if place else [call]
            steps.append(
                Step(
                    [*calls, *(following.operations[:piece] if place < len(period.steps) else ())],
                    [own[number] if of_call else following.given[number] for of_call, number in numbers],
                    {} if place else starts,
                )
            )
        kinds = tuple(kind(each) for each in steps[0].given)
        functions = (template.functions[piece], *template.functions[:piece])
        short = frozenset(place for (of_call, _), place in numbers.items() if not of_call)
        return Period(Template(functions, tuple(sources), kinds), steps, turned=True, short=short)

    def _may_repeat(self, operation: Operation, start: int) -> bool:
        """Whether a loop may run it, which begins with the call `start`."""
        waits = [self.order.instead.get(each, each) for each in operation.control_inputs]
        return (
            (operation.call is not None or is_pure(operation))
            and not any(each in self.fixed for each in operation.outputs)
            and not any(self._levels.get(each, -1) >= start for each in waits)
        )


def _precedes(step: Step, other: Step) -> bool:
    """Whether what a step reads of the last one is what another step makes: they may have been alike by chance."""
    return all(step.operations[read.place].outputs[read.output] is tensor for read, tensor in other.last.items())


def _kinds(operation: Operation) -> list[object]:
    return [kind(each) for each in operation.inputs]
