"""Operations that compute the same: equal functions of equal inputs, each a number for all that are alike."""

from __future__ import annotations

import functools
from collections.abc import Collection, Hashable, Sequence
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch

from unspool.structure import map_structure
from unspool.tf1.dtypes import DType
from unspool.tf1.operation import Operation
from unspool.tf1.tensor import Tensor

SMALL = 64
"""Elements up to which arrays are compared by value."""
DEEPEST = 8
"""How far functions inside functions are followed."""


class Alike:
    """Numbers operations and tensors: those with the same number compute the same.

    Args:
        operations: in an order in which they can run.
        fed: tensors that have other values than they compute.
    """

    def __init__(self, operations: Sequence[Operation], fed: Collection[Tensor]) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._functions: dict[Operation, int] = {}
        self._values: dict[Tensor, int] = {}
        self._alive: list[Any] = []  # what is compared by identity
        self._waiting, self._fed = operations, fed

    def function(self, operation: Operation) -> int:
        """What it makes of its inputs, whichever they are."""
        if operation not in self._functions:
            self._functions[operation] = self._number(self._look(operation))
        return self._functions[operation]

    def value(self, tensor: Tensor) -> int:
        """What a tensor holds."""
        waiting, self._waiting = self._waiting, ()
        for each in waiting:
            self._evaluate(each)
        if tensor not in self._values:
            self._values[tensor] = self._number(("fed", self._same(tensor)))
        return self._values[tensor]

    def _evaluate(self, operation: Operation) -> None:
        if operation.constant is not None:
            key: Hashable = ("constant", operation.outputs[0].dtype.name, self._key(operation.constant))
        elif is_pure(operation) and not operation.control_inputs:
            key = (self.function(operation), *(self.value(each) for each in operation.inputs))
        else:
            key = self._same(operation)
        for each in operation.outputs:
            if each not in self._fed:
                self._values[each] = self._number((key, each.index))

    def _look(self, operation: Operation) -> Hashable:
        kinds = tuple(kind(each) for each in operation.outputs)
        if operation.call is not None:
            call = operation.call
            outline = repr(map_structure(lambda _: 0, (call.inputs, call.state)))
            return "call", self._same(call.bound), outline, kinds
        return operation.type, self._key(operation.function), kinds

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _same(self, value: Any) -> Hashable:
        self._alive.append(value)
        return "identity", id(value)

    def _key(self, value: Any, depth: int = 0) -> Hashable:
        """Equal for values that functions cannot tell from each other, as far as that can be seen."""
        if depth > DEEPEST:
            return self._same(value)
        if value is None or isinstance(value, bool | int | str | bytes | float | complex | slice):
            return type(value).__name__, repr(value)
        if isinstance(value, tuple | list):
            return type(value).__name__, *(self._key(each, depth + 1) for each in value)  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, torch.Tensor) and type(value) is torch.Tensor and value.numel() <= SMALL:
            return "tensor", str(value.dtype), tuple(value.shape), repr(value.tolist())
        if isinstance(value, np.ndarray) and value.size <= SMALL and value.dtype != object:  # pyright: ignore[reportUnknownMemberType]
            return "array", str(value.dtype), value.shape, value.tobytes()  # pyright: ignore[reportUnknownMemberType]
        if isinstance(value, Tensor):  # a function may ask it for what is known before a run
            return "symbol", *kind(value), self._key(value.known, depth + 1)
        if isinstance(value, FunctionType):
            return self._function_key(value, depth + 1)
        if isinstance(value, MethodType):
            return "method", self._key(value.__func__, depth + 1), self._same(value.__self__)
        if isinstance(value, functools.partial):
            parts: tuple[Any, ...] = (value.func, value.args, *sorted(value.keywords.items()))
            return "partial", self._key(parts, depth + 1)
        return self._same(value)

    def _function_key(self, function: FunctionType, depth: int) -> Hashable:
        try:
            closed = [each.cell_contents for each in function.__closure__ or ()]
        except ValueError:  # something in it has no value yet
            return self._same(function)
        defaults = function.__defaults__, sorted((function.__kwdefaults__ or {}).items())
        return "function", self._same(function.__code__), self._key(closed, depth), self._key(defaults, depth)


def is_pure(operation: Operation) -> bool:
    """Whether its outputs depend on nothing but its inputs, and nothing else on it."""
    return not (operation.takes_run or operation.effect or operation.watches)


def kind(tensor: Tensor) -> tuple[DType, Any]:
    """The dtype and shape of a tensor."""
    return tensor.dtype, tensor.dims
