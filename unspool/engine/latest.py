"""The latest call of a cell: most calls are like the one before, and this tells so in a few microseconds."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from unspool.engine.graph import Node
from unspool.engine.parts import Values
from unspool.engine.plan import Plan
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


@dataclass(frozen=True)
class Glance:
    """What hangs on a cell at arm's length, to be compared by identity: much quicker than a `Watch`.

    Args:
        values: attributes, modules below the cell, and whether these have hooks.
        tensors: the tensors among these, and weights.
    """

    values: list[Any]
    tensors: list[Tensor]

    @classmethod
    def at(cls, cell: Any) -> Glance:
        """The glance at `cell` now."""
        seen = list(getattr(cell, "__dict__", {}).values())
        if isinstance(cell, nn.Module):
            seen = _seen_on(cell)
        values: list[Any] = []
        tensors: list[Tensor] = []
        for each in seen:
            (tensors if isinstance(each, Tensor) else values).append(each)
        return cls(values, tensors)


def _seen_on(cell: nn.Module) -> list[Any]:
    """Everything on a module and on those below it, each of these once."""
    modules, known = [cell], {id(cell)}
    seen: list[Any] = []
    for module in modules:  # which grows
        own = module.__dict__
        below: list[nn.Module | None] = list(own["_modules"].values())
        seen += [*own.values(), *below, *own["_parameters"].values(), *own["_buffers"].values()]
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
        values: what a glance at the cell showed, besides tensors.
        tensors: the tensors, which are not kept alive.
        looks: what all tensors looked like.
        how: the rest of what a plan depends on.
        plan: the plan.
        names, weights: the names of the weights, and which of the tensors they are.
        hanging: which of the tensors each constant of the plan is.
        adjoint: whether there were gradients.
        memory: which of the tensors have a row for each of the batch, by name: other ones in every batch.
    """

    values: list[Any]
    tensors: list[weakref.ref[Tensor]]
    looks: list[Any]
    how: tuple[Any, ...]
    plan: Plan
    names: tuple[str, ...]
    weights: tuple[int, ...]
    hanging: dict[Node, int]
    adjoint: bool
    memory: dict[str, int]

    @classmethod
    def of(cls, seen: Glance, inputs: Structure, state: Structure, how: tuple[Any, ...], ready: Ready) -> Latest | None:
        """What to remember; None if a glance, or the types of `inputs` and `state`, do not show all that matters."""
        place = {id(tensor): k for k, tensor in enumerate(seen.tensors)}
        hanging = {node: ready.constants[node] for node in ready.plan.hanging}
        used = [*hanging.values(), *ready.weights.values(), *ready.memory.values()]
        if any(id(each) not in place for each in used) or not (_is_simple(inputs) and _is_simple(state)):
            return None
        memory = [place[id(each)] for each in ready.memory.values()]
        return cls(
            seen.values,
            [weakref.ref(each) for each in seen.tensors],
            _looks(seen, flatten(inputs), flatten(state), memory),
            _with_types(how, inputs, state),
            ready.plan,
            tuple(ready.weights),
            tuple(place[id(each)] for each in ready.weights.values()),
            {node: place[id(each)] for node, each in hanging.items()},
            ready.adjoint,
            dict(zip(ready.memory, memory, strict=True)),
        )

    def again(self, seen: Glance, inputs: Structure, state: Structure, how: tuple[Any, ...]) -> Ready | None:
        """What the latest call had, for a call that is like it; None if this one is not."""
        if _with_types(how, inputs, state) != self.how or not _same(seen.values, self.values):
            return None
        input_leaves, state_leaves, tensors = flatten(inputs), flatten(state), seen.tensors
        if len(tensors) != len(self.tensors):
            return None
        rows, moving = input_leaves[0].shape[1], self.memory.values()
        if (
            any(old() is not tensors[k] and k not in moving for k, old in enumerate(self.tensors))
            or any(not isinstance(leaf, Tensor) or leaf.shape[:1] != (rows,) for leaf in state_leaves)
            or any(tensors[k].shape[:1] != (rows,) for k in moving)
            or _looks(seen, input_leaves, state_leaves, moving) != self.looks
        ):
            return None
        return Ready(
            self.plan,
            {name: tensors[k] for name, k in zip(self.names, self.weights, strict=True)},
            {**self.plan.trace.literals, **{node: tensors[k] for node, k in self.hanging.items()}},
            self.adjoint,
            {name: tensors[k] for name, k in self.memory.items()},
        )


def _with_types(how: tuple[Any, ...], inputs: Structure, state: Structure) -> tuple[Any, ...]:
    return (*how, inputs.__class__, state.__class__)


def _same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _looks(seen: Glance, inputs: Sequence[Tensor], state: Sequence[Tensor], memory: Collection[int]) -> list[Any]:
    """Kinds, shapes without steps and rows, dtypes, devices, and where gradients are wanted."""
    found: list[Any] = []
    rows = [each for k, each in enumerate(seen.tensors) if k in memory]
    others = [each for k, each in enumerate(seen.tensors) if k not in memory] if rows else seen.tensors
    for axes, tensors in ((2, inputs), (1, [*state, *rows]), (0, others)):
        for each in tensors:
            found += (each.__class__, each.layout, each.shape[axes:], each.dtype, each.device, each.requires_grad)
    return found


def _is_simple(structure: Structure) -> bool:
    """Whether its type says what containers it has."""
    return isinstance(structure, Tensor) or is_flat(structure)
