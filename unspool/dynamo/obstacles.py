"""Why a call of a loop cannot be one operation of a graph, where it cannot."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy

from unspool.cells.building import Buildable
from unspool.cells.like import is_built
from unspool.engine.guards.fingerprint import CannotGuardError, Fingerprint
from unspool.engine.trace.lifting import reached_weights, weights_of

EXPORT = "what is exported must not need unspool: call torch.export.export with strict=False, which records a scan"


def obstacle(cell: Any) -> str | None:
    """Why a call with this cell is no operation of a graph, if it is none."""
    kind = type(cell).__qualname__
    modules = list(cell.modules()) if isinstance(cell, nn.Module) else [cell]
    if any(isinstance(each, Buildable) and "built" not in vars(each) for each in modules):
        return f"{kind} is made in what is compiled: make it before"  # by Dynamo, which has not run its __init__
    for module in modules:
        if isinstance(module, Buildable) and not module.built and type(module).build is Buildable.build:
            module.build(None)  # which makes nothing
    if not all(map(is_built, modules)):
        return f"{kind} has no weights yet: run the loop once before it is compiled, or give the cell its input_size"
    if any(is_lazy(weight) for module in modules if isinstance(module, nn.Module) for weight in module.parameters()):
        return f"{kind} has lazy layers, which get their weights at the first run: run the loop once before"
    try:
        weakref.ref(cell)
        reached = Fingerprint(cell).tensors
    except (TypeError, CannotGuardError) as error:
        return f"what {kind} reads cannot be followed: {error}"
    known = [*cell.parameters(), *cell.buffers()] if isinstance(cell, nn.Module) else []
    others = {**reached_weights(reached, known), **{n: w for n, w in weights_of(cell).items() if w.requires_grad}}
    registered = set(map(id, known))
    strangers = [name for name, weight in others.items() if id(weight) not in registered and weight.is_leaf]
    if strangers:
        return f"{kind} reads a weight that is none of its parameters ({strangers[0]}): register it in the cell"
    return _pending(modules)


def _pending(modules: Sequence[Any]) -> str | None:
    """What the code around has done to modules: Dynamo does it when the graph has run, too late for the loop."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    try:
        effects: Any = InstructionTranslator.current_tx().output.side_effects
    except AttributeError:  # nobody traces
        return None
    identities = {id(module): module for module in modules}

    def behind(variable: Any) -> Any:  # a property of some variables, that raises
        value: Any = variable.__dict__.get("value")
        return identities.get(id(value))

    for variable in effects.id_to_variable.values():
        made = behind(variable)
        if made is not None and variable.source is None:
            return f"{type(made).__qualname__} is made in what is compiled: make it before"
    for variable, attributes in effects.store_attr_mutations.items():
        changed = behind(variable)
        if changed is not None and attributes:
            kind = type(changed).__qualname__
            return f"{kind}.{next(iter(attributes))} is set in what is compiled: set it before, or make it a buffer"
    return None
