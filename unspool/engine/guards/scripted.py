"""Scripted modules and functions: their code never changes, so what they hold and what they do besides is looked at.

A scripted module keeps its weights and attributes in C++. Its code names those that it reads, and whatever else the
code does than computing, printing say, is an operation of its graph.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, cast

import torch
from torch import Tensor

from unspool.once import repeats_warnings

_C: Any = torch._C  # pyright: ignore[reportPrivateUsage]  # no public names
EFFECTS = {
    "prim::SetAttr": "changes an attribute",
    "prim::Print": "prints",
    "prim::PythonOp": "calls Python code that was not scripted",
    "prim::fork": "starts tasks",
    "prim::rpc_async": "calls other processes",
}
"""What scripted code does besides computing."""
HELD = (Tensor, bool, int, float, str, type(None), torch.device)
"""What an attribute may hold that is told from others at every call."""

_serials: dict[int, tuple[weakref.ref[Any], int]] = {}
_numbers = itertools.count()


def obstacle(scripted: Any) -> str | None:
    """What keeps a scripted module or function from being planned; None if nothing does."""
    is_module = isinstance(scripted, torch.jit.ScriptModule)
    for graph in _graphs(scripted._c) if is_module else (scripted.inlined_graph,):
        for kind, what in EFFECTS.items():
            if graph.findAllNodes(kind):
                return f"whose code {what}"
    for name, value in attributes(scripted._c) if is_module else ():
        if not isinstance(value, HELD):
            return f"whose code reads {name}, a {type(value).__name__} that may change unseen"
    return None


def attributes(module: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """What the code of a module in C++ may read of it and of those in it, by name."""
    names = {node.s("name") for graph in _graphs(module) for node in graph.findAllNodes("prim::GetAttr")}
    return _named(module, sorted(names), path)


def _named(module: Any, names: Iterable[str], path: str) -> Iterator[tuple[str, Any]]:
    below = dict(_C.ModuleDict(module).items())
    for name in names:
        if name not in below and module.hasattr(name):
            yield f"{path}{name}", module.getattr(name)
    for name, each in below.items():
        yield from _named(each, names, f"{path}{name}.")


def _graphs(module: Any) -> list[Any]:
    """The graphs of all methods of a module and of those in it, with those of what they call."""
    own = [module._get_method(name).inlined_graph for name in module._method_names()]
    return [*own, *(graph for _, each in _C.ModuleDict(module).items() for graph in _graphs(each))]


def reader_of(module: torch.jit.ScriptModule) -> tuple[Any, list[str]]:
    """What lists the attributes that a scripted module's code may read, and their names."""
    own: Any = module
    read = [name for name, _ in attributes(own._c)]
    leaves = sorted({name.rpartition(".")[2] for name in read})

    def values(each: Any) -> list[Any]:
        held = (value for _, value in _named(each._c, leaves, ""))
        return [serial_of(each), each.forward.__class__, repeats_warnings(), *held]

    return values, [" itself", "forward", " warnings", *read]


def serial_of(value: Any) -> int:
    """A number that no other object has had."""
    key = id(value)
    found = _serials.get(key)
    if found is None or found[0]() is not value:
        found = _serials[key] = weakref.ref(value, lambda _: _forget(key)), next(_numbers)
    return found[1]


def _forget(key: int) -> None:
    found = _serials.get(key)
    if found is not None and found[0]() is None:
        del _serials[key]


def share_tensors(cell: Any, copied: Any) -> None:
    """Lets the scripted modules of a copied cell have the tensors themselves that the cell's own have."""
    modules = zip(cell.modules(), copied.modules(), strict=True) if isinstance(cell, torch.nn.Module) else ()
    for one, other in cast("Iterator[tuple[Any, Any]]", modules):
        if isinstance(one, torch.jit.ScriptModule):
            for name, value in attributes(cast(Any, one)._c):
                if isinstance(value, Tensor):
                    path, _, own = name.rpartition(".")
                    _below(other._c, path).setattr(own, value)


def _below(module: Any, path: str) -> Any:
    for name in path.split(".") if path else ():
        module = dict(_C.ModuleDict(module).items())[name]
    return module
