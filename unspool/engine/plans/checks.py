"""What can be seen without a trace: cells and circumstances that cannot be planned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from unspool.engine.guards.slots import HOOKS
from unspool.engine.reasons import CannotPlanError, Code
from unspool.structure import Structure, flatten
from unspool.tracers import differentiator, onlooker

EVERYWHERE = tuple(f"_global{kind}" for kind in HOOKS)
"""Where torch keeps hooks on all modules."""


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
    for path, module in named_modules(cell):
        for kind in HOOKS:
            if getattr(module, kind):
                raise CannotPlanError(
                    Code.HOOKS, f"{path or 'the cell'} has hooks ({kind[1:]}), which want to see every step"
                )


def named_modules(cell: nn.Module) -> list[tuple[str, nn.Module]]:
    """`cell.named_modules()`, with types."""
    return list(cast("Iterator[tuple[str, nn.Module]]", cell.named_modules()))
