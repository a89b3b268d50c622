"""Chains of calls: a cell that a program calls step by step, each call from the state that the last one left.

Such a chain computes what a loop does, and as one loop it runs many times faster. `joined` finds the chains in what a
fetch needs, and has loops in their place.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Any

from unspool.cells.wrappers.dropout import DropoutWrapper
from unspool.structure import Structure, flatten
from unspool.tf1.graph import Operation
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
    """Operations that compute the same with loops in the place of chains, in an order in which they can run.

    Calls stay as they are where somebody could tell: where their results are fed, or gradients taken by them, and where
    what one reads depends on what another has put out, other than through the state.

    Args:
        operations: what is needed; none of them depends on a change of a variable.
        wanted: those of them, and of their outputs, that somebody else needs.
        fed: the tensors whose values are given.
        watched: the tensors by which gradients are taken.
    """
    chains = [each for each in _chains(operations, fed, watched) if len(each) >= FEWEST]
    if not chains:
        return list(operations)
    from unspool.tf1.rnn.joining import Rewrite

    rewrite = Rewrite(operations, wanted, fed, watched)
    for chain in chains:
        for segment in _segments(chain, rewrite.ordered()):
            if len(segment) >= FEWEST:
                rewrite.join(segment)
    return rewrite.ordered().operations


def _chains(operations: Sequence[Operation], fed: Collection[Tensor], watched: Any) -> list[list[Operation]]:
    """Calls that follow each other; none is in two chains."""
    chains: dict[Operation, list[Operation]] = {}
    """The chain that each call is the last of."""
    for operation in operations:
        call = operation.call
        if call is None or any(each in fed or each in watched for each in operation.outputs):
            continue
        before = call.starts[0].op
        chain = chains.pop(before) if before in chains and call.follows(before.call) else []
        chain.append(operation)
        chains[operation] = chain
    return list(chains.values())


@dataclass(frozen=True)
class Order:
    """Operations in an order in which they can run.

    Args:
        operations: these.
        makers: who computes a tensor.
        instead: who runs in the place of an operation that others wait for.
    """

    operations: list[Operation]
    makers: Mapping[Tensor, Operation]
    instead: Mapping[Operation, Operation]

    def before(self, operation: Operation, inputs: Sequence[Tensor]) -> list[Operation]:
        """What has to run before an operation that reads these inputs."""
        found = [self.makers[each] for each in inputs if each in self.makers]
        return found + [self.instead.get(each, each) for each in operation.control_inputs]


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


def in_order(
    operations: Collection[Operation],
    roots: Sequence[Tensor | Operation],
    fed: Collection[Tensor],
    instead: Mapping[Operation, Operation],
) -> Order:
    """Those of the operations that the roots need, in an order in which they can run, the oldest first."""
    makers = {output: each for each in operations for output in each.outputs if output not in fed}
    order = Order([], makers, instead)
    waiting = [makers.get(each) if isinstance(each, Tensor) else instead.get(each, each) for each in roots]
    alive = set(operations)
    after: dict[Operation, list[Operation]] = {}
    missing: dict[Operation, int] = {}
    while waiting:
        operation = waiting.pop()
        if operation is None or operation not in alive or operation in missing:
            continue
        before = [each for each in dict.fromkeys(order.before(operation, operation.inputs)) if each in alive]
        missing[operation] = len(before)
        for each in before:
            after.setdefault(each, []).append(operation)
        waiting += before
    ties = itertools.count()
    ready = [(each.number, next(ties), each) for each, count in missing.items() if not count]
    heapify(ready)
    while ready:
        operation = heappop(ready)[-1]
        order.operations.append(operation)
        for each in after.get(operation, ()):
            missing[each] -= 1
            if not missing[each]:
                heappush(ready, (each.number, next(ties), each))
    return order


def _kinds(tensors: Sequence[Tensor]) -> list[Any]:
    return [(each.dtype, each.dims) for each in tensors]
