"""TensorFlow's dtypes: names around torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from unspool import dtypes as names


class DType:
    """The type of a tensor's elements, `tf.float32` for example.

    >>> from unspool import tf1 as tf
    >>> tf.float32, tf.float32.as_numpy_dtype, tf.as_dtype("int64").is_integer
    (tf.float32, <class 'numpy.float32'>, True)
    """

    def __init__(self, name: str, torch_dtype: torch.dtype | None) -> None:
        self.name = name
        self.torch = torch_dtype
        """Torch's dtype of the same numbers; None for strings, which torch does not hold."""

    @property
    def as_numpy_dtype(self) -> type[Any]:
        """NumPy's type of the same numbers."""
        return object if self.torch is None else np.dtype(self.name).type

    @property
    def base_dtype(self) -> DType:
        """Itself: there are no references to variables here."""
        return self

    @property
    def is_floating(self) -> bool:
        """Whether it holds real numbers with fractions."""
        return self.torch is not None and self.torch.is_floating_point

    @property
    def is_complex(self) -> bool:
        """Whether it holds complex numbers."""
        return self.torch is not None and self.torch.is_complex

    @property
    def is_integer(self) -> bool:
        """Whether it holds whole numbers; bool does not."""
        return self.torch not in (None, torch.bool) and not self.is_floating and not self.is_complex

    @property
    def is_bool(self) -> bool:
        """Whether it holds truths."""
        return self.torch == torch.bool

    def is_compatible_with(self, other: Any) -> bool:
        """Whether it is the same dtype."""
        return self is as_dtype(other)

    @property
    def size(self) -> int:
        """How many bytes an element takes."""
        return 1 if self.torch is None else self.torch.itemsize

    @property
    def min(self) -> Any:
        """The least number it can hold."""
        return self._info().min

    @property
    def max(self) -> Any:
        """The largest number it can hold."""
        return self._info().max

    def _info(self) -> Any:
        if self.torch is None or self.is_bool:
            raise TypeError(f"{self!r} has no least and no largest number")
        return torch.finfo(self.torch) if self.is_floating or self.is_complex else torch.iinfo(self.torch)

    def __eq__(self, other: object) -> bool:
        try:
            return self is as_dtype(other)
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


float16 = half = DType("float16", torch.float16)
bfloat16 = DType("bfloat16", torch.bfloat16)
float32 = DType("float32", torch.float32)
float64 = double = DType("float64", torch.float64)
int8 = DType("int8", torch.int8)
int16 = DType("int16", torch.int16)
int32 = DType("int32", torch.int32)
int64 = DType("int64", torch.int64)
uint8 = DType("uint8", torch.uint8)
bool_ = DType("bool", torch.bool)
complex64 = DType("complex64", torch.complex64)
complex128 = DType("complex128", torch.complex128)
string = DType("string", None)
variant = DType("variant", None)
"""The dtype of what is no array, such as a dataset."""

ALL = [
    *(float16, bfloat16, float32, float64, int8, int16, int32, int64, uint8, bool_, complex64, complex128),
    *(string, variant),
]
_BY_NAME = {each.name: each for each in ALL}
_BY_TORCH = {each.torch: each for each in ALL if each.torch is not None}


def as_dtype(dtype: Any) -> DType:
    """The dtype that `dtype` names: one of these, of torch's or of NumPy's, or a string.

    >>> as_dtype("float64"), as_dtype(torch.int32), as_dtype(np.bool_)
    (tf.float64, tf.int32, tf.bool)
    """
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str) and dtype in _BY_NAME:
        return _BY_NAME[dtype]
    if dtype is float:  # TensorFlow's, not NumPy's
        return float32
    if dtype in (str, bytes, object) or (isinstance(dtype, np.dtype) and dtype.kind in "OSU"):  # pyright: ignore[reportUnknownMemberType]
        return string
    found = _BY_TORCH.get(names.as_dtype(dtype))
    if found is None:
        raise TypeError(f"{dtype!r} has no counterpart here; there are {', '.join(_BY_NAME)}")
    return found
