"""Who runs the loop of every cell of the zoo, of the tests' user cells and of the gallery: float32, small sizes."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from benchmarks.cuda.timing import Settings
from benchmarks.harness import reason
from unspool import explain
from unspool.structure import map_structure

ROWS, STEPS = 5, 7


def measure(case: str, options: Mapping[str, Any], settings: Settings) -> Iterator[dict[str, Any]]:
    """A line for each cell of a slice, such as 2/8."""
    which, slices = map(int, case.split("/"))
    for name, make in list(cells().items())[which - 1 : 4 if settings.tiny else None : slices]:
        try:
            yield {"what": name, **who(*make(), settings.device)}
        except Exception as error:
            yield {"what": name, "failed": reason(error)}


def who(cell: Any, inputs: Any, state: Any, device: str) -> dict[str, Any]:
    """Who runs a cell forwards and backwards, and the reason if it is not the CUDA loop emitter."""

    def moved(leaf: Tensor) -> Tensor:
        leaf = leaf.detach().to(device)
        return leaf.float().requires_grad_() if leaf.is_floating_point() else leaf

    inputs, state = map_structure(moved, inputs), None if state is None else map_structure(moved, state)
    told = explain(cell.to(device).float(), inputs, None, state, torch.float32)
    line: dict[str, Any] = {"emitter": told.emitter, "backward": told.backward.emitter if told.backward else None}
    for each in (told.forward, told.backward):
        if each is not None and each.emitter != "cuda-loop":
            line["why"] = dict(each.passed_over).get("cuda-loop")
    return {**line, "why": str(told.reason)} if told.reason is not None else line


def cells() -> dict[str, Callable[[], tuple[Any, Any, Any]]]:
    """A cell, inputs and a state, or None for zeros, by name."""
    from tests import gallery
    from tests.user_cells import USER_CELLS
    from tests.zoo import ZOO, inputs_for

    def user(name: str) -> tuple[Any, Any, Any]:
        case = USER_CELLS[name]
        return case.make(), case.inputs(ROWS, STEPS), case.state(ROWS)

    found: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
        f"zoo: {name}": lambda name=name: (ZOO[name](), inputs_for(name, ROWS, STEPS, torch.float32), None)
        for name in ZOO
    }
    found |= {f"user: {name}": lambda name=name: user(name) for name in USER_CELLS}
    for room in pkgutil.iter_modules(gallery.__path__):
        for name, case in getattr(importlib.import_module(f"tests.gallery.{room.name}"), "CASES", {}).items():
            found[f"gallery, {room.name[len('test_') :]}: {name}"] = lambda case=case: (
                case.make(),
                case.inputs(ROWS, STEPS),
                None,
            )
    return found
