"""Finds or makes the plan of a cell, or says why there is none."""

from __future__ import annotations

import copy
import logging
import os
import weakref
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import optree
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils import _device as default_device

from unspool.engine.guards.fingerprint import CannotGuardError, Fingerprint
from unspool.engine.guards.generators import generators_restored
from unspool.engine.guards.rehearsal import rehearse
from unspool.engine.guards.restoring import restored
from unspool.engine.guards.slots import HOOKS
from unspool.engine.plans.fast_path import Latest, Ready
from unspool.engine.plans.plan import Plan
from unspool.engine.reasons import CannotPlanError, Code, Reason, why
from unspool.engine.trace.trace import Leaf, trace
from unspool.forking import ForkSafeLock
from unspool.structure import Structure, flatten, map_structure, unflatten_as
from unspool.tracers import differentiator, onlooker

EVERYWHERE = tuple(f"_global{kind}" for kind in HOOKS)
"""Where torch keeps hooks on all modules."""

MOST_VARIANTS = 16
"""How many plans a cell may have for different values of its attributes before it is left to the plain loop."""


@dataclass
class _Plans:
    """The plans of one cell, or why there are none."""

    latest: dict[type, Latest] = field(default_factory=dict)
    """The latest call, by the type of the cell: this one, or one that was made around it."""
    by_key: dict[Hashable, Plan | Reason] = field(default_factory=dict)
    variants: set[Hashable] = field(default_factory=set)
    lent: set[Plan] = field(default_factory=set)
    lock: ForkSafeLock = field(default_factory=ForkSafeLock)


log = logging.getLogger("unspool")

_plans: dict[int, tuple[weakref.ref[Any], _Plans]] = {}
"""The plans of each cell, by its identity, with a reference to it: cells need not be hashable."""
_shared: weakref.WeakValueDictionary[Hashable, Plan] = weakref.WeakValueDictionary()
"""Plans that hold for every cell of the same making, as long as one of these lives."""
_lock = ForkSafeLock()
_tracing = ForkSafeLock()
"""Held while a step is traced: tracers patch torch for all threads."""
traces = 0
"""How many steps have been traced since the program began."""


def weights_of(cell: Any) -> dict[str, Tensor]:
    """The parameters and buffers of a cell, read through the module now, under every name they have."""
    if not isinstance(cell, nn.Module):
        return {}
    return {**dict(cell.named_parameters(remove_duplicate=False)), **dict(cell.named_buffers(remove_duplicate=False))}


def memory_of(cell: Any) -> dict[str, Tensor]:
    """The buffers of a cell with a row for each of the batch, by name: those that modules list as `row_buffers`.

    Raises:
        CannotPlanError: if one of them is not there.
    """
    found: dict[str, Tensor] = {}
    if isinstance(cell, nn.Module):
        buffers = dict(cell.named_buffers(remove_duplicate=False))
        for path, module in _named_modules(cell):
            if not hasattr(module.__class__, "row_buffers"):
                continue
            listed: Any = module.row_buffers
            for name in listed:
                full = f"{path}.{name}" if path else name
                if full not in buffers:
                    raise CannotPlanError(Code.NO_MEMORY, f"the buffer {full} has not been given")
                found[full] = buffers[full]
    return found


def plan_of(
    cell: Any,
    inputs: Structure,
    state: Structure,
    output_dtype: torch.dtype,
    *,
    same_containers: bool,
    owner: Any = None,
) -> Ready:
    """The plan of `cell` for such inputs and states, made at first use and kept as long as the cell lives.

    Cells of the same making share their plans. What the plan needs of this cell comes with it.

    Args:
        cell: the cell, built.
        inputs: time-major inputs.
        state: the initial state.
        output_dtype: the dtype of the outputs.
        same_containers: whether outputs must have the containers of `cell.output_size`.
        owner: whose plan it is, if the cell was made for the occasion: it is found again as long as this one lives.

    Raises:
        CannotPlanError: with the reason, if the cell has to run in the plain loop.
    """
    device: torch.device = flatten(inputs)[0].device
    check_circumstances(device)
    kept = _plans_of(cell if owner is None else owner)
    how = (
        output_dtype,
        same_containers,
        torch.get_default_dtype(),
        default_device.CURRENT_DEVICE,
        torch.are_deterministic_algorithms_enabled(),
        os.environ.get("UNSPOOL_EMIT"),
        _autocast_key(device),
    )
    now = (torch.is_grad_enabled(), *how)
    kind = cell.__class__
    with kept.lock.own:
        latest = kept.latest.get(kind)
        ready = None if latest is None else latest.again(cell, inputs, state, now)
    if ready is not None:
        return ready
    plans = _plans_of(cell)
    with plans.lock.own:
        memory = memory_of(cell)
        weights = {name: weight for name, weight in weights_of(cell).items() if name not in memory}
        check_can_be_planned(cell, weights, inputs, [*flatten(state), *memory.values()])
        tensors = [*weights.values(), *flatten(inputs), *flatten(state), *memory.values()]
        adjoint = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
        fingerprint = fingerprint_of(cell)
        plan = _find(plans, cell, fingerprint, weights, inputs, state, memory, how, adjoint)
    if isinstance(plan, Reason):
        raise CannotPlanError.of(plan)
    constants = {**plan.trace.literals, **{node: fingerprint.tensors[k] for node, k in plan.hanging.items()}}
    ready = Ready(plan, weights, constants, adjoint, fingerprint.key, memory)
    with kept.lock.own:
        kept.latest[kind] = Latest.of(fingerprint, inputs, state, now, ready)
        if owner is not None:  # else nobody would find it
            kept.lent.add(plan)
    return ready


