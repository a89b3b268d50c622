"""The contract of a helper, and the helper that is made of functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from unspool.decode.rows import as_finished
from unspool.dtypes import as_dtype
from unspool.sizes import shape_of
from unspool.structure import Structure, describe, flatten


class Helper(ABC):
    """Says what a `BasicDecoder` makes of a step's output, what it reads next, and which rows are finished.

    >>> class Echo(Helper):
    ...     batch_size = 2
    ...     def initialize(self):
    ...         return torch.tensor([False, False]), torch.zeros(2, 3)
    ...     def sample(self, time, outputs, state):
    ...         return outputs.argmax(-1).int()
    ...     def next_inputs(self, time, outputs, state, sample_ids):
    ...         return sample_ids == 0, outputs, state
    >>> Echo().sample_ids_dtype
    torch.int32
    """

    end_token: int | None = None
    """The id that ends a row and stands for everything after it; None where there is no such id."""

    bound: int | None = None
    """The number of steps after which all rows are surely finished; None where only the model can tell."""

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """How many rows there are."""

    @property
    def sample_ids_shape(self) -> torch.Size:
        """The shape of one row's sample: by default one id."""
        return torch.Size([])

    @property
    def sample_ids_dtype(self) -> torch.dtype:
        """The dtype of the samples."""
        return torch.int32

    def check_outputs(self, output_size: Structure) -> None:
        """Raises if the helper cannot sample from outputs of that size; called before the first step."""
        return

    def of_rows(self) -> RowHelper | None:
        """The same for some rows of the batch alone, if no row depends on another; None if it may."""
        return None

    @abstractmethod
    def initialize(self) -> tuple[Any, Structure]:
        """`(finished, inputs)` before the first step."""

    @abstractmethod
    def sample(self, time: int, outputs: Structure, state: Structure) -> Tensor:
        """What step `time` comes to for each row."""

    @abstractmethod
    def next_inputs(
        self, time: int, outputs: Structure, state: Structure, sample_ids: Tensor
    ) -> tuple[Any, Structure, Structure]:
        """`(finished, next_inputs, next_state)` after step `time`."""


class RowHelper(Protocol):
    """Samples, and says what is read next, for some rows of a batch by themselves."""

    takes_largest: bool
    """Whether the sample is the id with the largest logit, whatever the row."""

    def sample(self, outputs: Any, rows: Tensor) -> Tensor:
        """What a step comes to, for those rows of the batch."""
        ...

    def follow(self, sample_ids: Tensor) -> tuple[Tensor, Structure]:
        """`(finished, next_inputs)` after these samples."""
        ...

    def vocabulary(self) -> tuple[Any, Tensor, int]:
        """What is read for an id, a function or a module; the ids at the start; and the one that ends a row."""
        ...


class CustomHelper(Helper):
    """A helper made of functions.

    Args:
        initialize_fn: `initialize_fn()` returns `(finished, inputs)`.
        sample_fn: `sample_fn(time=, outputs=, state=)` returns the samples.
        next_inputs_fn: `next_inputs_fn(time=, outputs=, state=, sample_ids=)` returns `(finished, next_inputs,
            next_state)`.
        sample_ids_shape: the shape of one row's sample; by default one id.
        sample_ids_dtype: its dtype, int32 by default.
        end_token: what stands in the samples past a row's end; 0 by default.

    Raises:
        TypeError: if one of the functions cannot be called.
        ValueError: if `batch_size` is asked for before `initialize`.

    >>> helper = CustomHelper(
    ...     initialize_fn=lambda: (torch.tensor([False, False]), torch.zeros(2, 3)),
    ...     sample_fn=lambda time, outputs, state: outputs.argmax(-1).int(),
    ...     next_inputs_fn=lambda time, outputs, state, sample_ids: (sample_ids == 0, outputs, state),
    ... )
    >>> finished, inputs = helper.initialize()
    >>> helper.batch_size
    2
    """

    def __init__(
        self,
        initialize_fn: Callable[[], tuple[Any, Structure]],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., tuple[Any, Structure, Structure]],
        sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
        *,
        end_token: int | None = None,
    ) -> None:
        self._initialize_fn = check_callable("initialize_fn", initialize_fn)
        self._sample_fn = check_callable("sample_fn", sample_fn)
        self._next_inputs_fn = check_callable("next_inputs_fn", next_inputs_fn)
        self._sample_ids_shape = as_shape("sample_ids_shape", sample_ids_shape)
        self._sample_ids_dtype = torch.int32 if sample_ids_dtype is None else as_dtype(sample_ids_dtype)
        self._batch_size: int | None = None
        self.end_token = end_token

    @property
    def batch_size(self) -> int:
        """How many rows `initialize_fn` gave."""
        if self._batch_size is None:
            raise ValueError("batch_size is not known before initialize() is called")
        return self._batch_size

    @property
    def sample_ids_shape(self) -> torch.Size:
        """The shape that was given."""
        return self._sample_ids_shape

    @property
    def sample_ids_dtype(self) -> torch.dtype:
        """The dtype that was given."""
        return self._sample_ids_dtype

    def initialize(self) -> tuple[Any, Structure]:
        """What `initialize_fn` returns; its `finished` says how many rows there are."""
        finished, inputs = self._initialize_fn()
        finished = as_finished(finished)
        self._batch_size = finished.shape[0]
        return finished, inputs

    def sample(self, time: int, outputs: Structure, state: Structure) -> Tensor:
        """What `sample_fn` returns."""
        return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(
        self, time: int, outputs: Structure, state: Structure, sample_ids: Tensor
    ) -> tuple[Any, Structure, Structure]:
        """What `next_inputs_fn` returns."""
        return self._next_inputs_fn(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


def check_callable(name: str, function: Any) -> Any:
    """`function`, if it can be called."""
    if not callable(function):
        raise TypeError(f"{name} must be callable, but is {describe(function)}: {function!r}")
    return function


def as_shape(name: str, shape: Any) -> torch.Size:
    """The shape of one row: of one number for None, a vector for an int.

    >>> as_shape("shape", None), as_shape("shape", 3), as_shape("shape", [2, 3])
    (torch.Size([]), torch.Size([3]), torch.Size([2, 3]))
    """
    return torch.Size([dim for size in flatten(() if shape is None else shape) for dim in shape_of(size, name)])


def check_logits(output_size: Structure, kind: str) -> int:
    """How many logits a row of outputs of that size has; raises unless it is one vector of them."""
    leaves = flatten(output_size)
    shape = shape_of(leaves[0], "output_size") if len(leaves) == 1 else ()
    if len(shape) != 1 or shape[0] == 0 or output_size is not leaves[0]:
        raise ValueError(
            f"{kind} samples from one vector of logits a row, but the size of the output is {output_size}: "
            "an output_layer can make logits of it"
        )
    return shape[0]
