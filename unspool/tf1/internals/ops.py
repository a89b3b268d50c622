"""What programs use of `tensorflow.python.framework` beside the public names."""

from __future__ import annotations

from typing import Any

import numpy as np

from unspool.tf1.operations import as_tensor, convert_to_tensor
from unspool.tf1.tensor import Operators

__all__ = ["constant_value", "convert_to_tensor_or_indexed_slices", "is_tensor"]

convert_to_tensor_or_indexed_slices = convert_to_tensor


def is_tensor(x: Any) -> bool:
    """Whether it is a tensor or a variable of a graph."""
    return isinstance(x, Operators)


def constant_value(tensor: Any, partial: bool = False) -> Any:
    """The value of a tensor that always has the same one; None for others.

    >>> from unspool import tf1 as tf
    >>> constant_value(tf.constant([1, 2])), constant_value(tf.placeholder(tf.int32, [])) is None
    (array([1, 2], dtype=int32), True)
    """
    value = as_tensor(tensor).op.constant
    return None if value is None else np.asarray(value)
