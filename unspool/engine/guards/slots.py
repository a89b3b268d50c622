"""The slots of an object: everything it refers to that Python code can read or rebind, for each kind of object.

A reader lists the values of an object's slots, always in the same order, `names` their names. What has no slots is an
atom, which never changes; what has slots that cannot be listed is opaque.
"""

from __future__ import annotations

import abc
import array
import builtins
import datetime
import decimal
import functools
import inspect
import logging
import operator
import pathlib
import re
import types
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, cast

import numpy as np
import torch
import torch._ops as torch_ops
from torch import nn

from unspool.engine.guards.scripted import reader_of

Reader = Callable[[Any], list[Any]]

HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
"""The attributes of a module that hold its hooks."""
BOOKKEEPING = {name for name in nn.Module().__dict__ if name != "training"}
"""The attributes that every module has for its own use."""


class Absent:
    """Stands for a slot that is empty."""


# -- atoms ------------------------------------------------------------------------------------------------------------

PLAIN = (int, str, bytes, bool, type(None), torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format)
PRINTED: tuple[type, ...] = (
    *(complex, range, slice, decimal.Decimal, datetime.date, datetime.datetime, datetime.time, datetime.timedelta),
    *(operator.itemgetter, operator.methodcaller, operator.attrgetter),
    *(pathlib.PurePosixPath, pathlib.PosixPath, pathlib.PureWindowsPath, pathlib.WindowsPath),
    *(torch.SymInt, torch.SymFloat, torch.SymBool),  # which a step keeps of a shape while it is traced
)
SAME: Any = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.CodeType,
    types.GenericAlias,
    types.EllipsisType,
    types.NotImplementedType,
    type(inspect.ArgInfo.__dict__["args"]),  # the field of a namedtuple
    re.Pattern,
    cast(Any, np).ufunc,
    torch_ops.OpOverload,
    torch_ops.OpOverloadPacket,
    type(torch.ops.aten),
    logging.Logger,  # what one does to a step, a rehearsal sees
)
"""Objects that stay what they are."""


def atom(value: Any) -> Hashable | None:
    """What tells an unchangeable value from others, to the bit; None if `value` has slots.

    >>> atom(0.0) == atom(-0.0), atom(1) == atom(True), atom(float("nan")) == atom(float("nan"))
    (False, False, True)
    """
    kind: Any = value.__class__
    if value is warnings.warn:
        return None  # what it does depends on filters
    if kind in PLAIN:
        return (kind, value)
    if kind is float:
        return (kind, value.hex())
    if issubclass(kind, cast(Any, np).generic):
        return (kind, value.tobytes()) if value.dtype != object else None
    if kind in PRINTED or issubclass(kind, cast(Any, np).dtype):
        return (kind, repr(value))
    if isinstance(value, types.BuiltinFunctionType) and not isinstance(value.__self__, types.ModuleType | type | None):
        return None  # bound to an object that may change
    return (kind, value) if isinstance(value, SAME) else None


# -- slots ------------------------------------------------------------------------------------------------------------


def attributes_of(module: nn.Module) -> list[str]:
    """The attributes of a module that are not its own bookkeeping."""
    return [name for name in module.__dict__ if name not in BOOKKEEPING]


def _module_reader(names: list[str]) -> Reader:
    get = cast(Any, operator.itemgetter)(names[0], *names)  # of one name it would return no tuple
    first, second, third, fourth = HOOKS

    def read(module: nn.Module) -> list[Any]:
        own = module.__dict__
        weights, buffers, below = own["_parameters"], own["_buffers"], own["_modules"]
        hooks = (not own[first], not own[second], not own[third], not own[fourth])
        values = (*get(own), *weights.values(), *buffers.values(), *below.values())
        return [module.__class__, *hooks, *weights, *buffers, *below, *values]

    return read


def _instance_reader(slots: tuple[str, ...], content: Reader) -> Reader:
    def read(value: Any) -> list[Any]:
        own = getattr(value, "__dict__", {})
        return [value.__class__, *own.values(), *(getattr(value, name, Absent) for name in slots), *content(value)]

    return read


def _content_reader(kind: type) -> Reader:
    """Lists what instances of a subclass of a container contain, by the container's own methods."""
    base: Any = next((each for each in _BASES if issubclass(kind, each)), None)
    if base in (None, BaseException):
        return lambda value: []
    if base is complex:
        return lambda value: [complex(value)]
    if base in WRAPPERS:
        return SLOTS[base][0]
    if base in VALUES:
        return lambda value: [base.__getnewargs__(value)[0]]
    if base in (dict, OrderedDict):
        return lambda value: [getattr(value, "default_factory", None), *base.keys(value), *base.values(value)]
    return lambda value: list(base.__iter__(value))


def _slot_names(kind: type) -> tuple[str, ...]:
    found: list[str] = []
    for each in kind.__mro__:
        names: Any = each.__dict__.get("__slots__", ())
        for name in [names] if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__"):
                mangled = f"_{each.__name__.lstrip('_')}{name}" if name.startswith("__") and name[-2:] != "__" else name
                found.append(mangled)
    return tuple(found)


