"""Bindings of the runtime library that all compiled loops share: threads, packed products, row sums."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unspool.engine.emit.cpp.build import Build
from unspool.engine.emit.stages.dtypes import MULTIPLIED
from unspool.forking import is_forked

_HERE = Path(__file__).parent


class Needs(ctypes.Structure):
    """`unspool::Needs` of loop.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("block", "products", "row", "by_row", "search_depth", "searches")),
        *((name, ctypes.c_int64) for name in ("product_work", "matrix_bytes", "other_work")),
        *((name, ctypes.c_int64) for name in ("carried_count", "emitted_count", "summed_count")),
        *((name, ctypes.c_void_p) for name in ("carried_bytes", "emitted_bytes", "summed_bytes")),
    )


def header(*names: str) -> str:
    """The text of headers, so that what is compiled is one text."""
    lines = "".join((_HERE / name).read_text() for name in names).splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("#pragma once", '#include "')))


class Runtime:
    """The compiled runtime.

    >>> runtime = Runtime.get()
    >>> runtime.pack(torch.eye(3)).shape[0] % 3
    0
    """

    @classmethod
    @cache
    def get(cls) -> Runtime:
        """The one of this process.

        Raises:
            CannotEmitError: if it cannot be built.
        """
        return cls(runtime_build().library())

    def __init__(self, library: ctypes.CDLL) -> None:
        self._run = library.unspool_run
        self._run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        self._packed: dict[torch.dtype, Any] = {}
        self._pack: dict[torch.dtype, Any] = {}
        self._use_convolutions: dict[str, Any] = {}
        self._convolutions: dict[str, ctypes.CDLL] = {}
        for dtype, name in MULTIPLIED.items():
            self._packed[dtype] = library[f"unspool_packed_{name}"]
            self._packed[dtype].restype, self._packed[dtype].argtypes = ctypes.c_int64, (ctypes.c_int64,) * 2
            self._pack[dtype] = library[f"unspool_pack_{name}"]
            sizes, pointer = (ctypes.c_int64, ctypes.c_int64), ctypes.c_void_p
            self._pack[dtype].restype, self._pack[dtype].argtypes = None, (*sizes, pointer, *sizes, pointer)
            self._use_convolutions[name] = library[f"unspool_use_convolutions_{name}"]
            self._use_convolutions[name].restype, self._use_convolutions[name].argtypes = None, (pointer,) * 2
        self._sums: dict[torch.dtype, Any] = {
            dtype: library[f"unspool_sums_{name}"] for dtype, name in MULTIPLIED.items()
        }
        integer, pointer = ctypes.c_int64, ctypes.c_void_p
        for function in self._sums.values():
            function.argtypes = (integer, integer, pointer, integer, pointer, integer, integer)
        self._search_bytes, self._pack_search = library.unspool_search_bytes, library.unspool_pack_search
        self._search_bytes.restype, self._search_bytes.argtypes = integer, (integer, integer)
        self._pack_search.restype, self._pack_search.argtypes = None, (integer, integer, pointer, pointer)
        functions = _openmp()
        if functions is not None:
            library.unspool_use_threads(*functions)

    def pack(self, matrix: Tensor) -> Tensor:
        """A matrix as products read it."""
        depth, width = matrix.shape
        dtype = matrix.dtype
        panels = torch.empty(self._packed[dtype](depth, width), dtype=dtype, device=matrix.device)
        self._pack[dtype](depth, width, matrix.data_ptr(), *matrix.stride(), panels.data_ptr())
        return panels

    def use_convolutions(self, kind: str, library: ctypes.CDLL) -> None:
        """Lets loops convolve numbers of a type of C++."""
        if kind not in self._convolutions:
            library.unspool_packed_filters.restype = ctypes.c_int64
            functions = (library.unspool_convolve, library.unspool_correlate)
            self._use_convolutions[kind](*(ctypes.cast(each, ctypes.c_void_p) for each in functions))
            self._convolutions[kind] = library

    def pack_filters(self, filters: Tensor, how: Tensor) -> Tensor:
        """Filters as convolutions read them; `how` is an `unspool::Convolution`."""
        filters, library = filters.contiguous(), self._convolutions[MULTIPLIED[filters.dtype]]
        count = library.unspool_packed_filters(ctypes.c_void_p(how.data_ptr()))
        packed = torch.empty(count, dtype=filters.dtype, device=filters.device)
        library.unspool_pack_filters(*(ctypes.c_void_p(each.data_ptr()) for each in (how, filters, packed)))
        return packed

    def pack_search(self, matrix: Tensor) -> list[Tensor]:
        """A float32 matrix as searches for the largest entry of a product read it: packed, and by columns."""
        depth, width = matrix.shape
        columns = matrix.t().contiguous()
        packed = torch.empty(self._search_bytes(depth, width), dtype=torch.uint8, device=matrix.device)
        self._pack_search(depth, width, columns.data_ptr(), packed.data_ptr())
        return [packed, columns]

    def run(self, steps: int, chunk: int, needs: Needs) -> None:
        """Runs the function at `steps` on the `unspool::Chunk` at `chunk`, with as many threads as torch uses.

        Raises:
            MemoryError: if there is no memory for its scratch.
        """
        if self._run(steps, chunk, ctypes.addressof(needs), threads()):
            raise MemoryError("a compiled loop found no memory for its intermediate results")

    def sums(self, right: Tensor, factors: Sequence[int]) -> None:
        """Sums over rows of every factor times `right`, `[rows, width]`.

        Args:
            right: the right factor.
            factors: an `unspool::Factor` after another, four numbers each: where the left factor is (0 for ones), how
                far apart its rows are, how wide it is, and where its sums go.

        Raises:
            MemoryError: if there is no memory for its scratch.
        """
        rows, width = right.shape
        every = array("q", factors)
        if self._sums[right.dtype](
            rows, width, right.data_ptr(), width, every.buffer_info()[0], len(factors) // 4, threads()
        ):
            raise MemoryError("a sum over rows found no memory for its intermediate results")


def runtime_build() -> Build:
    """The runtime on its way."""
    names = ("functions.h", "loop.h", "products.h", "largest.h", "row_sums.h", "runtime.cpp")
    return Build.of(_exported(header(*names)))


def convolution_build(kind: str) -> Build:
    """Convolutions of numbers of a type of C++ on their way."""
    names = ("functions.h", "loop.h", "products.h", "convolutions.h", "correlations.h", "convolutions.cpp")
    return Build.of(_exported(header(*names).replace("ELEMENT", kind)))


def _exported(text: str) -> str:
    """A library's text, with what others may call visible to them."""
    text = text.replace('extern "C" {', 'extern "C" {\n#pragma GCC visibility push(default)')
    return text + "#pragma GCC visibility pop\n"


def threads() -> int:
    """How many threads a compiled loop may have."""
    return 1 if is_forked() else torch.get_num_threads()


def _openmp() -> tuple[ctypes.c_void_p, ...] | None:
    """How the OpenMP runtime that torch uses starts threads; None if it cannot be found."""
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        library = ctypes.CDLL(str(path))
        names = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
        return tuple(ctypes.cast(library[name], ctypes.c_void_p) for name in names)
    except (OSError, AttributeError):
        return None
