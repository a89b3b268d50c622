"""`tensorflow.python.ops.rnn`: what programs use of it beside the loops."""

from __future__ import annotations

from typing import Any

from unspool.tf1.operations import as_tensor
from unspool.tf1.ops.array import rank, transpose
from unspool.tf1.ops.creation import range_
from unspool.tf1.ops.joining import concat
from unspool.tf1.tensor import Tensor

__all__ = ["_transpose_batch_time"]


def _transpose_batch_time(x: Any) -> Tensor:
    """A tensor with its first two axes exchanged; one of fewer axes as it is."""
    tensor = as_tensor(x)
    if tensor.dims is None:
        return transpose(tensor, concat([[1, 0], range_(2, rank(tensor))], 0))
    return tensor if len(tensor.dims) < 2 else transpose(tensor, [1, 0, *range(2, len(tensor.dims))])
