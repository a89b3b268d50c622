"""Indices that begin with the number of each row: `x[torch.arange(x.shape[0]), i]` picks within rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import SymInt, Tensor

Function = Callable[..., Any]


class RowNumbers:
    """Knows the tensors of a step that are the numbers of the rows, `[rows]` or `[rows, 1, ...]`.

    And those that are each of them several times, `[rows * times]`.
    """

    def __init__(self) -> None:
        self._known: dict[int, Tensor] = {}  # alive, so that identities are not used again
        self._repeated: dict[int, tuple[Tensor, int]] = {}

    def note(self, func: Function, args: Sequence[Any], result: Any) -> None:
        """Takes a result down if it is the numbers of the rows."""
        if func is torch.arange:
            found = len([each for each in args if each.__class__ is not int or each != 0]) == 1
        else:
            found = func in KEEPS and bool(args) and self._is_known(args[0])
        if func in REPEATS and len(args) == 2 and args[1].__class__ is int and self._is_known(args[0]):
            if args[0].dim() == 1:
                self._repeated[id(result)] = (result, args[1])
        elif found and _has_rows(result) and all(size.__class__ is int and size == 1 for size in result.shape[1:]):
            self._known[id(result)] = result

    def call(self, func: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[bool, Any]:
        """Whether a call picks or puts elements of each row by its number, and then what it returns."""
        if func is Tensor.__getitem__:
            within = self._within(*args)
            if within is None:
                return False, None
            picked = _picked(args[0], within)
            return True, picked.flatten(0, 1) if self._times(args[1]) else picked
        return self._put(func, *args, **kwargs) if func in PUTS else (False, None)

    def _put(self, func: Function, x: Tensor, indices: Any, values: Any, accumulate: bool = False) -> tuple[bool, Any]:
        within = self._within(x, indices)
        if within is None:
            return False, None
        new: Any = torch.as_tensor(values, dtype=x.dtype, device=x.device)
        if (times := self._times(indices)) and new.dim() == x.dim() - len(within) and _is_repeated(new, times):
            new = _apart(new, x.shape[0], times)
        result = _put(x, within, new, accumulate)
        return True, result if func in (Tensor.index_put, torch.index_put) else x.copy_(result)

    def _is_known(self, given: Any) -> bool:
        return id(given) in self._known

    def _times(self, index: Any) -> int:
        """How often an index that begins with repeated numbers of rows has each of them; 0 for any other."""
        indices: Sequence[Any] = cast(Any, index) if isinstance(index, tuple | list) else ()
        return self._repeated[id(indices[0])][1] if indices and id(indices[0]) in self._repeated else 0

    def _within(self, x: Any, index: Any) -> list[Tensor] | None:
        """The indices within a row, all with the rows on their first axis; None if that is not how `index` begins."""
        indices: list[Any] = list(cast(Any, index)) if isinstance(index, tuple | list) else [index]
        while len(indices) > 1 and (indices[-1] is Ellipsis or _is_all(indices[-1])):
            indices.pop()
        if not (indices and _has_rows(x) and len(indices) <= x.dim()):
            return None
        rows, others = indices[0], indices[1:]
        if (times := self._times(indices)) and others and all(_is_repeated(each, times) for each in others):
            others = [_apart(each, x.shape[0], times) for each in others]
            rows = _apart(rows, x.shape[0], times)
        elif not self._is_known(rows):
            return None
        if not (all(_is_place(each, rows) for each in others) if others else rows.dim() == 1):
            return None
        return [torch.as_tensor(each, dtype=torch.int64, device=x.device).expand(_shape(each, rows)) for each in others]


def _has_rows(given: Any) -> bool:
    """Whether the first axis of a tensor is that of the rows."""
    rows: Any = given.shape[0] if isinstance(given, Tensor) and given.dim() else None
    return isinstance(rows, SymInt) and bool(cast(Any, rows).node.expr.is_Symbol)


def _is_place(given: Any, rows: Tensor) -> bool:
    if isinstance(given, Tensor):
        return given.dtype in (torch.int64, torch.int32) and given.dim() == rows.dim() and _has_rows(given)
    return given.__class__ is int


def _is_repeated(given: Any, times: int) -> bool:
    """Whether the first axis of a tensor is that of the rows, with so many places for each; a number is for all."""
    if not isinstance(given, Tensor):
        return given.__class__ is int
    size: Any = given.shape[0] if given.dim() else None
    if not isinstance(size, SymInt):
        return False
    expression: Any = cast(Any, size).node.expr
    [*symbols] = expression.free_symbols
    return len(symbols) == 1 and expression == times * symbols[0]


def _apart(given: Any, rows: Any, times: int) -> Any:
    """The places of each row on an axis of their own."""
    return cast(Any, given).unflatten(0, (rows, times)) if isinstance(given, Tensor) else given


def _shape(given: Any, rows: Tensor) -> Any:
    return given.shape if isinstance(given, Tensor) else rows.shape


def _is_all(index: Any) -> bool:
    return isinstance(index, slice) and index == slice(None)


def _flat(x: Tensor, within: Sequence[Tensor]) -> tuple[Tensor, Tensor, list[Any]]:
    """A tensor with the indexed axes as one, the places on it, and the shape of what they pick."""
    places = cast(Any, torch.broadcast_tensors)(*within)
    rest: list[Any] = list(x.shape[1 + len(within) :])
    place: Any = 0
    for each, size in zip(places, x.shape[1:], strict=False):
        place = place * size + torch.where(each < 0, each + size, each)
    flat = place.reshape(place.shape[0], -1, *[1] * len(rest))
    return x.flatten(1, len(within)), flat.expand(-1, -1, *rest), [*place.shape, *rest]


def _picked(x: Tensor, within: Sequence[Tensor]) -> Tensor:
    if not within:
        return x.clone()
    inner, places, shape = _flat(x, within)
    # A copy, since autograd saves what it gathers from, and the step may change that in place, as after an index.
    return inner.clone().gather(1, places).reshape(shape)


def _put(x: Tensor, within: Sequence[Tensor], values: Tensor, accumulate: bool) -> Tensor:
    if not within:  # whole rows
        return x + values if accumulate else values.expand(x.shape).clone()
    inner, places, shape = _flat(x, within)
    new = values.expand(shape).reshape(places.shape)
    return (inner.scatter_add(1, places, new) if accumulate else inner.scatter(1, places, new)).reshape(x.shape)


PUTS: set[Any] = {Tensor.__setitem__, Tensor.index_put_, Tensor.index_put, torch.index_put}
REPEATS: set[Any] = {Tensor.repeat_interleave, torch.repeat_interleave}
KEEPS: set[Any] = {
    *(Tensor.unsqueeze, torch.unsqueeze, Tensor.view, Tensor.reshape, torch.reshape, Tensor.to, Tensor.long),
    *(Tensor.clone, Tensor.contiguous, Tensor.__getitem__),
}
"""What hands on the numbers of rows, if it has as many elements."""
