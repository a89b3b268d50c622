"""`tensorflow.python.ops.rnn_cell_impl`: what programs use of it beside the cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from unspool.structure import flatten
from unspool.tf1.dtypes import int32
from unspool.tf1.operations import as_tensor
from unspool.tf1.ops.array import expand_dims
from unspool.tf1.ops.joining import concat
from unspool.tf1.ops.math import add
from unspool.tf1.ops.products import matmul
from unspool.tf1.rnn.contrib import LayerRNNCell
from unspool.tf1.scopes import get_variable
from unspool.tf1.shapes import TensorShape
from unspool.tf1.tensor import Tensor

__all__ = [
    "_BIAS_VARIABLE_NAME",
    "_WEIGHTS_VARIABLE_NAME",
    "LayerRNNCell",
    "_concat",
    "_like_rnncell",
    "_linear",
    "assert_like_rnncell",
    "linear",
]

_WEIGHTS_VARIABLE_NAME, _BIAS_VARIABLE_NAME = "kernel", "bias"


def _linear(
    args: Any, output_size: int, bias: bool, bias_initializer: Any = None, kernel_initializer: Any = None
) -> Tensor:
    """`concat(args, 1) @ kernel + bias`, with variables of the current scope.

    Args:
        args: a tensor `[rows, size]`, or a list of these.
        output_size: the size of the result.
        bias: whether a bias is added.
        bias_initializer: how it begins; with zeros by default.
        kernel_initializer: how the kernel begins.
    """
    if args is None or (isinstance(args, list) and not args):
        raise ValueError("`args` must be specified")
    parts = [as_tensor(each) for each in (flatten(args) if isinstance(args, list | tuple) else [args])]
    for part in parts:
        if part.dims is None or len(part.dims) != 2:
            raise ValueError(f"linear is expecting 2D arguments: {[each.shape for each in parts]}")
        if part.dims[1] is None:
            raise ValueError(f"linear expects shape[1] to be provided for shape {part.shape}, but saw None")
    size = sum(part.dims[1] or 0 for part in parts if part.dims)
    kernel = get_variable("kernel", [size, output_size], parts[0].dtype, kernel_initializer)
    product = matmul(parts[0] if len(parts) == 1 else concat(parts, 1), kernel)
    if not bias:
        return product
    from unspool.tf1.initializers import zeros_initializer

    return add(product, get_variable("bias", [output_size], parts[0].dtype, bias_initializer or zeros_initializer()))


linear = _linear


def _concat(prefix: Any, suffix: Any, static: bool = False) -> Any:
    """The sizes of one shape, then those of another: a list with None for what is not known, or a tensor."""
    if static:
        return [*_sizes(prefix), *_sizes(suffix)]
    sizes = [as_tensor(each, int32) for each in (prefix, suffix)]
    return concat([expand_dims(each, 0) if each.dims == () else each for each in sizes], 0)


def _sizes(shape: Any) -> list[int | None]:
    if isinstance(shape, Tensor):
        known = [None] if shape.known is None else np.atleast_1d(shape.known).tolist()
        return [None if each is None else int(each) for each in known]
    return TensorShape([shape] if shape is None or isinstance(shape, int) else shape).as_list()


def _like_rnncell(cell: Any) -> bool:
    """Whether it has what a loop needs of a cell."""
    named = all(hasattr(cell, name) for name in ("output_size", "state_size"))
    return named and callable(cell) and any(hasattr(cell, name) for name in ("zero_state", "get_initial_state"))


def assert_like_rnncell(cell_name: str, cell: Any) -> None:
    """`TypeError` unless it has what a loop needs of a cell."""
    if not _like_rnncell(cell):
        raise TypeError(f"The argument {cell_name!r} ({cell}) is not an RNNCell")
