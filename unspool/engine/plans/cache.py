"""The cache of plans: finds the plan of a cell, made at first use, or says why there is none."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import optree
import torch
from torch import Tensor
from torch.utils import _device as default_device

from unspool.engine.execute.operands import Signature
from unspool.engine.guards.fingerprint import TENSOR, Fingerprint
from unspool.engine.guards.guard import Guard, Place
from unspool.engine.guards.nodes import Key, bytes_of
from unspool.engine.guards.rehearsal import NewlyImportedError
from unspool.engine.plans.checks import check_can_be_planned, check_circumstances
from unspool.engine.plans.fast_path import Latest, Ready
from unspool.engine.plans.making import check_modules, fingerprint_of, make_plan, row_buffers_of
from unspool.engine.plans.plan import Plan
from unspool.engine.reasons import CannotPlanError, Code, Reason
from unspool.engine.request import Request
from unspool.engine.trace.lifting import is_among, may_have_rows, reached_weights, weights_of
from unspool.engine.trace.spec import Leaf, StepSpec
from unspool.forking import ForkSafeLock
from unspool.identity_map import IdentityMap
from unspool.structure import Structure, flatten, map_structure, unflatten_as

MOST_VARIANTS = 16
"""How many plans a cell may have for different values of its attributes before it is left to the plain loop."""

MOST_SHAPES = 128
"""How many it may have besides for different shapes of tensors that it reaches, as memories of any length have."""

OF_ROWS = (Code.NOT_TRACED, Code.ROW_COUNT, Code.MIXED_ROWS)
"""Why there is no plan if a tensor of the batch, say a memory in an attribute, is taken for one of the cell."""

MOST_IMPORTS = 8
"""How often a step is looked at anew because it has imported something."""


@dataclass
class _Plans:
    """The plans of one cell, or why there are none."""

    latest: dict[tuple[type, bool], Latest] = field(default_factory=dict)
    """The latest call, by the type of the cell, this one or one that was made around it, and whether gradients were
    wanted: steps of training and calls without gradients often take turns."""
    by_key: dict[Hashable, Plan | Reason] = field(default_factory=dict)
    refused: dict[Hashable, Reason] = field(default_factory=dict)
    """Why cells have none that were made for the occasion, around this one: at most as many as it may have plans."""
    variants: set[Hashable] = field(default_factory=set)
    shapes: set[Hashable] = field(default_factory=set)
    by_row: bool = False
    """Whether its step reaches tensors with a row for each of the batch."""
    decided_by: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)
    """Which of the tensors that a step reaches have values that its plans depend on, by its fingerprint."""
    lent: set[Plan] = field(default_factory=set)
    repeated: dict[Hashable, Any] = field(default_factory=dict)
    lock: ForkSafeLock = field(default_factory=ForkSafeLock)


log = logging.getLogger("unspool")

_plans = IdentityMap(_Plans)
"""The plans of each cell."""
_shared: weakref.WeakValueDictionary[Hashable, Plan] = weakref.WeakValueDictionary()
"""Plans that hold for every cell of the same making, as long as one of these lives."""
_tracing = ForkSafeLock()
"""Held while a step is traced: tracers patch torch for all threads."""
traces = 0
"""How many steps have been traced since the program began."""


def plan_of(request: Request) -> Ready:
    """The plan of a cell for such inputs and states, made at first use and kept as long as the cell lives.

    Cells of the same making share their plans. What the plan needs of this cell comes with it.

    Raises:
        CannotPlanError: with the reason, if the cell has to run in the plain loop.
    """
    cell, inputs, state, owner = request.cell, request.inputs, request.state, request.owner
    device: torch.device = flatten(inputs)[0].device
    check_circumstances(device)
    kept = _plans_of(cell if owner is None else owner)
    how = circumstances(request.output_dtype, device)
    kind = cell.__class__, torch.is_grad_enabled()
    with kept.lock.own:
        latest = kept.latest.get(kind)
        ready = None if latest is None else latest.again(cell, inputs, state, how)
    if ready is not None:
        return ready
    plans = _plans_of(cell)
    with plans.lock.own:
        asked, plan = _asked_for(plans, kept.refused, request, how)
    if isinstance(plan, Reason):
        raise CannotPlanError.of(plan)
    reached = asked.fingerprint.tensors
    constants = {**plan.trace.literals, **{node: reached[k] for node, k in plan.constants.items()}}
    spec, buffers = asked.spec, asked.row_buffers
    signature = Signature.of(spec.weights, inputs, state, buffers)
    ready = Ready(plan, spec.weights, constants, spec.adjoint, asked.fingerprint.key, buffers, signature, {})
    with kept.lock.own:
        latest = kept.latest.get(kind)  # another thread may have left a later one
        if latest is None or not latest.add(cell, inputs, state, how, ready):
            kept.latest[kind] = Latest.of(asked.fingerprint, inputs, state, how, ready)
        if owner is not None:  # else nobody would find it
            kept.lent.add(plan)
    return ready


def circumstances(output_dtype: torch.dtype | None, device: torch.device) -> tuple[Any, ...]:
    """What a plan depends on besides the cell and its tensors."""
    return (
        output_dtype,
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        default_device.CURRENT_DEVICE,
        torch.are_deterministic_algorithms_enabled(),
        _autocast_key(device),
    )


def latest_of(cell: Any) -> Latest | None:
    """What the latest calls of a cell had that wanted gradients, or did not, as now; None if nothing did by a plan."""
    return _plans_of(cell).latest.get((cell.__class__, torch.is_grad_enabled()))


def latest_call(cell: Any, plan: Plan) -> tuple[Guard, list[Place]] | None:
    """What guards the latest calls of a cell and where it lists the weights, if one of these ran by a plan."""
    kinds, kind = _plans_of(cell).latest, cell.__class__
    for latest in filter(None, (kinds.get((kind, True)), kinds.get((kind, False)))):
        for known in latest.known.values():
            if known.plan is plan:
                return latest.guard, list(known.weights.values())
    return None


def repeated_calls(cell: Any) -> dict[Hashable, Any]:
    """What is remembered of the calls of a cell that nobody changes, as long as it lives."""
    return _plans_of(cell).repeated


class _Asked:
    """What a plan is looked for by: the cell as it is now, and what it is given.

    Args:
        request: the cell, and what it is given.
        how: the circumstances.
        by_row: the names of tensors that its step reaches, of which each row of the batch has its own.
        fingerprint: what its step can reach, if that is known already.

    Raises:
        CannotPlanError: if it cannot be planned whatever the step does.
    """

    def __init__(
        self,
        request: Request,
        how: tuple[Any, ...],
        by_row: Collection[str] = (),
        fingerprint: Fingerprint | None = None,
    ) -> None:
        self.cell = cell = request.cell
        self.row_buffers = row_buffers_of(cell)
        weights = {name: weight for name, weight in weights_of(cell).items() if name not in self.row_buffers}
        carried = [*flatten(request.state), *self.row_buffers.values()]
        check_can_be_planned(cell, weights, request.inputs, carried)
        self.fingerprint: Fingerprint = fingerprint or fingerprint_of(cell)
        check_modules(cell, self.fingerprint)
        rows: int = flatten(request.inputs)[0].shape[1]
        self.may_have_rows = may_have_rows(cell, self.fingerprint.tensors, rows, self.row_buffers.values())
        """Tensors that the step reaches and that have as many rows as the batch, by name."""
        captured = {name: each for name, each in self.may_have_rows.items() if name in by_row}
        self.row_buffers |= captured
        carried += captured.values()
        weights = {name: each for name, each in weights.items() if not is_among(each, captured.values())}
        known = [*weights.values(), *self.row_buffers.values()]
        reached = reached_weights(self.fingerprint.tensors, known)
        if reached or captured:
            check_can_be_planned(cell, reached, request.inputs, carried)
            weights |= reached
        tensors: list[Tensor] = [*weights.values(), *flatten(request.inputs), *carried]
        adjoint = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
        self.spec = StepSpec(
            weights,
            map_structure(lambda leaf: _leaf(leaf, 2, adjoint and leaf.requires_grad), request.inputs),
            map_structure(lambda leaf: _leaf(leaf, 1, False), request.state),
            request.output_dtype,
            adjoint,
            {name: _leaf(each, 1, False) for name, each in self.row_buffers.items()},
            captured,
        )
        self.own = _key_for_any_rows(self.fingerprint, self.row_buffers.values())
        """What the step reads, but for the number of rows."""
        self.key = (
            self.own,
            *(_structure_key(each) for each in (self.spec.inputs, self.spec.state)),
            tuple((name, _leaf(each, 0, adjoint and each.requires_grad)) for name, each in weights.items()),
            tuple(self.spec.row_buffers.items()),
            *how,
            adjoint,
        )

    def values(self, numbers: Sequence[int]) -> tuple[bytes, ...]:
        """The values of tensors that the step reaches."""
        return tuple(bytes_of(self.fingerprint.tensors[number]) for number in numbers)


def _asked_for(
    plans: _Plans, refused: dict[Hashable, Reason], request: Request, how: tuple[Any, ...]
) -> tuple[_Asked, Plan | Reason]:
    """What is asked for, and its plan, or why there is none."""
    for number in range(1, MOST_IMPORTS + 1):
        try:
            return _by_row_or_not(plans, refused, request, how)
        except NewlyImportedError:  # now it is there, and a part of the fingerprint
            if number == MOST_IMPORTS:
                raise
    raise AssertionError


def _by_row_or_not(
    plans: _Plans, refused: dict[Hashable, Reason], request: Request, how: tuple[Any, ...]
) -> tuple[_Asked, Plan | Reason]:
    """The same. A tensor with as many rows as the batch is taken for the cell's own first, and then for one by row."""
    asked = _Asked(request, how)
    plan = None if plans.by_row and asked.may_have_rows else _find(plans, refused, asked)
    if asked.may_have_rows and (plan is None or (isinstance(plan, Reason) and plan.code in OF_ROWS)):
        again = _Asked(request, how, asked.may_have_rows, asked.fingerprint)
        found = _find(plans, refused, again)
        if isinstance(found, Plan) and len(used := _read_by_row(again, found)) < len(again.row_buffers):
            again = _Asked(request, how, used, asked.fingerprint)
            found = _find(plans, refused, again)
        if isinstance(found, Plan):
            plans.by_row = True
            return again, found
    return asked, _find(plans, refused, asked) if plan is None else plan


