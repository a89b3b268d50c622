"""Libraries of kernels that compiled loops call, each built for a machine when a loop first needs it.

A loop of float32 products waits for no products of float64, and one without convolutions not for these.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from unspool.engine.emit.cpp.libraries.build import Build
from unspool.engine.emit.stages.dtypes import HALVES, MULTIPLIED, kernel_name

_NATIVE = Path(__file__).parents[1] / "native"

HEADERS = {
    "products": ("products.h", "row_sums.h"),
    "halves/products": (
        *("functions.h", "halves/numbers.h", "loop.h", "products.h", "row_sums.h"),
        *("halves/products.h", "halves/row_sums.h"),
    ),
    "searches": ("functions.h", "loop.h", "products.h", "largest.h"),
    "convolutions": ("functions.h", "loop.h", "products.h", "convolutions.h", "correlations.h"),
}
"""The headers of each library, whose own text is in the C++ file of its name."""

CALLED = {
    "products": ("multiply",),
    "searches": ("search_share", "search_scratch"),
    "convolutions": ("convolve", "correlate"),
}
"""Those of its functions that loops call, by their names in `unspool::Kernels`."""


@dataclass(frozen=True)
class Kernels:
    """A library of kernels.

    >>> Kernels("products", torch.float32).library().unspool_packed(3, 1) % 3
    0

    Args:
        subject: what they compute, one of `CALLED`.
        dtype: the numbers they compute with; searches have float32 alone, and of halves there are products.
    """

    subject: str
    dtype: torch.dtype

    @property
    def build(self) -> Build:
        """The library on its way."""
        room = "halves/" if self.dtype in HALVES else ""
        return Build.of(_text(f"{room}{self.subject}", MULTIPLIED[self.dtype]))

    def library(self) -> ctypes.CDLL:
        """The library, once it is there.

        Raises:
            CannotEmitError: if it cannot be compiled or loaded.
        """
        return _library(self)

    def slots(self) -> dict[str, int]:
        """The functions that loops call: the fields of `unspool::Kernels`, and their addresses."""
        library = self.library()
        found = {name: address(library, f"unspool_{name}") for name in CALLED[self.subject]}
        return found if self.subject == "searches" else {kernel_name(k, self.dtype): v for k, v in found.items()}


def address(library: ctypes.CDLL, name: str) -> int:
    """Where a function of a library is."""
    found = ctypes.cast(library[name], ctypes.c_void_p).value
    assert found is not None
    return found


def header(*names: str) -> str:
    """The text of headers, so that what is compiled is one text."""
    lines = "".join((_NATIVE / name).read_text() for name in names).splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("#pragma once", '#include "')))


def exported(text: str) -> str:
    """A library's text, with what others may call visible to them."""
    text = text.replace('extern "C" {', 'extern "C" {\n#pragma GCC visibility push(default)')
    return text + "#pragma GCC visibility pop\n"


@cache
def _library(kernels: Kernels) -> ctypes.CDLL:
    return kernels.build.library()


@cache
def _text(subject: str, element: str) -> str:
    return exported(header(*HEADERS[subject], f"{subject}.cpp").replace("ELEMENT", element))
