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


def passed_over(device: torch.device) -> tuple[tuple[str, str], ...]:
    """The emitters that `emit` does not take on `device`, each with the reason."""
    return () if device.type == "cuda" else ((Graphed.name, f"it needs a GPU, and the tensors are on {device.type}"),)