def _read_by_row(asked: _Asked, plan: Plan) -> list[str]:
    """The row buffers that a step reads: others, say, are left from a step before, and overwritten."""
    placed = zip(asked.row_buffers, plan.trace.row_buffers, strict=True)
    return [name for name, node in placed if any(user.op != "output" for user in node.users)]


def _find(plans: _Plans, refused: dict[Hashable, Reason], asked: _Asked) -> Plan | Reason:
    """The plan that is asked for, or why there is none; `refused` has what was found for others like the cell."""
    global traces
    own = asked.own
    key = (asked.key, asked.values(plans.decided_by.get(own, ())))
    if key in refused:
        return refused[key]
    if key not in plans.by_key:
        plans.variants.add((tuple(entry for entry in own if entry[1] != TENSOR), key[1]))
        plans.shapes.add(own)
        if len(plans.variants) > MOST_VARIANTS:
            message = f"what the step reads has changed more than {MOST_VARIANTS} times between calls"
            raise CannotPlanError(Code.VARIANTS, message)
        if len(plans.shapes) > MOST_SHAPES:
            message = f"tensors that the step reads have had more than {MOST_SHAPES} shapes"
            raise CannotPlanError(Code.VARIANTS, message)
        try:
            plan = _shared.get(key)
            if plan is None:
                if plans.by_key:
                    kind = type(asked.cell).__qualname__
                    log.info("%s is planned anew: another shape, dtype, structure or option", kind)
                with _tracing.own:
                    traces += 1
                    plan = make_plan(asked.cell, asked.fingerprint, asked.spec, asked.row_buffers)
                    plans.decided_by[own] = tuple(sorted({*plans.decided_by.get(own, ()), *plan.decided_by}))
                    key = (asked.key, asked.values(plans.decided_by[own]))
            plans.by_key[key] = _shared[key] = plan
        except NewlyImportedError:
            raise
        except CannotPlanError as error:
            plans.by_key[key] = refused[key] = error.reason
            for old in list(refused)[:-MOST_VARIANTS]:
                refused.pop(old, None)
    return plans.by_key[key]


