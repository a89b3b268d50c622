"""The operations that a set of fetches needs, in an order in which they can run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from unspool.tf1.errors import InvalidArgumentError, OpError
from unspool.tf1.operation import Operation
from unspool.tf1.tensor import Tensor
from unspool.tracers import recorder

if TYPE_CHECKING:
    from unspool.tf1.session import Run


Rewrite: TypeAlias = Callable[
    [Sequence[Operation], Sequence[Tensor | Operation], Collection[Tensor], Collection[Tensor]], list[Operation]
]
"""Makes a faster list of operations; see `rerolling.chains.joined` for its arguments."""


@dataclass(eq=False)
class _Step:
    operation: Operation
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    frees: tuple[int, ...]
    """What nobody reads after this step."""
    watched: tuple[int, ...]
    """What a later gradient is taken by."""
    copied: tuple[tuple[int, int], ...]
    """The places of variables, and of what they were: they change before a gradient is taken."""

    def __post_init__(self) -> None:
        # What every run asks for.
        self.function, self.takes_run = self.operation.function, self.operation.takes_run
        self.write = self.writes[0] if len(self.writes) == 1 else None
        self.tracks = bool(self.watched or self.copied)


class Program:
    """The operations between what is fed and what is fetched.

    They run in the order in which they were made, which their inputs allow. Those that change variables, and what waits
    for them, come last: everything else sees the variables as they were, and gradients are taken of what was computed.

    Args:
        fetches: tensors, whose values are returned, and operations, which just run.
        fed: the tensors whose values are given.
        rewrite: takes those that do not depend on any change of a variable.
    """

    def __init__(
        self, fetches: Sequence[Tensor | Operation], fed: Collection[Tensor], rewrite: Rewrite | None = None
    ) -> None:
        operations = needed(fetches, fed)
        self.gradients = [each for each in operations if each.watches]
        """The operations that differentiate."""
        self._differentiated = _differentiated(self.gradients)
        watched = {tensor for each in self.gradients for tensor in each.watches}
        early, late = _parted(operations)
        if rewrite is not None and not self._differentiated and not any(each.watches for each in late):
            outside = [each for waits in late for each in (*waits.inputs, *waits.control_inputs)]
            early = rewrite(early, [*fetches, *outside], fed, watched)
        ordered = [*early, *late]
        places: dict[Tensor, int] = {tensor: place for place, tensor in enumerate(fed)}
        for operation in ordered:
            for output in operation.outputs:
                places.setdefault(output, len(places))
        before = _before_changes(late, watched, len(places))
        unread = len(places) + len(before)  # where an operation writes an output that is fed
        self._size = unread + 1
        self._fed = [(places[each], each, each in watched) for each in fed]
        self._fetched = [places[each] if isinstance(each, Tensor) else None for each in fetches]
        self._early = len(early) if late else -1
        kept = {place for place in self._fetched if place is not None}
        earlier = {**places, **before}
        written = {**places, **dict.fromkeys(fed, unread)}
        self._steps = list(_steps(ordered, places, written, kept, watched, earlier, len(early)))

    def is_differentiated(self, operation: Operation) -> bool:
        """Whether a gradient that this operation takes is itself differentiated."""
        return operation in self._differentiated

    def __call__(self, run: Run, fed: Mapping[Tensor, Any]) -> list[Any]:
        """The values of the fetches; None for operations."""
        values: list[Any] = [None] * self._size
        for place, tensor, watched in self._fed:
            values[place] = _tracked(fed[tensor]) if watched else fed[tensor]
        for number, step in enumerate(self._steps):
            if number == self._early:
                self._keep(values)
            arguments = [values[place] for place in step.reads]
            try:
                made = step.function(run, *arguments) if step.takes_run else step.function(*arguments)
            except OpError:
                raise
            except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError) as error:
                if recorder() is not None:
                    raise  # what a trace cannot do is its own to explain
                message = f"{error}\n\t [[node {step.operation.name} ({step.operation.type})]]"
                raise InvalidArgumentError(None, step.operation, message) from error
            if step.write is not None:
                values[step.write] = made
            else:
                for place, value in zip(step.writes, made or (), strict=True):
                    values[place] = value
            if step.tracks:
                for place in step.watched:
                    values[place] = _tracked(values[place])
                for place, copy in step.copied:
                    values[copy] = values[place].clone()
            for place in step.frees:
                values[place] = None
        return [None if place is None else values[place] for place in self._fetched]

    def _keep(self, values: list[Any]) -> None:
        """Saves what is fetched from the changes that follow: it may be a variable's own memory."""
        for place in self._fetched:
            if place is not None and isinstance(values[place], torch.Tensor):
                values[place] = values[place].clone()


