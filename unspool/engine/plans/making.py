"""Makes the plan of a cell: its weights by name, what its step reads, the trace, and the plan from it."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from unspool.engine.guards.fingerprint import Fingerprint
from unspool.engine.guards.generators import generators_restored
from unspool.engine.guards.nodes import CannotGuardError, joined
from unspool.engine.guards.rehearsal import rehearse
from unspool.engine.guards.restoring import restored
from unspool.engine.guards.scripted import share_tensors
from unspool.engine.guards.written import Written, written_places
from unspool.engine.plans.checks import named_modules
from unspool.engine.plans.plan import Plan
from unspool.engine.reasons import CannotPlanError, Code, why
from unspool.engine.trace.decompose.operations import without_form
from unspool.engine.trace.spec import StepSpec
from unspool.engine.trace.tracer import trace


def row_buffers_of(cell: Any) -> dict[str, Tensor]:
    """The buffers of a cell with a row for each of the batch, by name: those that modules list as `row_buffers`.

    Raises:
        CannotPlanError: if one of them is not there.
    """
    found: dict[str, Tensor] = {}
    if isinstance(cell, nn.Module):
        buffers = dict(cell.named_buffers(remove_duplicate=False))
        for path, module in named_modules(cell):
            for name in _listed(module):
                full = f"{path}.{name}" if path else name
                if full not in buffers:
                    raise CannotPlanError(Code.NO_MEMORY, f"the buffer {full} has not been given")
                found[full] = buffers[full]
    return found


def check_modules(cell: Any, fingerprint: Fingerprint) -> None:
    """Raises `CannotPlanError` if a scripted module is reached, but is not in the cell."""
    own = {id(module) for _, module in named_modules(cell)} if isinstance(cell, nn.Module) else set[int]()
    for node in fingerprint.nodes:
        if isinstance(node.value, torch.jit.ScriptModule) and id(node.value) not in own:
            where = f"{node.path or 'a module'}, which is scripted, has weights of its own"
            raise CannotPlanError(Code.OUTSIDE, f"{where}, but is no part of the cell")


def _listed(module: nn.Module) -> list[str]:
    """The names of a module's row buffers, as it or its class lists them."""
    listed: Any = getattr(module, "row_buffers", ())
    return [listed] if isinstance(listed, str) else [*listed] if isinstance(listed, tuple | list | set) else []


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


def make_plan(cell: Any, fingerprint: Fingerprint, spec: StepSpec, row_buffers: dict[str, Tensor]) -> Plan:
    """Traces the step of a cell, and makes a plan of it.

    Args:
        cell: the cell.
        fingerprint: what its step can reach.
        spec: what to trace it for.
        row_buffers: the buffers with a row for each of the batch, by name.

    Raises:
        CannotPlanError: if there is none.
    """
    # The step is traced on a copy that shares all tensors: another thread may be running the cell.
    try:
        stand_in = copy.deepcopy(cell, {id(tensor): tensor for tensor in fingerprint.tensors})
        share_tensors(cell, stand_in)
    except Exception as error:
        raise CannotPlanError(Code.NO_COPY, f"the cell cannot be copied to be traced: {error}") from error
    listed = {name: each for name, each in row_buffers.items() if name not in spec.captured}
    for name, buffer in listed.items():  # which a copy may have left behind
        owner, _, own = name.rpartition(".")
        stand_in.get_submodule(owner)._buffers[own] = buffer
    with _no_garbage():
        plan = _traced(stand_in, spec)
    plan.find_constants(fingerprint.tensors)
    return plan


def _weights_of(fingerprint: Fingerprint) -> dict[str, None]:
    """The names of all parameters that modules have which a step reaches, as they are now."""
    modules = [node for node in fingerprint.nodes if isinstance(node.value, nn.Module)]
    own = ((node.path, name) for node in modules for name, _ in node.value.named_parameters(recurse=False))
    return dict.fromkeys(joined(*each) for each in own)


@contextmanager
def _no_garbage() -> Generator[None, None, None]:
    """Puts garbage collection off: of the many objects that a trace makes, nearly all are needed until its end."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _traced(stand_in: Any, spec: StepSpec) -> Plan:
    """The plan of a copy of the cell, which is left as it was."""
    before = fingerprint_of(stand_in)
    weights = _weights_of(before)
    with restored(before), generators_restored() as drawn:
        scratch: list[Written] = []

        def written() -> Sequence[Written]:
            if sources := drawn():
                message = f"the step draws from {' and '.join(sources)}, which a plan would do only once"
                raise CannotPlanError(Code.IMPURE, message)
            now = fingerprint_of(stand_in)
            if now.key != before.key and (new := [name for name in _weights_of(now) if name not in weights]):
                raise CannotPlanError(Code.LAZY, f"{new[0]} is a weight that the step makes in its first run")
            places = written_places(now, before)
            if places is None:
                changes = now.differences(before.key)
                named = ", ".join(changes[:3]) + (f" and {len(changes) - 3} more" if len(changes) > 3 else "")
                raise CannotPlanError(Code.CHANGES, f"the step changes the cell: {named}")
            return places

        def rehearsed(run: Callable[[], Any]) -> None:
            scratch[:] = rehearse(run, before.codes, written)

        apart: set[Any] = set()
        while True:
            try:
                traced = trace(stand_in, spec, rehearsed, apart)
                backwards = [str(place) for place in written() if not place.is_among(scratch)]
                if backwards:  # by code that runs backward
                    raise CannotPlanError(Code.CHANGES, f"the step changes the cell: {', '.join(backwards[:3])}")
            except CannotPlanError:
                raise
            except Exception as error:
                raise CannotPlanError.of(why(error, Code.NOT_TRACED, "the step cannot be traced")) from None
            try:
                with torch.inference_mode(False):  # what was traced outside of it is rewritten
                    return Plan(traced)
            except CannotPlanError as error:
                # What is unknown may be known in parts.
                unknown = without_form(traced.graph) - apart
                if error.reason.code is not Code.UNKNOWN_OPERATION or not unknown:
                    raise
                apart |= unknown
            except Exception as error:  # which is not the cell's fault, and must not stop it
                what = "the engine fails on the step; please report it"
                raise CannotPlanError.of(why(error, Code.FAULT, what)) from None
