"""Emitters: each makes a core runnable. All take the same lowered core."""

from __future__ import annotations

import torch

from unspool.engine.core import Core
from unspool.engine.emit.graphed import Graphed
from unspool.engine.emit.interpreted import Interpreted


def emit(core: Core, device: torch.device) -> Interpreted | Graphed:
    """What runs `core` fastest on `device`."""
    loop = Interpreted(core, device)
    return Graphed(loop) if device.type == "cuda" else loop


def passed_over(device: torch.device, *, ragged: bool) -> tuple[tuple[str, str], ...]:
    """The emitters that do not run a core on `device`, each with the reason; `ragged`: rows end at different steps."""
    if device.type != "cuda":
        return ((Graphed.name, f"it needs a GPU, and the tensors are on {device.type}"),)
    return ((Graphed.name, "rows end at different steps, and a graph has fixed shapes"),) if ragged else ()
