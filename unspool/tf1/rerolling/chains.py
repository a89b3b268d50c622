"""Chains of calls: a cell that a program calls step by step, each call from the state that the last one left.

Such a chain computes what a loop does, and as one loop it runs many times faster. `joined` finds the chains in what a
fetch needs, and has loops in their place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from unspool.cells.wrappers.dropout import DropoutWrapper
from unspool.structure import Structure, flatten
from unspool.tf1.operation import Operation
from unspool.tf1.rerolling.order import Order
from unspool.tf1.tables import LOOKUP, VARIABLE
from unspool.tf1.tensor import Tensor

FEWEST = 4
"""The calls that make a chain: the loop of fewer takes longer than they do."""


@dataclass(frozen=True, eq=False)
class CellCall:
    """What an operation knows of the call that it is.

    Args:
        bound: the cell's module.
        inputs, state: what it was called with.
        output, new_state: what it returned.
        late: what the module needs of a run besides.
    """

    bound: Any
    inputs: Structure
    state: Structure
    output: Structure
    new_state: Structure
    late: tuple[Tensor, ...]

    @cached_property
    def reads(self) -> tuple[Tensor, ...]:
        """The tensors of the inputs."""
        return tuple(flatten(self.inputs))

    @cached_property
    def starts(self) -> tuple[Tensor, ...]:
        """The tensors of the state."""
        return tuple(flatten(self.state))

    @cached_property
    def puts_out(self) -> tuple[Tensor, ...]:
        """The tensors of the output."""
        return tuple(flatten(self.output))

    @cached_property
    def ends(self) -> tuple[Tensor, ...]:
        """The tensors of the new state."""
        return tuple(flatten(self.new_state))

    def follows(self, other: CellCall) -> bool:
        """Whether it is the step after another call."""
        return (
            self.bound is other.bound
            and self.starts == other.ends
            and self.late == other.late
            and _kinds(self.reads) == _kinds(other.reads)
            and _kinds(self.puts_out) == _kinds(other.puts_out)
        )


def noted(operation: Operation, call: CellCall) -> None:
    """Lets an operation know which call it is, if a loop could do what it does.

    Masks that stay from call to call would be drawn anew by a loop, those of a seed in another order, and the gradient
    of a table that is read by rows has to know every reading.
    """
    dropouts = [each for each in call.bound.module.modules() if isinstance(each, DropoutWrapper)]
    drawn = any(each.variational_recurrent or each.seed is not None for each in dropouts)
    leaves: list[Any] = [*call.reads, *call.starts, *call.puts_out, *call.ends]
    tensors = all(isinstance(leaf, Tensor) for leaf in leaves)
    whole = all(how is None for how in operation.reads.values())
    if tensors and whole and not drawn and call.reads and call.starts and operation.graph.outer is None:
        operation.call = call


def joined(
    operations: Sequence[Operation], wanted: Sequence[Tensor | Operation], fed: Collection[Tensor], watched: Any
) -> list[Operation]:
    """Operations that compute the same with loops in the place of what repeats, in an order in which they can run.

    First calls of a cell that depend on each other through the state alone, then steps of which each reads the last.
    What is fed, and what gradients are taken by, stays as it is.

    Args:
        operations: what is needed; none of them depends on a change of a variable.
        wanted: those of them, and of their outputs, that somebody else needs.
        fed: the tensors whose values are given.
        watched: the tensors by which gradients are taken.
    """
    free = [each for each in operations if not _is_fixed(each, fed, watched)]
    groups = [each for each in _repeated(free) if len(each) >= FEWEST]
    if not groups:
        return list(operations)
    from unspool.tf1.rerolling.alike import Alike
    from unspool.tf1.rerolling.joining import Rewrite
    from unspool.tf1.rerolling.periods import Search
    from unspool.tf1.rerolling.rolling import roll

    rewrite = Rewrite(operations, wanted, fed, watched)
    for chain in _chains([each for each in free if each.call is not None]):
        if len(chain) >= FEWEST:
            for segment in _segments(chain, rewrite.ordered()):
                if len(segment) >= FEWEST:
                    rewrite.join(segment)
    order = rewrite.ordered()
    alike = Alike(order.operations, fed)
    for group in groups:
        members = [each for each in order.operations if each in group]
        found = [] if len(members) < FEWEST else Search(members, order, alike, {*fed, *watched}).periods(FEWEST)
        if [roll(rewrite, period, alike) for period in found]:
            order = rewrite.ordered()
            alike = Alike(order.operations, fed)
    return rewrite.finished()


def _repeated(operations: Sequence[Operation]) -> list[dict[Operation, None]]:
    """Operations of which each may be what a step is known by: calls of one cell, then readers of one matrix."""
    calls: dict[Any, dict[Operation, None]] = {}
    readers: dict[Any, dict[Operation, None]] = {}
    for operation in operations:
        if operation.call is not None:
            calls.setdefault(operation.call.bound, {})[operation] = None
        elif not operation.takes_run and operation.type != LOOKUP:
            for each in operation.inputs:
                if each.op.type == VARIABLE and each.dims is not None and len(each.dims) == 2:
                    readers.setdefault((operation.type, each), {})[operation] = None
    return [*calls.values(), *readers.values()]


def _is_fixed(operation: Operation, fed: Collection[Tensor], watched: Collection[Tensor]) -> bool:
    """Whether somebody else computes its outputs, or takes gradients by them."""
    return any(each in fed or each in watched for each in operation.outputs)


def _chains(calls: Sequence[Operation]) -> list[list[Operation]]:
    """Calls that follow each other; none is in two chains."""
    chains: dict[Operation, list[Operation]] = {}
    """The chain that each call is the last of."""
    for operation in calls:
        call: CellCall = operation.call
        before = call.starts[0].op
        chain = chains.pop(before) if before in chains and call.follows(before.call) else []
        chain.append(operation)
        chains[operation] = chain
    return list(chains.values())


def _segments(chain: Sequence[Operation], order: Order) -> list[list[Operation]]:
    """The longest parts of a chain in which no call depends on one before it, but by the state."""
    places = {operation: place for place, operation in enumerate(chain)}
    reached: dict[Operation, int] = {}
    """The last call of the chain that an operation depends on."""
    segments: list[list[Operation]] = []
    began = 0
    for operation in order.operations:
        place = places.get(operation)
        own = operation.inputs if not place else (*operation.call.reads, *operation.call.late)
        before = order.before(operation, own)
        reached[operation] = max((places.get(each, reached.get(each, -1)) for each in before), default=-1)
        if place is None:
            continue
        if not segments or reached[operation] >= began:
            segments.append([])
            began = place
        segments[-1].append(operation)
    return segments


def _kinds(tensors: Sequence[Tensor]) -> list[Any]:
    return [(each.dtype, each.dims) for each in tensors]
