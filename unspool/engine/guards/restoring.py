"""Undoes what a traced step did to its cell: attributes, containers, buffers."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from unspool.engine.guards.fingerprint import Fingerprint

REGISTERED = ("_parameters", "_buffers", "_modules")
"""The attributes of a module that hold what is registered."""


@contextmanager
def restored(fingerprint: Fingerprint) -> Generator[None, None, None]:
    """Leaves everything that a step reaches as it was before the block: containers, attributes, globals, closures."""
    before = [
        (node.value, _contents(node.value, fingerprint.read.get(k, ()))) for k, node in enumerate(fingerprint.nodes)
    ]
    try:
        yield
    finally:
        for value, contents in before:
            if contents is not None:
                _put_back(value, contents)


def _contents(value: Any, names: tuple[str, ...]) -> Any:
    if isinstance(value, list | set | deque | bytearray):
        return list(cast("Iterable[Any]", value))
    if isinstance(value, dict):
        return dict(cast("dict[Any, Any]", value))
    if issubclass(value.__class__, np.ndarray):
        return value.copy()
    if isinstance(value, types.FunctionType):
        own = value.__globals__
        found = {name: own[name] for name in names if name in own}
        return (found, names, [_closed(cell) for cell in value.__closure__ or ()], dict(value.__dict__))
    if isinstance(value, types.ModuleType):
        return {name: value.__dict__[name] for name in names if name in value.__dict__}
    if isinstance(value, type):
        return dict(value.__dict__)
    if isinstance(value, torch.jit.ScriptModule):
        return None  # whose code changes nothing
    if isinstance(value, nn.Module):
        return (dict(value.__dict__), {kind: dict(value.__dict__[kind]) for kind in REGISTERED})
    return dict(value.__dict__) if hasattr(value, "__dict__") else None


def _put_back(value: Any, contents: Any) -> None:
    kind = value.__class__
    if issubclass(kind, list | set | deque | bytearray | dict):
        changed = _is_changed(list(value), list(contents))
        if issubclass(kind, dict):
            changed = changed or _is_changed(list(value.values()), list(contents.values()))
        if changed:
            value.clear()
            (value.update if issubclass(kind, set | dict) else value.extend)(contents)
    elif issubclass(kind, np.ndarray):
        if value.flags.writeable and value.tobytes() != contents.tobytes():
            value[...] = contents
    elif isinstance(value, types.FunctionType):
        found, names, closed, attributes = contents
        value.__dict__.update(attributes)
        _put_back_names(value.__globals__, found, names)
        for cell, content in zip(value.__closure__ or (), closed, strict=True):
            if content is not cell and _closed(cell) is not content:
                cell.cell_contents = content
    elif isinstance(value, types.ModuleType):
        _put_back_names(value.__dict__, contents, tuple(contents))
    elif isinstance(value, type):
        for name in [name for name, each in value.__dict__.items() if each is not contents.get(name, value)]:
            if name in contents:
                setattr(value, name, contents[name])
            elif not name.startswith("__"):
                delattr(value, name)
    elif isinstance(value, nn.Module):
        own, registered = contents
        _put_back_dict(value.__dict__, own)
        for kind, each in registered.items():
            _put_back_dict(value.__dict__[kind], each)
    else:
        _put_back_dict(value.__dict__, contents)


def _put_back_dict(own: dict[str, Any], contents: dict[str, Any]) -> None:
    if _is_changed([*own, *own.values()], [*contents, *contents.values()]):
        own.clear()
        own.update(contents)


def _put_back_names(own: dict[str, Any], contents: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if name in contents and own.get(name) is not contents[name]:
            own[name] = contents[name]
        elif name not in contents:
            own.pop(name, None)


def _is_changed(now: list[Any], before: list[Any]) -> bool:
    return list(map(id, now)) != list(map(id, before))


def _closed(cell: types.CellType) -> Any:
    """What a closure's cell holds; the cell itself if that is nothing."""
    try:
        return cell.cell_contents
    except ValueError:
        return cell
