"""What NumPy had in TensorFlow 1's time and has no more: names such as `np.float`, and arrays of lists."""

from __future__ import annotations

import builtins
import functools
import sys
import sysconfig
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import unspool

FORMER: dict[str, Any] = {
    **{name: getattr(builtins, name) for name in ("bool", "int", "float", "complex", "object", "str")},
    **dict(long=int, unicode=str, unicode_=np.str_, string_=np.bytes_, float_=np.float64, complex_=np.complex128),
    **dict(Inf=np.inf, Infinity=np.inf, infty=np.inf, PINF=np.inf, NINF=-np.inf, NaN=np.nan, PZERO=0.0, NZERO=-0.0),
    **dict(product=np.prod, cumproduct=np.cumprod, sometrue=np.any, alltrue=np.all, round_=np.round),
    **dict(row_stack=np.vstack, mat=np.asmatrix),
}
"""What they meant."""


RAGGED = ("array", "asarray", "asanyarray")
"""Functions that made arrays of lists where the lists are not of one length."""
LIBRARIES = tuple({str(Path(unspool.__file__).parent), *map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))})
"""Where code is that knows NumPy as it is now, and may count on its errors."""


def _with_lists(make: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes an array of lists where NumPy refuses to choose a dtype, if a program calls it."""

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        try:
            return make(*args, **kwargs)
        except ValueError as error:
            chosen = len(args) > 1 or kwargs.get("dtype") is not None
            if chosen or "inhomogeneous" not in str(error) or is_library(sys._getframe(1).f_code.co_filename):  # pyright: ignore[reportPrivateUsage]
                raise
            return make(*args, **{**kwargs, "dtype": object})

    return made


def is_library(file: str) -> bool:
    """Whether code is Python's, an installed package's or unspool's."""
    return file.startswith((*LIBRARIES, "<frozen "))


@contextmanager
def former_names() -> Generator[None, None, None]:
    """NumPy with its former names, as far as it has none of these itself, and with arrays of lists.

    >>> with former_names():
    ...     np.zeros(2, np.float), np.Inf, np.array([[1], [1, 2]])
    (array([0., 0.]), inf, array([list([1]), list([1, 2])], dtype=object))
    """
    added = {name: value for name, value in FORMER.items() if name not in vars(np)}
    before = {name: vars(np)[name] for name in RAGGED}
    for name, value in before.items():
        setattr(np, name, _with_lists(value))
    for name, value in added.items():
        setattr(np, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(np, name, value)
        for name in added:
            if name in vars(np):  # unless the program took it away itself
                delattr(np, name)
