"""The latest call of a cell: most calls are like the one before, and this tells so in a few microseconds."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import optree
import torch
from torch import Tensor, nn

from unspool.engine.graph import Node
from unspool.engine.parts import Values
from unspool.engine.plan import Plan
from unspool.engine.watch import OWN
from unspool.structure import Structure, flatten, is_flat

HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
"""The attributes of a module that hold its hooks."""


@dataclass(frozen=True)
class Ready:
    """A plan for a call, and what it takes from the cell.

    Args:
        plan: the plan.
        weights: the cell's weights by name.
        constants: the tensors that the step uses besides.
        adjoint: whether there will be gradients.
        memory: the cell's buffers with a row for each of the batch, by name.
    """

    plan: Plan
    weights: dict[str, Tensor]
    constants: Values
    adjoint: bool
    memory: dict[str, Tensor] = field(default_factory=dict[str, Tensor])


def glance(cell: Any) -> list[Any]:
    """What hangs on a cell at arm's length, to be compared by identity: much quicker than a `Watch`.

    Attributes, modules below the cell, weights, and whether there are hooks. The cell itself is not among it: it may
    have been made for the occasion.
    """
    if not isinstance(cell, nn.Module):
        return list(getattr(cell, "__dict__", {}).values())
    modules, known = [cell], {id(cell)}
    seen: list[Any] = []
    for module in modules:  # which grows
        own = module.__dict__
        below: list[nn.Module | None] = list(own["_modules"].values())
        seen += [each for name, each in own.items() if name not in OWN]
        seen += below
        seen += own["_parameters"].values()
        seen += own["_buffers"].values()
        seen += [bool(own[kind]) for kind in HOOKS]
        for each in below:
            if each is not None and id(each) not in known:
                known.add(id(each))
                modules.append(each)
    return seen


@dataclass(frozen=True)
class Latest:
    """What to remember of a call.

    Args:
        ids: the identities of what a glance at the cell showed; 0 for memory; numbers and sizes as they are.
        values: what is no tensor or module among it, so that nothing else gets one of these identities.
        tensors: the tensors, by their places there; they are not kept alive.
        modules: the modules; they are not kept alive either.
        looks: what all tensors looked like.
        how: the rest of what a plan depends on.
        plan: the plan.
        weights: where the weights are among what was seen, by name.
        hanging: where each constant of the plan is.
        adjoint: whether there were gradients.
        memory: where the tensors with a row for each of the batch are, by name: other ones in every batch.
    """

    ids: list[Any]
    values: list[Any]
    tensors: dict[int, weakref.ref[Tensor]]
    modules: list[weakref.ref[nn.Module]]
    looks: list[Any]
    how: tuple[Any, ...]
    plan: Plan
    weights: dict[str, int]
    hanging: dict[Node, int]
    adjoint: bool
    memory: dict[str, int]

    @classmethod
    def of(
        cls, seen: list[Any], inputs: Structure, state: Structure, how: tuple[Any, ...], ready: Ready
    ) -> Latest | None:
        """What to remember; None if a glance does not show all that matters."""
        place = {id(each): k for k, each in enumerate(seen) if isinstance(each, Tensor)}
        hanging = {node: ready.constants[node] for node in ready.plan.hanging}
        used = [*hanging.values(), *ready.weights.values(), *ready.memory.values()]
        if any(id(each) not in place for each in used):
            return None
        if any(sum(each is one for one in seen) > 1 for each in ready.memory.values()):
            return None  # in the next batch they may be two
        memory = {name: place[id(each)] for name, each in ready.memory.items()}
        tensors = [k for k, each in enumerate(seen) if isinstance(each, Tensor) and k not in memory.values()]
        return cls(
            _identities(seen, memory.values()),
            [each for each in seen if not isinstance(each, Tensor | nn.Module)],
            {k: weakref.ref(seen[k]) for k in tensors},
            [weakref.ref(each) for each in seen if isinstance(each, nn.Module)],
            _looks(flatten(inputs), [*flatten(state), *(seen[k] for k in memory.values())], [seen[k] for k in tensors]),
            (*how, _containers(inputs), _containers(state)),
            ready.plan,
            {name: place[id(each)] for name, each in ready.weights.items()},
            {node: place[id(each)] for node, each in hanging.items()},
            ready.adjoint,
            memory,
        )

    def again(self, seen: list[Any], inputs: Structure, state: Structure, how: tuple[Any, ...]) -> Ready | None:
        """What the latest call had, for a call that is like it; None if this one is not."""
        if (*how, _containers(inputs), _containers(state)) != self.how or len(seen) != len(self.ids):
            return None
        if _identities(seen, self.memory.values()) != self.ids:
            return None
        for old in (*self.tensors.values(), *self.modules):
            if old() is None:  # and something else has its identity now
                return None
        memory = {name: seen[k] for name, k in self.memory.items()}
        input_leaves, by_row = flatten(inputs), [*flatten(state), *memory.values()]
        rows = input_leaves[0].shape[1]
        for leaf in by_row:
            if not isinstance(leaf, Tensor) or not leaf.dim() or leaf.shape[0] != rows:
                return None
        if _looks(input_leaves, by_row, [seen[k] for k in self.tensors]) != self.looks:
            return None
        return Ready(
            self.plan,
            {name: seen[k] for name, k in self.weights.items()},
            {**self.plan.trace.literals, **{node: seen[k] for node, k in self.hanging.items()}},
            self.adjoint,
            memory,
        )


BY_VALUE = {int, torch.Size}
"""What is another object every time that it is asked for or computed."""


def _identities(seen: list[Any], memory: Collection[int]) -> list[Any]:
    ids: list[Any] = [(each.__class__, each) if each.__class__ in BY_VALUE else id(each) for each in seen]
    for place in memory:
        ids[place] = 0
    return ids


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
