"""Bindings of the runtime library that all compiled loops share, and of the kernels that they call."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from unspool.engine.emit.cpp.libraries.build import Build
from unspool.engine.emit.cpp.libraries.kernels import Kernels, address, exported, header
from unspool.engine.emit.stages.dtypes import HALVES, MULTIPLIED, kernel_name
from unspool.forking import is_forked


class Needs(ctypes.Structure):
    """`unspool::Needs` of loop.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("block", "products", "row", "by_row", "search_depth", "searches")),
        *((name, ctypes.c_int64) for name in ("product_work", "matrix_bytes", "other_work")),
        *((name, ctypes.c_int64) for name in ("carried_count", "emitted_count", "summed_count")),
        *((name, ctypes.c_void_p) for name in ("carried_bytes", "emitted_bytes", "summed_bytes")),
    )


_WHOLE = [dtype for dtype in MULTIPLIED if dtype not in HALVES]
_SLOTS = [
    *(kernel_name("multiply", dtype) for dtype in MULTIPLIED),
    *(kernel_name(name, dtype) for name in ("convolve", "correlate") for dtype in _WHOLE),
]


class Slots(ctypes.Structure):
    """`unspool::Kernels` of loop.h."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in (*_SLOTS, "search_share", "search_scratch"))


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
        self._run, self._share = library.unspool_run, library.unspool_share
        integer, pointer = ctypes.c_int64, ctypes.c_void_p
        self._run.argtypes = (pointer, pointer, pointer, integer)
        self._share.argtypes = (pointer, pointer, integer, integer, integer)
        library.unspool_kernels.restype = ctypes.POINTER(Slots)
        self._slots = library.unspool_kernels().contents
        self._used: set[Kernels] = set()
        functions = _openmp()
        if functions is not None:
            library.unspool_use_threads(*functions)

    def use(self, kernels: Kernels) -> None:
        """Lets loops call kernels.

        Raises:
            CannotEmitError: if these cannot be built.
        """
        if kernels not in self._used:
            for name, place in kernels.slots().items():
                setattr(self._slots, name, place)
            self._used.add(kernels)

    def pack(self, matrix: Tensor) -> Tensor:
        """A matrix as products read it."""
        shape, products = matrix.shape, _Products.of(matrix.dtype)
        panels = matrix.new_empty(products.size_packed(*shape))
        products.pack(*shape, matrix.data_ptr(), *matrix.stride(), panels.data_ptr())
        return panels

    def pack_filters(self, filters: Tensor, how: Tensor) -> Tensor:
        """Filters as convolutions read them; `how` is an `unspool::Convolution`."""
        filters = filters.contiguous()
        library = Kernels("convolutions", filters.dtype).library()
        library.unspool_packed_filters.restype = ctypes.c_int64
        count = library.unspool_packed_filters(ctypes.c_void_p(how.data_ptr()))
        packed = torch.empty(count, dtype=filters.dtype, device=filters.device)
        library.unspool_pack_filters(*(ctypes.c_void_p(each.data_ptr()) for each in (how, filters, packed)))
        return packed

    def pack_search(self, matrix: Tensor) -> list[Tensor]:
        """A float32 matrix as searches for the largest entry of a product read it: packed, and by columns."""
        depth, width = map(ctypes.c_int64, matrix.shape)
        columns = matrix.t().contiguous()
        library = Kernels("searches", matrix.dtype).library()
        library.unspool_search_bytes.restype = ctypes.c_int64
        packed = torch.empty(library.unspool_search_bytes(depth, width), dtype=torch.uint8, device=matrix.device)
        library.unspool_pack_search(depth, width, *(ctypes.c_void_p(each.data_ptr()) for each in (columns, packed)))
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
            right: the right factor; what a row has must lie side by side.
            factors: an `unspool::Factor` after another, five numbers each: where the left factor is (0 for ones), how
                far apart its rows are, how wide it is, where its sums go, and where those of itself (0 for nowhere).

        Raises:
            MemoryError: if there is no memory for its scratch.
        """
        rows, width = right.shape
        every = array("q", factors)
        apart = right.stride(0) if rows > 1 else width
        told = array("q", [rows, width, right.data_ptr(), apart, every.buffer_info()[0], len(factors) // 5])
        what, _ = told.buffer_info()
        products = _Products.of(right.dtype)
        multiplications = rows * width * sum(factors[2::5])
        if self._share(products.sum_share, what, multiplications, products.sum_scratch(what), threads()):
            raise MemoryError("a sum over rows found no memory for its intermediate results")


class _Products:
    """Functions of the products of a dtype that the host calls."""

    def __init__(self, dtype: torch.dtype) -> None:
        library = Kernels("products", dtype).library()
        integer, pointer = ctypes.c_int64, ctypes.c_void_p
        packed, self.pack = library.unspool_packed, library.unspool_pack
        packed.restype, packed.argtypes = integer, (integer, integer)
        self.size_packed = cache(packed)
        self.pack.restype, self.pack.argtypes = None, (integer, integer, pointer, integer, integer, pointer)
        self.sum_share, self.sum_scratch = address(library, "unspool_sum_share"), library.unspool_sum_scratch
        self.sum_scratch.restype, self.sum_scratch.argtypes = integer, (pointer,)

    @classmethod
    @cache
    def of(cls, dtype: torch.dtype) -> _Products:
        """The ones of this process."""
        return cls(dtype)


def runtime_build() -> Build:
    """The runtime on its way."""
    return Build.of(exported(header("functions.h", "loop.h", "runtime.cpp")))


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
