"""Graphs as bytes: a pickle in which functions that have no name of their own stand with their code.

An operation holds a function of torch tensors, most often one that is made where the operation is. Like any pickle,
such bytes run code when they are read, and like any code they belong to one version of Python.
"""

from __future__ import annotations

import builtins
import importlib
import io
import marshal
import pickle
import re
import sys
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

import torch

from unspool.tf1.graph import Graph
from unspool.tf1.rnn.modules import Sealed, Weights


def dumps(value: Any, graph: Graph) -> bytes:
    """The bytes of a value in which `graph` stands for the one that it will be read into.

    Raises:
        TypeError: if it holds what cannot be written, such as an open file.
    """
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, graph).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as error:
        raise TypeError(f"a part of the graph cannot be written: {error}") from error
    return buffer.getvalue()


def loads(data: bytes, graph: Graph) -> Any:
    """The value that bytes hold, with `graph` in the place of the one that they were made with."""
    return _Unpickler(io.BytesIO(data), graph).load()


class _Pickler(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, graph: Graph) -> None:
        super().__init__(buffer, protocol=5)
        self._graph = graph
        self._weights: Weights = graph.kept(Weights)

    def persistent_id(self, obj: Any) -> Any:
        return "graph" if obj is self._graph else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType) and not _is_named(obj):
            return _reduced(obj)
        if isinstance(obj, CellType):
            try:
                held = (obj.cell_contents,)
            except ValueError:  # nothing yet
                held = ()
            return _empty, (), held, None, None, _fill
        if isinstance(obj, torch.nn.Parameter) and obj in self._weights:
            return _blank, (tuple(obj.shape), obj.dtype, obj.requires_grad)
        if isinstance(obj, ModuleType):
            name = obj.__name__  # inside a program that says `import tensorflow`, that is unspool.tf1
            return importlib.import_module, (re.sub(r"^tensorflow\b", "unspool.tf1", name),)
        if isinstance(obj, Sealed) and hasattr(obj.value, "state_size") and hasattr(obj.value, "output_size"):
            return Sealed, (Sizes(obj.value.state_size, obj.value.output_size),)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, graph: Graph) -> None:
        super().__init__(buffer)
        self._graph = graph

    def persistent_load(self, pid: Any) -> Any:
        return self._graph


class Sizes:
    """What is left of a cell whose step was traced: programs may have written it where nobody else finds it."""

    def __init__(self, state_size: Any, output_size: Any) -> None:
        self.state_size, self.output_size = state_size, output_size


def _is_named(function: FunctionType | BuiltinFunctionType) -> bool:
    """Whether another process finds a function by its name."""
    found: Any = sys.modules.get(function.__module__ or "")
    if found is None or function.__module__ == "__main__":
        return False
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def _reduced(function: FunctionType) -> Any:
    """A function as its code, what it closes over, and, of a program's own module, the globals that it names."""
    code, module = function.__code__, function.__module__ or "__main__"
    own = None if module.startswith("unspool.") else _named_globals(code, function.__globals__)
    made = marshal.dumps(code), module, function.__name__, own is not None, function.__closure__
    state = function.__defaults__, function.__kwdefaults__, own, function.__dict__
    return _made, made, state, None, None, _completed


def _named_globals(code: CodeType, around: dict[str, Any]) -> dict[str, Any]:
    found = {name: around[name] for name in code.co_names if name in around}
    for each in code.co_consts:
        if isinstance(each, CodeType):
            found |= _named_globals(each, around)
    return found


def _made(code: bytes, module: str, name: str, own: bool, cells: Any) -> FunctionType:
    around: dict[str, Any] = {"__builtins__": builtins, "__name__": module}
    return FunctionType(
        marshal.loads(code), around if own else vars(importlib.import_module(module)), name, None, cells
    )


def _completed(function: FunctionType, state: Any) -> None:
    defaults, keywords, own, attributes = state
    function.__defaults__, function.__kwdefaults__ = defaults, keywords
    function.__dict__.update(attributes)
    if own is not None:
        function.__globals__.update(own)


def _blank(sizes: tuple[int, ...], dtype: torch.dtype, requires_grad: bool) -> torch.nn.Parameter:
    """A weight that a variable stands for: its numbers are the session's."""
    return torch.nn.Parameter(torch.empty(sizes, dtype=dtype), requires_grad)


def _empty() -> CellType:
    return CellType()


def _fill(cell: CellType, held: tuple[Any, ...]) -> None:
    if held:
        (cell.cell_contents,) = held
