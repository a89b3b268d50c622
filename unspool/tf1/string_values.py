"""Tensors of strings in a run: torch holds numbers alone, so each string is its place in a table beside the tensor.

What moves elements (slices, joins, shapes) moves the numbers; what looks at them asks for the strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

_T = torch.Tensor
_as_numbers: Any = torch._C.DisableTorchFunctionSubclass  # pyright: ignore[reportPrivateUsage]  # no public name
_MOVING = (
    *(
        "cat",
        "stack",
        "where",
        "index_select",
        "gather",
        "flip",
        "unbind",
        "reshape",
        "transpose",
        "permute",
        "squeeze",
    ),
    *("unsqueeze", "roll", "tile", "split", "broadcast_to", "take_along_dim", "masked_select", "movedim", "narrow"),
)
_MOVING_METHODS = (
    *("__getitem__", "reshape", "view", "expand", "expand_as", "flatten", "index_select", "gather", "flip", "unbind"),
    *("transpose", "permute", "squeeze", "unsqueeze", "repeat", "tile", "split", "clone", "detach", "contiguous"),
    *(
        "narrow",
        "select",
        "movedim",
        "where",
        "roll",
        "broadcast_to",
        "masked_select",
        "t",
        "take_along_dim",
        "index_put",
    ),
)
_TELLING_METHODS = (
    *("__eq__", "__ne__", "eq", "ne", "equal", "dim", "numel", "size", "stride", "__len__", "is_floating_point"),
    *("is_complex", "is_contiguous", "ndimension", "storage_offset", "data_ptr", "element_size", "__hash__"),
)
_MOVES: frozenset[Any] = frozenset(
    [*(getattr(torch, name) for name in _MOVING), *(getattr(_T, name) for name in _MOVING_METHODS)]
)
"""What makes strings of strings."""
_TELLS: frozenset[Any] = frozenset(
    [
        *(torch.eq, torch.ne, torch.equal, torch.numel, torch.is_floating_point, torch.is_complex),
        *(getattr(_T, name) for name in _TELLING_METHODS),
        *(getattr(_T, name).__get__ for name in ("shape", "dtype", "device", "ndim", "requires_grad", "is_meta")),
    ]
)
"""What answers with numbers, which are the same for strings as for their places."""


class Strings(torch.Tensor):
    """A tensor of strings, which are bytes.

    >>> words = Strings.of([b"a", b"b"])
    >>> words.array(), torch.cat([words, Strings.of([b"c"])])[1:].array()
    (array([b'a', b'b'], dtype=object), array([b'b', b'c'], dtype=object))
    """

    table: np.ndarray[Any, Any]
    """The strings, each at its place."""

    @staticmethod
    def of(value: Any) -> Strings:
        """The strings of an array, a list or a single one; text is encoded as UTF-8."""
        array = as_bytes(value)
        places: dict[bytes, int] = {}
        codes = np.array([places.setdefault(each, len(places)) for each in array.reshape(-1)], np.int64)
        return _wrapped(torch.from_numpy(codes.reshape(array.shape)), _table(places))

    @staticmethod
    def blank(sizes: Iterable[int]) -> Strings:
        """Strings without values, of which only the shape is known."""
        return _wrapped(torch.empty(tuple(sizes), dtype=torch.int64, device="meta"), _table(()))

    def array(self) -> np.ndarray[Any, Any]:
        """The strings as an array of bytes."""
        made = np.empty(tuple(self.shape), object)
        made[...] = self.table[_plain(self).cpu().numpy()] if made.size else None
        return made

    def tolist(self) -> Any:
        """The strings as nested lists."""
        return self.array().tolist()

    def item(self) -> Any:
        """The only string."""
        return self.array().item()

    def mapped(self, function: Callable[[bytes], Any]) -> np.ndarray[Any, Any]:
        """What a function makes of each string, computed once for each that differs, as an array of objects."""
        used, places = self.used()
        made = np.empty(len(used), object)
        for number, word in enumerate(used):
            made[number] = function(word)
        found = np.empty(places.shape, object)
        found[...] = made[places]
        return found

    def used(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The strings that differ, and which of them is at each place: the table may have many more."""
        codes = _plain(self).cpu().numpy()
        found, places = np.unique(codes, return_inverse=True)
        return self.table[found], places.reshape(codes.shape)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _TELLS or func in _MOVES:
            named: dict[str, Any] = kwargs or {}
            codes, table = _together(_strings_in([*args, *named.values()]))
            with _as_numbers():
                made = func(*_replaced(args, codes), **{name: _replaced(each, codes) for name, each in named.items()})
            if func in _TELLS:
                return made
            return (
                tuple(_wrapped(each, table) for each in made)
                if isinstance(made, list | tuple)
                else _wrapped(made, table)
            )
        if func is torch.add:
            return _joined(*args)
        if func in (_T.numpy, _T.__array__):
            return args[0].array()
        if func in (_T.to, _T.cpu):
            return args[0]
        name = getattr(func, "__name__", str(func))
        raise TypeError(
            f"{name} is not defined for strings; tf.string_to_number and lookup tables make numbers of them"
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Strings.of, (self.array(),)

    def __deepcopy__(self, memo: Any) -> Strings:
        return self

    def __repr__(self, *_: Any, **__: Any) -> str:
        return f"Strings({self.tolist()!r})"


def _joined(one: Strings, other: Strings) -> Strings:
    """The strings at each place, joined."""
    return Strings.of(np.add(one.array(), other.array(), dtype=object))


def as_bytes(value: Any) -> np.ndarray[Any, Any]:
    """An array of bytes, of anything made of strings; `TypeError` if something else is in it."""
    given = value if isinstance(value, np.ndarray) else np.asarray(value, object)
    made = np.empty(given.shape, object)
    flat = [_encoded(each) for each in given.reshape(-1)]
    if flat:
        made.reshape(-1)[:] = flat
    return made


def is_text(value: Any) -> bool:
    """Whether it is a string, or strings in lists and arrays, and nothing else."""
    if isinstance(value, str | bytes):
        return True
    if isinstance(value, list | tuple):
        return bool(value) and all(map(is_text, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "US" or (value.dtype == object and value.size > 0 and is_text(value.tolist()))
    return False


def _encoded(each: Any) -> bytes:
    if isinstance(each, str):
        return each.encode()
    if not isinstance(each, bytes):
        raise TypeError(f"expected strings, but got {each!r} of type {type(each).__name__}")
    return bytes(each)


def _table(strings: Iterable[bytes]) -> np.ndarray[Any, Any]:
    listed = list(strings)
    made = np.empty(len(listed), object)
    made[:] = listed
    return made


def _plain(strings: torch.Tensor) -> torch.Tensor:
    with _as_numbers():
        return strings.as_subclass(torch.Tensor)


def _wrapped(codes: torch.Tensor, table: np.ndarray[Any, Any]) -> Strings:
    with _as_numbers():
        made = codes.as_subclass(Strings)
    made.table = table
    return made


def _strings_in(value: Any) -> list[Strings]:
    """All strings in lists and tuples."""
    if isinstance(value, Strings):
        return [value]
    return [found for each in value for found in _strings_in(each)] if isinstance(value, list | tuple) else []


def _replaced(value: Any, codes: dict[int, torch.Tensor]) -> Any:
    """The same with numbers for strings."""
    if isinstance(value, Strings):
        return codes[id(value)]
    if isinstance(value, list | tuple):
        return type(value)([_replaced(each, codes) for each in value])
    return value


def _together(found: list[Strings]) -> tuple[dict[int, torch.Tensor], np.ndarray[Any, Any]]:
    """The places of strings, by the id of these, in one table."""
    if all(each.table is found[0].table for each in found):
        return {id(each): _plain(each) for each in found}, found[0].table
    numbers: dict[bytes, int] = {}
    codes: dict[int, torch.Tensor] = {}
    for each in found:
        plain = _plain(each)
        if plain.is_meta:
            codes[id(each)] = plain
            continue
        used, places = each.used()
        own = np.array([numbers.setdefault(word, len(numbers)) for word in used], np.int64)
        codes[id(each)] = torch.from_numpy(np.asarray(own[places]))
    return codes, _table(numbers)
