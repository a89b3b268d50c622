"""Attention layers: the attention vector from a cell's output and its context vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.layer import check_units
from unspool.decode.attention.dense import Dense
from unspool.decode.attention.mechanism import AttentionMechanism
from unspool.structure import describe

AttentionFn = Callable[[AttentionMechanism, Tensor, Any, nn.Module | None], tuple[Tensor, Tensor, Any]]
"""`attention_fn(mechanism, cell_output, attention_state, attention_layer)`: a look, as `compute_attention` is one."""


def compute_attention(
    mechanism: AttentionMechanism, cell_output: Tensor, attention_state: Any, attention_layer: nn.Module | None
) -> tuple[Tensor, Tensor, Any]:
    """One look at the memory of `mechanism`: the attention, the alignments and the next attention state."""
    alignments, next_state = mechanism(cell_output, attention_state)
    context = torch.bmm(alignments[:, None], mechanism.values).squeeze(1)
    if attention_layer is None:
        return context, alignments, next_state
    return attention_layer(torch.cat([cell_output, context], 1)), alignments, next_state


def attention_layers(size: Any, layer: Any, count: int, dtype: torch.dtype | None) -> list[nn.Module]:
    """The layers of `count` mechanisms, from the arguments of a wrapper; none if contexts are attentions."""
    if size is None and layer is None:
        return []
    given, argument = (size, "attention_layer_size") if layer is None else (layer, "attention_layer")
    each, _ = listed(given)
    if len(each) != count:
        raise ValueError(f"{argument} must have one entry for each mechanism, but has {len(each)} for {count}")
    if layer is None:
        return [Dense(check_units(argument, width), dtype) for width in each]
    for one in each:
        if not isinstance(one, nn.Module):
            raise TypeError(f"{argument} must be a module, but is {describe(one)}")
    return each


def listed(given: Any) -> tuple[list[Any], bool]:
    """What was given as a list, and whether it was one."""
    several = isinstance(given, list | tuple | nn.ModuleList)
    return (list(given), True) if several else ([given], False)  # pyright: ignore[reportUnknownArgumentType]


def width_of(layer: nn.Module) -> int:
    """The width of what a layer puts out: that of the last layer in it that says so.

    >>> width_of(nn.Sequential(nn.Linear(5, 3), nn.Tanh()))
    3
    """
    for module in reversed(list(layer.modules())):
        width = getattr(module, "out_features", None)
        if isinstance(width, int):
            return width
    raise ValueError(f"attention_layer must say its width: give {type(layer).__name__} an attribute out_features")
