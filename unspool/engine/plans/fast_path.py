"""Fast path: most calls are like the one before, and reuse its plan if the guard holds."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import optree
from torch import Tensor

from unspool.engine.execute.operands import Signature
from unspool.engine.execute.parts import Values
from unspool.engine.guards.fingerprint import Fingerprint
from unspool.engine.guards.guard import Guard, Place
from unspool.engine.guards.nodes import Key, bytes_of
from unspool.engine.plans.plan import Plan
from unspool.engine.trace.graph import Node
from unspool.structure import Structure, flatten, is_flat


class Ready(NamedTuple):
    """A plan for a call, and what it takes from the cell.

    Args:
        plan: the plan.
        weights: the cell's weights by name.
        constants: the tensors that the step uses besides.
        adjoint: whether there will be gradients.
        key: what the step reads besides tensors.
        row_buffers: the cell's buffers with a row for each of the batch, by name.
        signature: what all operands are called.
    """

    plan: Plan
    weights: dict[str, Tensor]
    constants: Values
    adjoint: bool
    key: Key
    row_buffers: dict[str, Tensor]
    signature: Signature


@dataclass(frozen=True)
class Latest:
    """The latest call of a cell, so that one like it finds its plan at once.

    Args:
        guard: whether the cell is as it was.
        how: the rest of what a plan depends on.
        looks: what all tensors looked like.
        plan: the plan.
        weights: where the guard lists each weight, by name.
        tensors: where it lists the tensors that a plan knows the shapes of: all but row buffers.
        constants: where it lists each tensor that the step uses besides its weights.
        adjoint: whether there were gradients.
        key: what the step read.
        row_buffers: where it lists the tensors with a row for each of the batch, by name: other ones in every batch.
        signature: what all operands were called.
        decided_by: where it lists the tensors whose values are a part of the plan, with these.
    """

    guard: Guard
    how: tuple[Any, ...]
    looks: list[Any]
    plan: Plan
    weights: dict[str, Place]
    tensors: list[Place]
    constants: dict[Node, Place]
    adjoint: bool
    key: Key
    row_buffers: dict[str, Place]
    signature: Signature
    decided_by: list[tuple[Place, bytes]]

    @classmethod
    def of(
        cls, fingerprint: Fingerprint, inputs: Structure, state: Structure, how: tuple[Any, ...], ready: Ready
    ) -> Latest:
        """What to remember of a call."""
        passing, decided = list(ready.row_buffers.values()), ready.plan.decided_by
        guard = Guard(fingerprint, passing)
        constants = {node: guard.places[id(ready.constants[node])] for node in ready.plan.constants}
        others = [each for each in fingerprint.tensors if not any(each is one for one in passing)]
        return cls(
            guard,
            (*how, _containers(inputs), _containers(state)),
            _looks(flatten(inputs), [*flatten(state), *passing], others),
            ready.plan,
            {name: guard.places[id(each)] for name, each in ready.weights.items()},
            [guard.places[id(each)] for each in others],
            constants,
            ready.adjoint,
            ready.key,
            {name: guard.places[id(each)] for name, each in ready.row_buffers.items()},
            ready.signature,
            [(guard.places[id(each)], bytes_of(each)) for each in map(fingerprint.tensors.__getitem__, decided)],
        )

    def again(self, cell: Any, inputs: Structure, state: Structure, how: tuple[Any, ...]) -> Ready | None:
        """What the latest call had, for a call that is like it; None if this one is not."""
        if (*how, _containers(inputs), _containers(state)) != self.how:
            return None
        found = self.guard.check(cell)
        if found is None or any(bytes_of(found[probe][k]) != values for (probe, k), values in self.decided_by):
            return None
        row_buffers = {name: found[probe][k] for name, (probe, k) in self.row_buffers.items()}
        input_leaves, by_row = flatten(inputs), [*flatten(state), *row_buffers.values()]
        rows = input_leaves[0].shape[1]
        for leaf in by_row:
            if not isinstance(leaf, Tensor) or not leaf.dim() or leaf.shape[0] != rows:
                return None
        if _looks(input_leaves, by_row, [found[probe][k] for probe, k in self.tensors]) != self.looks:
            return None
        return Ready(
            self.plan,
            {name: found[probe][k] for name, (probe, k) in self.weights.items()},
            {**self.plan.trace.literals, **{node: found[probe][k] for node, (probe, k) in self.constants.items()}},
            self.adjoint,
            self.key,
            row_buffers,
            self.signature,
        )


def _looks(inputs: Sequence[Tensor], by_row: Sequence[Tensor], others: Sequence[Tensor]) -> list[Any]:
    """Kinds, shapes without steps and rows, dtypes, devices, and where gradients are wanted."""
    found: list[Any] = []
    for each in inputs:
        found += (each.shape[2:], *_LOOK(each))
    for each in by_row:
        found += (each.shape[1:], *_LOOK(each))
    for each in others:
        found += (each.shape, *_LOOK(each))
    return found


_LOOK = operator.attrgetter("__class__", "layout", "dtype", "device", "requires_grad")


def _containers(structure: Structure) -> Any:
    """What containers a structure has: its type, where that says it."""
    if isinstance(structure, Tensor) or is_flat(structure):
        return structure.__class__
    return optree.tree_structure(structure, none_is_leaf=True)
