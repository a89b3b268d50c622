"""All emitters, and which of them run a core: a new one is registered here, and nothing else knows it by name."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch

from unspool.engine.emit.cpp.emitter import Cpp
from unspool.engine.emit.cuda.loop.emitter import CudaLoops
from unspool.engine.emit.graphs.graphed import Graphs
from unspool.engine.emit.interpreted import Interpreter
from unspool.engine.emit.protocol import Emitter
from unspool.engine.ir.core import Core
from unspool.engine.reasons import Code, Reason

LAST: Emitter = Interpreter()
"""What runs a core that no other does."""

_emitters: dict[str, Emitter] = {each.name: each for each in (Graphs(), CudaLoops(), Cpp(), LAST)}

generation: int = 0
"""Changes whenever an emitter comes or goes: what was chosen before may no longer be the best."""


def register(emitter: Emitter) -> None:
    """Lets an emitter run cores that it serves at the lowest cost.

    Raises:
        ValueError: if there is one of that name.
    """
    global generation
    if emitter.name in _emitters:
        raise ValueError(
            f"there is an emitter named {emitter.name!r} already: {type(_emitters[emitter.name]).__name__}"
        )
    _emitters[emitter.name] = emitter
    generation += 1


def unregister(name: str) -> None:
    """Takes back what `register` did.

    Raises:
        ValueError: if there is none of that name, or if it is the interpreter, which is always needed.
    """
    global generation
    if name not in _emitters or name == LAST.name:
        raise ValueError(f"name is {name!r}, but expected one of {', '.join(map(repr, _others()))}")
    del _emitters[name]
    generation += 1


def asked() -> str | None:
    """The emitter that the environment asks for, `UNSPOOL_EMIT`; None if any will do.

    Raises:
        ValueError: if there is none of that name.
    """
    wanted = os.environ.get("UNSPOOL_EMIT") or None
    if wanted is not None and wanted not in _emitters:
        expected = f"{', '.join(map(repr, _others()))} or {LAST.name!r}"
        raise ValueError(f"UNSPOOL_EMIT is {wanted!r}, but expected {expected}")
    return wanted


def candidates(core: Core, device: torch.device, wanted: str | None) -> tuple[Sequence[Emitter], dict[str, Reason]]:
    """The emitters that may run a core, the best one first and the interpreter last; why not the others, by name."""
    found: list[Emitter] = []
    refused: dict[str, Reason] = {}
    allowed = _emitters if wanted is None else {wanted, _emitters[wanted].instead, LAST.name}
    for name, emitter in _emitters.items():
        reason = emitter.refusal(device)
        if reason is None and name not in allowed:
            reason = Reason(Code.ASKED, f"the environment says UNSPOOL_EMIT={wanted}")
        if reason is not None:
            refused[name] = reason
        elif emitter is not LAST:
            found.append(emitter)
    return [*sorted(found, key=lambda each: each.cost(core)), LAST], refused


def runs_at_once(device: torch.device) -> bool:
    """Whether an emitter that may be chosen can run two loops on a device at the same time."""
    wanted = asked()
    return any(each.runs_at_once for each in _serving(device) if wanted in (None, each.name))


def for_single_steps(device: torch.device) -> str | None:
    """The emitter for steps that run one at a time: one that suits them, unless the environment asks for another."""
    serving, wanted = _serving(device), asked()
    if wanted is not None or all(each.single_steps for each in serving):
        return wanted
    return next((each.name for each in serving if each.single_steps), LAST.name)


def _serving(device: torch.device) -> list[Emitter]:
    """Emitters that may run cores on a device, without the interpreter."""
    return [each for each in _emitters.values() if each is not LAST and each.refusal(device) is None]


def _others() -> list[str]:
    return [name for name in _emitters if name != LAST.name]
