"""A list of tensors that is written by index: what `raw_rnn` returns, and a state or loop state may hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unspool.dtypes import as_dtype


class TensorArray:
    """A growing list of equally shaped tensors. It is a value: `write` returns a new array and leaves the old one.

    Args:
        dtype: the dtype of the elements; None takes the first element's.
        size: how many elements there are before anything is written.
        element_shape: the shape of an element, which an empty array needs to be stacked.

    >>> array = TensorArray(torch.float32).write(0, torch.tensor([1.0])).write(1, torch.tensor([2.0]))
    >>> array.stack()
    tensor([[1.],
            [2.]])
    """

    def __init__(
        self,
        dtype: Any = None,
        size: int = 0,
        *,
        element_shape: Sequence[int] | None = None,
        elements: Sequence[Tensor | None] | None = None,
    ) -> None:
        self.dtype = None if dtype is None else as_dtype(dtype)
        self.element_shape = None if element_shape is None else tuple(element_shape)
        self._elements: list[Tensor | None] = [None] * size if elements is None else list(elements)

    def write(self, index: int | Tensor, value: Any) -> TensorArray:
        """A new array with `value` at `index`, longer if need be; an element is written once."""
        index, value = int(index), torch.as_tensor(value)
        if index < 0:
            raise IndexError(f"cannot write at index {index}")
        if index < self.size() and self._elements[index] is not None:
            raise ValueError(f"element {index} of the TensorArray is written already")
        if self.dtype is not None and value.dtype != self.dtype:
            raise TypeError(f"the TensorArray holds {self.dtype}, but the value is {value.dtype}")
        if self.element_shape is not None and tuple(value.shape) != self.element_shape:
            expected = list(self.element_shape)
            raise ValueError(f"the elements have shape {expected}, but the value has {list(value.shape)}")
        elements = self._elements + [None] * (index + 1 - self.size())
        elements[index] = value
        return TensorArray(self.dtype or value.dtype, element_shape=self.element_shape, elements=elements)

    def read(self, index: int | Tensor) -> Tensor:
        """The element at `index`."""
        index = int(index)
        if not 0 <= index < self.size():
            raise IndexError(f"cannot read element {index} of a TensorArray of {self.size()}")
        element = self._elements[index]
        if element is None:
            raise ValueError(f"element {index} of the TensorArray was never written")
        return element

    def has(self, index: int) -> bool:
        """Whether the element at `index` was written."""
        return 0 <= index < self.size() and self._elements[index] is not None

    def stack(self) -> Tensor:
        """All elements in one tensor, along a new first axis."""
        if not self._elements:
            if self.element_shape is None:
                raise ValueError("an empty TensorArray needs an element_shape to be stacked")
            return torch.empty((0, *self.element_shape), dtype=self.dtype)
        return torch.stack([self.read(index) for index in range(self.size())])

    def unstack(self, value: Any) -> TensorArray:
        """A new array of the slices of `value` along its first axis."""
        value = torch.as_tensor(value)
        if self.dtype is not None and value.dtype != self.dtype:
            raise TypeError(f"the TensorArray holds {self.dtype}, but the value is {value.dtype}")
        return TensorArray(self.dtype or value.dtype, elements=value.unbind(0))

    def size(self) -> int:
        """How many elements there are."""
        return len(self._elements)

    def __len__(self) -> int:
        return self.size()

    def __repr__(self) -> str:
        return f"TensorArray(size={self.size()}, dtype={self.dtype})"