def fingerprint_of(cell: Any) -> Fingerprint:
    """What the step of a cell can reach.

    Raises:
        CannotPlanError: if it reaches something of which changes cannot be seen.
    """
    try:
        return Fingerprint(cell)
    except CannotGuardError as error:
        raise CannotPlanError(Code.UNGUARDED, f"the step may read {error}") from None
    except Exception as error:
        what = "the engine fails to follow what the step reads; please report it"
        raise CannotPlanError.of(why(error, Code.FAULT, what)) from None


def _find(
    plans: _Plans,
    cell: Any,
    fingerprint: Fingerprint,
    weights: dict[str, Tensor],
    inputs: Structure,
    state: Structure,
    memory: dict[str, Tensor],
    how: tuple[Any, ...],
    adjoint: bool,
) -> Plan | Reason:
    """The plan for such arguments, or why there is none; `how` is the rest of what it depends on."""
    output_dtype, same_containers, *_ = how
    input_leaves = map_structure(lambda leaf: _leaf(leaf, 2, adjoint and leaf.requires_grad), inputs)
    state_leaves = map_structure(lambda leaf: _leaf(leaf, 1, False), state)
    memory_leaves = {name: _leaf(each, 1, False) for name, each in memory.items()}
    key = (
        fingerprint.key,
        *(_structure_key(each) for each in (input_leaves, state_leaves)),
        tuple((name, _leaf(each, 0, adjoint and each.requires_grad)) for name, each in weights.items()),
        tuple(memory_leaves.items()),
        *how,
        adjoint,
    )
    if key not in plans.by_key:
        plans.variants.add(fingerprint.key)
        if len(plans.variants) > MOST_VARIANTS:
            message = f"what the step reads has changed more than {MOST_VARIANTS} times between calls"
            raise CannotPlanError(Code.VARIANTS, message)
        try:
            plan = _shared.get(key)
            if plan is None:
                if plans.by_key:
                    log.info("%s is planned anew: another shape, dtype, structure or option", type(cell).__qualname__)
                with _tracing.own:
                    lifted = (weights, memory, memory_leaves)
                    plan = _make(
                        cell, fingerprint, lifted, input_leaves, state_leaves, output_dtype, same_containers, adjoint
                    )
            plans.by_key[key] = _shared[key] = plan
        except CannotPlanError as error:
            plans.by_key[key] = error.reason
    return plans.by_key[key]


def _plans_of(cell: Any) -> _Plans:
    key = id(cell)
    found = _plans.get(key)
    if found is not None and found[0]() is cell:
        return found[1]
    try:
        reference = weakref.ref(cell, lambda dead: _forget(key, dead))
    except TypeError:
        message = "the cell cannot be referred to weakly, so that its plan could not be kept"
        raise CannotPlanError(Code.NO_REFERENCE, message) from None
    with _lock.own:
        found = _plans.get(key)
        if found is None or found[0]() is not cell:
            found = _plans[key] = (reference, _Plans())
        return found[1]


def _forget(key: int, dead: weakref.ref[Any]) -> None:
    """Drops the plans of a cell that is gone, unless another one has its identity by now."""
    found = _plans.get(key)
    if found is not None and found[0] is dead:
        _plans.pop(key, None)


