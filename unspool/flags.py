"""Flags: arguments that are true or false, and nothing else.

Python takes any number for a truth, so that `LSTMCell(4, 8)`, an input size and a hidden size to torch's eyes, would
silently have peepholes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

FLAGS = ("bool", "bool | None")


def check_flag(name: str, value: Any, hint: str = "") -> None:
    """Raises `TypeError` unless `value`, called `name`, is True or False.

    >>> check_flag("time_major", 1)
    Traceback (most recent call last):
    TypeError: time_major must be True or False, but is 1
    """
    if value is not True and value is not False and not isinstance(value, np.bool_):
        raise TypeError(f"{name} must be True or False, but is {value!r}{hint}")


def checks_flags(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: every argument that is annotated as a bool has to be one, or None where that is said.

    >>> @checks_flags
    ... def read(path: str, binary: bool = False) -> bool:
    ...     return binary
    >>> read("x", 2)
    Traceback (most recent call last):
    TypeError: binary must be True or False, but is 2
    """
    flags = list(_flags_of(function))

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for place, name, optional in flags:
            value: Any = args[place] if place is not None and place < len(args) else kwargs.get(name, False)
            if value is not True and value is not False and not (optional and value is None):
                check_flag(name, value)
        return function(*args, **kwargs)

    return checked


def check_flags(function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raises `TypeError` unless those of the arguments that are flags of `function` are bools, before it is called."""
    for _, name, optional in _flags_of(function):
        value = arguments.get(name, False)
        if not (optional and value is None):
            check_flag(name, value)


def _flags_of(function: Callable[..., Any]) -> Iterator[tuple[int | None, str, bool]]:
    """The place, if it has one, and the name of each argument that is a flag, and whether it may be None."""
    for place, each in enumerate(inspect.signature(function).parameters.values()):
        if each.annotation in FLAGS:
            yield None if each.kind is each.KEYWORD_ONLY else place, each.name, each.annotation == FLAGS[1]
