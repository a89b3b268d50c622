"""Fast path: most calls are like the one before, and reuse its plan if the guard holds."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
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
        calls: for whoever runs the plan to remember what calls that look like this one have in common.
    """

    plan: Plan
    weights: dict[str, Tensor]
    constants: Values
    adjoint: bool
    key: Key
    row_buffers: dict[str, Tensor]
    signature: Signature
    calls: dict[Hashable, Any]


class Known(NamedTuple):
    """What was found for tensors of one look.

    Args:
        plan: the plan.
        weights: where the guard lists each weight, by name.
        constants: where it lists each tensor that the step uses besides its weights.
        adjoint: whether there were gradients.
        key: what the step read.
        signature: what all operands were called.
        calls: what such calls have in common besides.
    """

    plan: Plan
    weights: dict[str, Place]
    constants: dict[Node, Place]
    adjoint: bool
    key: Key
    signature: Signature
    calls: dict[Hashable, Any]


@dataclass(frozen=True)
class Latest:
    """The latest calls of a cell that nothing has changed between, so that one like them finds its plan at once.

    Args:
        guard: whether the cell is as it was.
        how: the rest of what a plan depends on.
        tensors: where the guard lists the tensors that a plan knows the shapes of: all but row buffers.
        row_buffers: where it lists the tensors with a row for each of the batch, by name: other ones in every batch.
        decided_by: where it lists the tensors whose values are a part of the plan, with these.
        known: what was found, by what all tensors looked like: memories may have many lengths.
    """

    guard: Guard
    how: tuple[Any, ...]
    tensors: list[Place]
    row_buffers: dict[str, Place]
    decided_by: list[tuple[Place, bytes]]
    known: dict[Hashable, Known]

    @classmethod
    def of(
        cls, fingerprint: Fingerprint, inputs: Structure, state: Structure, how: tuple[Any, ...], ready: Ready
    ) -> Latest:
        """What to remember of a call."""
        passing, decided = list(ready.row_buffers.values()), ready.plan.decided_by
        guard = Guard(fingerprint, passing)
        others = [each for each in fingerprint.tensors if not any(each is one for one in passing)]
        looks = _looks(flatten(inputs), [*flatten(state), *passing], others)
        return cls(
            guard,
            (*how, _containers(inputs), _containers(state)),
            [guard.places[id(each)] for each in others],
            {name: guard.places[id(each)] for name, each in ready.row_buffers.items()},
            [(guard.places[id(each)], bytes_of(each)) for each in map(fingerprint.tensors.__getitem__, decided)],
            {looks: _known(guard, ready)},
        )

    def looks_of(self, listed: Sequence[Sequence[Any]]) -> Hashable:
        """What the tensors look like that a plan knows the shapes of, among those that the guard lists."""
        return _looks((), (), [listed[probe][k] for probe, k in self.tensors])

    def add(self, cell: Any, inputs: Structure, state: Structure, how: tuple[Any, ...], ready: Ready) -> bool:
        """Remembers a call besides, if only tensors look otherwise; False if more is not as it was."""
        found = self._found(cell, inputs, state, how)
        decided = found is not None and len(ready.plan.decided_by) == len(self.decided_by)
        if found is None or not decided or found.row_buffers.keys() != ready.row_buffers.keys():
            return False
        used = [*ready.weights.values(), *(ready.constants[node] for node in ready.plan.constants)]
        if not all(id(each) in self.guard.places for each in used):
            return False
        self.known[found.looks] = _known(self.guard, ready)
        return True

    def again(self, cell: Any, inputs: Structure, state: Structure, how: tuple[Any, ...]) -> Ready | None:
        """What a call like this one had; None if there was none."""
        found = self._found(cell, inputs, state, how)
        known = None if found is None else self.known.get(found.looks)
        if found is None or known is None:
            return None
        listed = found.listed
        constants = {node: listed[probe][k] for node, (probe, k) in known.constants.items()}
        return Ready(
            known.plan,
            {name: listed[probe][k] for name, (probe, k) in known.weights.items()},
            {**known.plan.trace.literals, **constants},
            known.adjoint,
            known.key,
            found.row_buffers,
            known.signature,
            known.calls,
        )

    def _found(self, cell: Any, inputs: Structure, state: Structure, how: tuple[Any, ...]) -> _Found | None:
        if (*how, _containers(inputs), _containers(state)) != self.how:
            return None
        listed = self.guard.check(cell)
        if listed is None or any(bytes_of(listed[probe][k]) != values for (probe, k), values in self.decided_by):
            return None
        row_buffers = {name: listed[probe][k] for name, (probe, k) in self.row_buffers.items()}
        input_leaves, by_row = flatten(inputs), [*flatten(state), *row_buffers.values()]
        rows = input_leaves[0].shape[1]
        for leaf in by_row:
            if not isinstance(leaf, Tensor) or not leaf.dim() or leaf.shape[0] != rows:
                return None
        looks = _looks(input_leaves, by_row, [listed[probe][k] for probe, k in self.tensors])
        return _Found(listed, row_buffers, looks)


class _Found(NamedTuple):
    """A call of a cell that is as it was: what the guard lists, and what tensors look like."""

    listed: list[list[Any]]
    row_buffers: dict[str, Tensor]
    looks: Hashable


def _known(guard: Guard, ready: Ready) -> Known:
    return Known(
        ready.plan,
        {name: guard.places[id(each)] for name, each in ready.weights.items()},
        {node: guard.places[id(ready.constants[node])] for node in ready.plan.constants},
        ready.adjoint,
        ready.key,
        ready.signature,
        ready.calls,
    )


def _looks(inputs: Sequence[Tensor], by_row: Sequence[Tensor], others: Sequence[Tensor]) -> Hashable:
    """Kinds, shapes without steps and rows, dtypes, devices, and where gradients are wanted."""
    found: list[Any] = []
    for each in inputs:
        found += (each.shape[2:], *_LOOK(each))
    for each in by_row:
        found += (each.shape[1:], *_LOOK(each))
    for each in others:
        found += (each.shape, *_LOOK(each))
    return tuple(found)


_LOOK = operator.attrgetter("__class__", "layout", "dtype", "device", "requires_grad")


def _containers(structure: Structure) -> Any:
    """What containers a structure has: its type, where that says it."""
    if isinstance(structure, Tensor) or is_flat(structure):
        return structure.__class__
    return optree.tree_structure(structure, none_is_leaf=True)