def _read_class(kind: type) -> list[Any]:
    registered = abc.get_cache_token() if isinstance(kind, abc.ABCMeta) else None  # changes with every `register`
    return [kind.__class__, registered, *kind.__mro__, *kind.__dict__.values()]


def _read_function(function: types.FunctionType) -> list[Any]:
    closed = [_content(cell) for cell in function.__closure__ or ()]
    own = function.__dict__.values()
    return [function.__code__, function.__defaults__, function.__kwdefaults__, function.__globals__, *closed, *own]


def globals_of(function: types.FunctionType, names: Sequence[str]) -> list[Any]:
    """What a function finds under global names."""
    own = function.__globals__
    return [own.get(name, _BUILTINS.get(name, Absent)) for name in names]


_BUILTINS = builtins.__dict__


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return Absent


def _read_dict(value: Any) -> list[Any]:
    return [*value, *value.values()]


def _read_partial(value: Any) -> list[Any]:
    return [value.func, value.args, value.keywords]


def _read_property(value: Any) -> list[Any]:
    return [value.fget, value.fset, value.fdel]


SLOTS: dict[type, tuple[Reader, Callable[[Any], list[str]]]] = {
    list: (list, lambda value: [f"[{k}]" for k in range(len(value))]),
    types.FunctionType: (
        _read_function,
        lambda value: [
            *("__code__", "__defaults__", "__kwdefaults__", "__globals__"),
            *value.__code__.co_freevars,
            *value.__dict__,
        ],
    ),
    dict: (_read_dict, lambda value: [*(f" key {key!r}" for key in value), *(f"[{key!r}]" for key in value)]),
    types.MethodType: (lambda value: [value.__func__, value.__self__], lambda _: [".__func__", ".__self__"]),
    types.BuiltinFunctionType: (lambda value: [value.__self__], lambda _: [".__self__"]),
    functools.partial: (_read_partial, lambda _: [".func", ".args", ".keywords"]),
    property: (_read_property, lambda _: [".fget", ".fset", ".fdel"]),
    staticmethod: (lambda value: [value.__func__], lambda _: [".__func__"]),
    weakref.ref: (lambda value: [value()], lambda _: ["()"]),
}
for _sequence in (tuple, set, frozenset, deque):
    SLOTS[_sequence] = SLOTS[list]
SLOTS[types.MappingProxyType] = SLOTS[dict]
SLOTS[classmethod] = SLOTS[staticmethod]

BYTES: dict[type, Callable[[Any], Any]] = {
    bytearray: bytes,
    memoryview: lambda value: value.tobytes(),
    array.array: lambda value: (value.typecode, value.tobytes()),
    np.ndarray: lambda value: (value.dtype.str, value.shape, value.tobytes()),
}
"""What is compared by its contents, byte by byte."""


def slots_of(value: Any) -> tuple[Reader, list[str]] | None:
    """How to read the slots of `value`, and their names; None if they cannot be listed."""
    kind = value.__class__
    found = SLOTS.get(kind)
    if found is not None:
        return found[0], found[1](value)
    if isinstance(value, np.ndarray):  # of objects
        return (lambda array: list(array.flat)), [f".flat[{k}]" for k in range(value.size)]
    if isinstance(value, torch.jit.ScriptModule):
        return reader_of(value)
    if isinstance(value, nn.Module):
        attributes = attributes_of(value)
        return _module_reader(attributes), _names_of_module(value, attributes)
    if isinstance(value, type):
        return _read_class, ["__class__", "register", *("__mro__" for _ in value.__mro__), *value.__dict__]
    if _is_defined_in_python(kind):
        read_content, slots = _content_reader(kind), _slot_names(kind)
        content = [f"[{k}]" for k in range(len(read_content(value)))]
        names = ["__class__", *getattr(value, "__dict__", {}), *slots, *content]
        return _instance_reader(slots, read_content), names
    return None


def _names_of_module(module: nn.Module, attributes: list[str]) -> list[str]:
    registered = [name for kind in ("_parameters", "_buffers", "_modules") for name in module.__dict__[kind]]
    return ["__class__", *HOOKS, *registered, attributes[0], *attributes, *registered]


VALUES: tuple[Any, ...] = (int, float, str, bytes, complex)
CONTAINERS: tuple[Any, ...] = (dict, list, tuple, set, frozenset, deque, BaseException)
WRAPPERS: tuple[Any, ...] = (property, staticmethod, classmethod, functools.partial)
_BASES: tuple[Any, ...] = (*VALUES, OrderedDict, *CONTAINERS, *WRAPPERS)


def _is_defined_in_python(kind: type) -> bool:
    """Whether all that an instance has is in its `__dict__` and slots, and in the container or wrapper that it is."""
    if kind is types.SimpleNamespace:
        return True
    while (base := kind.__base__) is not None and base is not object:
        kind = base
    return kind in (*CONTAINERS, *VALUES, *WRAPPERS) or not {"__dict__", "__slots__"}.isdisjoint(kind.__dict__)
