"""Names that NumPy had in TensorFlow 1's time and has no more, such as `np.float`: programs of that time use them."""

from __future__ import annotations

import builtins
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

FORMER: dict[str, Any] = {
    **{name: getattr(builtins, name) for name in ("bool", "int", "float", "complex", "object", "str")},
    **dict(long=int, unicode=str, unicode_=np.str_, string_=np.bytes_, float_=np.float64, complex_=np.complex128),
    **dict(Inf=np.inf, Infinity=np.inf, infty=np.inf, PINF=np.inf, NINF=-np.inf, NaN=np.nan, PZERO=0.0, NZERO=-0.0),
    **dict(product=np.prod, cumproduct=np.cumprod, sometrue=np.any, alltrue=np.all, round_=np.round),
    **dict(row_stack=np.vstack, mat=np.asmatrix),
}
"""What they meant."""


@contextmanager
def former_names() -> Generator[None, None, None]:
    """NumPy with its former names, as far as it has none of these itself.

    >>> with former_names():
    ...     np.zeros(2, np.float), np.Inf
    (array([0., 0.]), inf)
    """
    added = {name: value for name, value in FORMER.items() if name not in vars(np)}
    for name, value in added.items():
        setattr(np, name, value)
    try:
        yield
    finally:
        for name in added:
            if name in vars(np):  # unless the program took it away itself
                delattr(np, name)
