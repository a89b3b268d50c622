"""Operations in an order in which they can run, and who computes what."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from unspool.tf1.operation import Operation
from unspool.tf1.tensor import Tensor


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