def _plans_of(cell: Any) -> _Plans:
    try:
        return _plans.of(cell)
    except TypeError:
        message = "the cell cannot be referred to weakly, so that its plan could not be kept"
        raise CannotPlanError(Code.NO_REFERENCE, message) from None


def _leaf(tensor: Tensor, axes: int, wanted: bool) -> Leaf:
    return Leaf(tuple(tensor.shape[axes:]), tensor.dtype, tensor.device, wanted)


def _key_for_any_rows(fingerprint: Fingerprint, by_row: Collection[Tensor]) -> Key:
    """The key of a fingerprint, with the shapes of tensors that have rows from the second axis on."""
    numbers = {number for number, node in enumerate(fingerprint.nodes) if is_among(node.value, by_row)}
    if not numbers:
        return fingerprint.key
    found: list[tuple[int, str, Any]] = []
    for number, slot, mark in fingerprint.key:
        look: Any = mark
        if slot == TENSOR and number in numbers:
            kind, shape, *others = look
            look = (kind, shape[1:], *others)
        found.append((number, slot, look))
    return tuple(found)


def _structure_key(leaves: Structure) -> Hashable:
    flat = flatten(leaves)
    numbered = unflatten_as(leaves, list(range(len(flat))))
    return (optree.tree_structure(numbered, none_is_leaf=True), tuple(flat))


def _autocast_key(device: torch.device) -> Hashable:
    kinds = ("cpu",) if device.type == "cpu" else ("cpu", device.type)
    return tuple([(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds])