def _make(
    cell: Any,
    fingerprint: Fingerprint,
    lifted: tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Leaf]],
    inputs: Structure,
    state: Structure,
    output_dtype: torch.dtype,
    same_containers: bool,
    adjoint: bool,
) -> Plan:
    global traces
    traces += 1
    weights, memory, leaves = lifted
    # The step is traced on a copy that shares all tensors: another thread may be running the cell.
    try:
        stand_in = copy.deepcopy(cell, {id(tensor): tensor for tensor in fingerprint.tensors})
    except Exception as error:
        raise CannotPlanError(Code.NO_COPY, f"the cell cannot be copied to be traced: {error}") from error
    for name, buffer in memory.items():  # which a copy may have left behind
        owner, _, own = name.rpartition(".")
        stand_in.get_submodule(owner)._buffers[own] = buffer
    before = fingerprint_of(stand_in)

    with restored(before), generators_restored() as drawn:

        def check_unchanged() -> None:
            if sources := drawn():
                message = f"the step draws from {' and '.join(sources)}, which a plan would do only once"
                raise CannotPlanError(Code.IMPURE, message)
            changes = fingerprint_of(stand_in).differences(before)
            if changes:
                named = ", ".join(changes[:3]) + (f" and {len(changes) - 3} more" if len(changes) > 3 else "")
                raise CannotPlanError(Code.CHANGES, f"the step changes the cell: {named}")

        try:
            traced = trace(
                stand_in,
                weights,
                inputs,
                state,
                output_dtype,
                same_containers=same_containers,
                adjoint=adjoint,
                memory=leaves,
                rehearse=lambda run: rehearse(run, before.codes, check_unchanged),
            )
            check_unchanged()  # by code that runs backward
        except CannotPlanError:
            raise
        except Exception as error:
            raise CannotPlanError.of(why(error, Code.NOT_TRACED, "the step cannot be traced")) from None
        try:
            plan = Plan(traced)
        except CannotPlanError:
            raise
        except Exception as error:  # which is not the cell's fault, and must not stop it
            what = "the engine fails on the step; please report it"
            raise CannotPlanError.of(why(error, Code.FAULT, what)) from None
    hanging = {id(tensor): k for k, tensor in enumerate(fingerprint.tensors)}
    for node, constant in plan.trace.constants.items():
        if constant.requires_grad:
            message = "the step uses a tensor that needs a gradient but is no parameter of the cell"
            raise CannotPlanError(Code.FOREIGN_WEIGHT, message)
        if id(constant) not in hanging:
            raise CannotPlanError(Code.FOREIGN_TENSOR, "the step uses a tensor that does not hang on the cell")
        plan.hanging[node] = hanging[id(constant)]
    return plan


def check_circumstances(device: torch.device) -> None:
    """Raises `CannotPlanError` where no cell can be planned: under transforms of torch, say."""
    if (who := differentiator()) is not None:
        raise CannotPlanError(Code.TRANSFORM, f"{who} is active, which takes operations of torch alone")
    if (who := onlooker()) is not None:
        raise CannotPlanError(Code.TRACER, f"{who} wants to see every operation")
    if device.type == "meta":
        raise CannotPlanError(Code.NO_VALUES, "tensors on the meta device have no values")
    everywhere: Any = nn.modules.module
    if any(getattr(everywhere, kind, None) for kind in EVERYWHERE):
        raise CannotPlanError(Code.HOOKS, "there are hooks on all modules, which want to see every step")


def check_can_be_planned(cell: Any, weights: dict[str, Tensor], inputs: Structure, state: Structure) -> None:
    """Raises `CannotPlanError` for what can be seen without a trace."""
    if hasattr(cell, "_orig_mod"):
        raise CannotPlanError(Code.COMPILED_CELL, "the cell was compiled by torch.compile")
    lazy = [name for name, weight in weights.items() if is_lazy(weight)]
    if lazy:
        raise CannotPlanError(
            Code.LAZY, f"{lazy[0]} is a weight of a lazy layer, which gets its shape at the first run"
        )
    if isinstance(cell, nn.Module):
        _check_hooks(cell)
    leaves = [*flatten(inputs), *flatten(state)]
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise CannotPlanError(Code.STATE, f"the state holds {type(leaf).__name__}, not only tensors")
    batch_size, device = leaves[0].shape[1], leaves[0].device
    for leaf in flatten(state):
        if not leaf.dim() or leaf.shape[0] != batch_size:
            raise CannotPlanError(
                Code.STATE, f"a state of shape {list(leaf.shape)} has no row for each of {batch_size}"
            )
    for tensor in [*leaves, *weights.values()]:
        if type(tensor) not in (Tensor, nn.Parameter, nn.Buffer) or tensor.layout != torch.strided:
            raise CannotPlanError(
                Code.SPECIAL_TENSOR, f"a tensor is of a special kind, {type(tensor).__name__} ({tensor.layout})"
            )
        if tensor.device != device:
            raise CannotPlanError(Code.DEVICES, f"tensors are on different devices, {tensor.device} and {device}")


def _check_hooks(cell: nn.Module) -> None:
    for path, module in _named_modules(cell):
        for kind in HOOKS:
            if getattr(module, kind):
                raise CannotPlanError(
                    Code.HOOKS, f"{path or 'the cell'} has hooks ({kind[1:]}), which want to see every step"
                )


def _named_modules(cell: nn.Module) -> list[tuple[str, nn.Module]]:
    """`cell.named_modules()`, with types."""
    return list(cell.named_modules())  # pyright: ignore[reportUnknownArgumentType]


def _leaf(tensor: Tensor, axes: int, wanted: bool) -> Leaf:
    return Leaf(tuple(tensor.shape[axes:]), tensor.dtype, tensor.device, wanted)


def _structure_key(leaves: Structure) -> Hashable:
    flat = flatten(leaves)
    numbered = unflatten_as(leaves, list(range(len(flat))))
    return (optree.tree_structure(numbered, none_is_leaf=True), tuple(flat))


def _autocast_key(device: torch.device) -> Hashable:
    kinds = {device.type, "cpu"}
    return tuple((kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in sorted(kinds))
