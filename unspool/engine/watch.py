"""What a plan depends on besides tensors: the Python values that a cell's step can see.

A trace takes numbers, flags and functions as they are at the time. So a plan is used again only while those of the
cell are the same: everything that hangs on it, and what its functions close over. Globals are not watched.
"""

from __future__ import annotations

import copy
import enum
import functools
import operator
import types
from collections.abc import Generator, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.building import Buildable

CONSTANTS = (int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.Size, enum.Enum, type)
OWN = {name for name in nn.Module().__dict__ if name != "training"}
"""The attributes that every module has for its own bookkeeping."""


def named_modules(cell: nn.Module) -> list[tuple[str, nn.Module]]:
    """`cell.named_modules()`, with types."""
    return list(cell.named_modules())  # pyright: ignore[reportUnknownArgumentType]


class Watch:
    """The attributes of a cell and of the modules below it, each with a mark that changes when its value does.

    Tensors are marked by their shapes alone, since a plan reads them at every call.

    >>> linear = nn.Linear(2, 3)
    >>> before = Watch(linear)
    >>> linear.eval().bias.data.zero_()
    tensor([0., 0., 0.])
    >>> Watch(linear).differences(before)
    ['training']
    """

    def __init__(self, cell: Any) -> None:
        self.tensors: list[Tensor] = []
        """The tensors that hang on the cell, its parameters and buffers among them, always in the same order."""
        self.containers: list[Any] = []
        """The lists, dicts and sets that hang on the cell, or that its functions close over."""
        self.portable = True
        """Whether another cell with the same key would be traced to the same graph."""
        self.steady = True
        """Whether everything is as it was as long as a `glance` shows the same objects."""
        self._seen: dict[int, int] = {}
        self._marks = {name: self._mark(value) for name, value in self._attributes(cell)}
        self.key: Hashable = (type(cell), tuple(self._marks.items()))

    def differences(self, other: Watch) -> list[str]:
        """The attributes that are not the same."""
        names = {**self._marks, **other._marks}
        return [name for name in names if self._marks.get(name) != other._marks.get(name)]

    def _attributes(self, cell: Any) -> Iterator[tuple[str, Any]]:
        if not isinstance(cell, nn.Module):
            yield from getattr(cell, "__dict__", {}).items()
            return
        self._seen.update((id(module), number) for number, module in enumerate(cell.modules()))
        for path, module in named_modules(cell):
            self.tensors += [*module.parameters(recurse=False), *module.buffers(recurse=False)]
            yield path, type(module)
            unwatched = OWN | {"built", "building"} if isinstance(module, Buildable) else OWN
            for name, value in module.__dict__.items():
                if name not in unwatched:
                    yield f"{path}.{name}".lstrip("."), value

    def _mark(self, value: Any) -> Hashable:
        if isinstance(value, CONSTANTS):
            return (type(value), value if value == value else "nan")
        if id(value) in self._seen:
            return ("seen", self._seen[id(value)])
        self._seen[id(value)] = len(self._seen)
        if isinstance(value, Tensor):
            self.tensors.append(value)
            return ("tensor", value.shape, value.dtype, value.device, value.requires_grad)
        if isinstance(value, list | dict | set):
            self.containers.append(value)
            self.steady = False
        if isinstance(value, list | tuple | set | frozenset):
            return (type(value), *map(self._mark, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if isinstance(value, dict):
            return (dict, *((self._mark(key), self._mark(each)) for key, each in value.items()))  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, types.FunctionType):
            self.steady = self.steady and not value.__closure__
            contents = tuple(self._content(each) for each in value.__closure__ or ())
            return ("function", value.__code__, contents, self._mark(value.__defaults__))
        if isinstance(value, types.BuiltinFunctionType) and isinstance(value.__self__, types.ModuleType | type | None):
            return value
        self.steady = False
        if isinstance(value, types.MethodType):
            return ("method", self._mark(value.__func__), self._mark(value.__self__))
        if isinstance(value, functools.partial):
            return ("partial", self._mark(value.func), self._mark(value.args), self._mark(value.keywords))
        self.portable = False
        return (value.__class__, id(value), self._mark(getattr(value, "__dict__", None)))

    @contextmanager
    def restored(self) -> Generator[None, None, None]:
        """Undoes what a step in the block does to containers: it may note down what a tracer shows it."""
        before = [copy.copy(each) for each in self.containers]
        try:
            yield
        finally:
            for container, contents in zip(self.containers, before, strict=True):
                if len(container) != len(contents) or any(map(operator.is_not, container, contents)):
                    container.clear()
                    (container.extend if isinstance(container, list) else container.update)(contents)

    def _content(self, closed: types.CellType) -> Hashable:
        try:
            return self._mark(closed.cell_contents)
        except ValueError:  # not yet assigned
            return "empty"
