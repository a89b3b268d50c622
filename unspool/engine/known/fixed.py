"""Prepared calls of cells that cannot change between calls, such as a session's, by a key of shapes and dtypes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unspool.engine.emit.registry import asked
from unspool.engine.execute.call import Call
from unspool.engine.execute.double_backward import Replay
from unspool.engine.plans.cache import circumstances, repeated_calls
from unspool.engine.plans.checks import check_circumstances
from unspool.engine.reasons import CannotPlanError
from unspool.engine.request import Request
from unspool.engine.trace.gradient_reach import bits
from unspool.structure import flatten

MOST = 64
"""How many calls are remembered for a cell: loops over sequences of many lengths look like no other."""


@dataclass(frozen=True)
class Repeated:
    """What one call had that all like it have.

    Args:
        call: all but the tensors and the cell, which it would keep alive.
        replay: how the call is done again, without the cell.
        weights: the cell's.
        wanted: a bit for each of them that gets a gradient.
    """

    call: Call
    replay: Replay | None
    weights: Sequence[Tensor]
    wanted: int

    def again(self, request: Request) -> tuple[Call, list[Tensor]]:
        """What `prepare` would return."""
        replay = None if self.replay is None else self.replay._replace(cell=request.cell)
        return self.call._replace(replay=replay), [*self.weights, *flatten(request.inputs), *flatten(request.state)]


def find(request: Request, scope: str) -> Repeated | None:
    """What a call like this one had; None if there was none, or its cell may have changed."""
    if not request.fixed:
        return None
    found = repeated_calls(request.cell).get(_look(request, scope))
    if found is None or bits(each.requires_grad for each in found.weights) != found.wanted:
        return None
    try:
        check_circumstances(found.call.layout.device)
    except CannotPlanError:
        return None
    return found


def remember(request: Request, scope: str, call: Call, tensors: Sequence[Tensor]) -> None:
    """Keeps a call for others like it, unless values decide how it runs: those of draws, say."""
    if not request.fixed or request.lengths is not None or request.counts is not None or request.owner is not None:
        return
    given, kept = len(flatten(request.inputs)) + len(flatten(request.state)), repeated_calls(request.cell)
    if call.plan.asks_for_values or len(kept) >= MOST:
        return
    weights = tensors[: len(tensors) - given]
    if all(each.grad_fn is None for each in weights):
        replay = None if call.replay is None else call.replay._replace(cell=None)
        wanted = bits(each.requires_grad for each in weights)
        kept[_look(request, scope)] = Repeated(call._replace(replay=None), replay, weights, wanted)


def _look(request: Request, scope: str) -> Hashable:
    leaves: list[Any] = [*flatten(request.inputs), *flatten(request.state)]
    if request.lengths is not None or request.counts is not None or request.owner is not None:
        return None
    return (
        *((each.__class__, each.shape, each.dtype, each.requires_grad) for each in leaves),
        request.inputs.__class__,
        request.state.__class__,
        request.options,
        circumstances(request.output_dtype, leaves[0].device),
        torch.is_inference_mode_enabled(),
        asked(),
        scope,
    )
