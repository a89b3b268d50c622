"""TensorFlow's numbers for dtypes, and the arrays of them."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np
import torch

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

BFLOAT16 = 14

_REALS = {1: "<f4", 2: "<f8", BFLOAT16: "<u2", 19: "<f2"}
_INTEGERS = {3: "<i4", 4: "u1", 5: "<i2", 6: "i1", 9: "<i8", 10: "?", 17: "<u2", 22: "<u4", 23: "<u8"}
_COMPLEX = {8: "<c8", 18: "<c16"}
STORED = {number: np.dtype(kind) for number, kind in (_REALS | _INTEGERS | _COMPLEX).items()}
"""How the values of a dtype are stored."""

_OTHERS = {7: "string", 11: "qint8", 12: "quint8", 13: "qint32", 15: "qint16", 16: "quint16", 21: "variant"}


def dtype_of(number: int) -> np.dtype[Any]:
    """The dtype of the array that is made of stored values: NumPy has no bfloat16, so float32 holds them."""
    return np.dtype(np.float32) if number == BFLOAT16 else STORED[number].newbyteorder("=")


def name_of(number: int) -> str:
    """The dtype's name, for messages."""
    if number == BFLOAT16:
        return "bfloat16"
    return STORED[number].name if number in STORED else _OTHERS.get(number, f"number {number}")


def array_of(number: int, data: bytearray, shape: tuple[int, ...]) -> Array:
    """The array whose values are stored as `data`, which it keeps."""
    stored = np.frombuffer(data, STORED[number]).reshape(shape)
    if number == BFLOAT16:
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if stored.dtype == np.bool_:
        return stored.view(np.uint8) != 0  # a byte of 2 is true, but no array may hold it
    return stored.astype(dtype_of(number), copy=False)


def stored_form(value: Any) -> tuple[int, Array]:
    """TensorFlow's number for the dtype of an array or tensor, and its values as they are stored.

    Raises:
        TypeError: if TensorFlow's files cannot hold them.

    >>> stored_form([1.0, 2.0])
    (2, array([1., 2.]))
    """
    if isinstance(value, torch.Tensor):
        tensor = value.detach().cpu()
        if tensor.dtype == torch.bfloat16:
            return BFLOAT16, np.ascontiguousarray(tensor.view(torch.int16).numpy().view(np.uint16))
        value = cast(Any, tensor.resolve_conj().resolve_neg()).numpy()
    array = np.asarray(value)
    little = array.dtype.newbyteorder("<")
    number = next((each for each, stored in STORED.items() if stored == little and each != BFLOAT16), None)
    if number is None:
        raise TypeError(f"it is an array of {array.dtype}, but expected one of {', '.join(map(name_of, STORED))}")
    return number, np.asarray(array, little, order="C")
