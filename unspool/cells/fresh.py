"""Weights drawn anew: `reset_parameters` of any cell, and a second cell like a first."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from unspool.cells.building import Buildable
from unspool.cells.unbuilt import UnbuiltWeight


def reset(module: Any) -> None:
    """Draws the weights of a cell anew, in place; those that are not made yet will be drawn when they are.

    Raises:
        NotImplementedError: if nobody knows how.
    """
    cells = list(_inner_cells(module))
    for cell in cells:
        cell.reset_parameters()
    theirs = {id(weight) for cell in cells for weight in cell.parameters()}
    own = {name: each for name, each in module.named_parameters() if id(each) not in theirs}
    if not own or any(isinstance(each, UninitializedParameter) for each in own.values()):
        return
    fresh = dict(_like(module, set(own)).named_parameters())
    with torch.no_grad():
        for name, weight in own.items():
            weight.copy_(fresh[name])


def reset_modules(module: Any) -> None:
    """Lets every module that has weights reset them, as torch's own do.

    Raises:
        NotImplementedError: if one cannot.
    """
    parts: list[tuple[str, nn.Module]] = list(module.named_modules())
    for name, each in parts:
        if not list(each.parameters(recurse=False)):
            continue
        again: Any = getattr(each, "reset_parameters", None)
        if again is None:
            what = f"{name}, a {type(each).__name__}," if name else type(each).__name__
            raise NotImplementedError(f"{what} has weights, but no reset_parameters that would draw them anew")
        again()


def reset_any(cell: Any) -> None:
    """Draws the weights of a cell anew, whoever made it; one that is no module has none.

    Raises:
        NotImplementedError: if nobody knows how.
    """
    if isinstance(cell, nn.Module):
        again: Any = getattr(cell, "reset_parameters", None)
        reset_modules(cell) if again is None else again()


def mirrored(cell: Any) -> Any:
    """Another cell like this one, with weights of its own.

    Raises:
        TypeError: if nobody knows how its weights are drawn.
    """
    other = copy.deepcopy(cell)
    try:
        reset_any(other)
    except NotImplementedError as error:
        raise TypeError(
            f"bidirectional=True makes a second {type(cell).__name__} with weights of its own, but {error}: write "
            "reset_parameters, or give the second cell as bidirectional=cell_bw"
        ) from error
    return other


def _inner_cells(module: nn.Module) -> Iterator[Any]:
    """The cells inside a cell that know by themselves how to draw their weights."""
    for child in module.children():
        if isinstance(child, Buildable):
            yield child
        else:
            yield from _inner_cells(child)


def _like(cell: Any, own: set[str]) -> Any:
    """A cell made as this one was, whose weights `own` are fresh."""
    if cell.built_for is None:
        try:
            return cell.from_config(cell.get_config())
        except (NotImplementedError, TypeError, ValueError) as error:
            kind = type(cell).__name__
            raise NotImplementedError(f"{kind} does not say how its weights are drawn: {error}") from error
    weights: list[Tensor] = [each for name, each in cell.named_parameters(recurse=False) if name in own]
    place = next(iter(weights or cell.parameters()))
    fresh: Any = copy.deepcopy(cell)
    for name in own & dict(fresh.named_parameters(recurse=False)).keys():
        UnbuiltWeight.unmake(fresh.get_parameter(name))
    fresh.built = False
    fresh.build(fresh.built_for, dtype=place.dtype, device=place.device)
    return fresh