def needed(fetches: Iterable[Tensor | Operation], fed: Collection[Tensor]) -> list[Operation]:
    """The operations that fetches depend on, in an order in which they can run."""
    found: set[Operation] = set()
    waiting = [each.op if isinstance(each, Tensor) else each for each in fetches if each not in fed]
    while waiting:
        operation = waiting.pop()
        if operation in found or (operation.outputs and all(each in fed for each in operation.outputs)):
            continue  # what is fed is not computed, whoever waits for it
        found.add(operation)
        waiting += operation.control_inputs
        waiting += [each.op for each in operation.inputs if each not in fed]
    return sorted(found, key=lambda each: each.number)


def _parted(operations: Sequence[Operation]) -> tuple[list[Operation], list[Operation]]:
    """Those that do not depend on any change of a variable, and the rest."""
    late: set[Operation] = set()
    for each in operations:
        if each.effect or any(first in late for first in each.control_inputs) or any(x.op in late for x in each.inputs):
            late.add(each)
    return [each for each in operations if each not in late], [each for each in operations if each in late]


def _differentiated(gradients: Sequence[Operation]) -> set[Operation]:
    """The gradients of which gradients are taken."""
    if len(gradients) < 2:
        return set()
    others = set(gradients)
    return {each for last in gradients for each in needed(last.inputs, ()) if each in others}


def _before_changes(late: Sequence[Operation], watched: Collection[Tensor], free: int) -> dict[Tensor, int]:
    """Places for what variables were, where they change before a gradient is taken of what was computed with them."""
    if not any(each.watches for each in late):
        return {}
    changed = dict.fromkeys(variable.value() for each in late for variable in each.changes)
    return {each: free + place for place, each in enumerate(each for each in changed if each not in watched)}


def _steps(
    ordered: Sequence[Operation],
    places: Mapping[Tensor, int],
    written: Mapping[Tensor, int],
    kept: set[int],
    watched: Collection[Tensor],
    earlier: Mapping[Tensor, int],
    early: int,
) -> Iterable[_Step]:
    """Args: `written`, the places of outputs; `earlier`, those that the first `early` operations read."""
    last: dict[int, int] = {}
    for number, operation in enumerate(ordered):
        read = earlier if number < early else places
        for place in (*(read[each] for each in operation.inputs), *(written[each] for each in operation.outputs)):
            last[place] = number
    dying: dict[int, list[int]] = {}
    for place, number in last.items():
        if place not in kept:
            dying.setdefault(number, []).append(place)
    for number, operation in enumerate(ordered):
        read = earlier if number < early else places
        yield _Step(
            operation,
            tuple(read[each] for each in operation.inputs),
            tuple(written[each] for each in operation.outputs),
            tuple(dying.get(number, ())),
            tuple(written[each] for each in operation.outputs if each in watched),
            tuple((places[each], earlier[each]) for each in operation.outputs if earlier[each] != places[each]),
        )


def _tracked(value: Any) -> Any:
    """The value, so that autograd can differentiate by it."""
    if not isinstance(value, torch.Tensor) or value.requires_grad or not value.is_floating_point():
        return value
    # A variable that is not trainable stays the tensor that modules hold.
    return value.requires_grad_() if isinstance(value, torch.nn.Parameter) else value.detach().requires_grad_()
