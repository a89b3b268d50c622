"""Free running on samples of any kind: what is drawn, when it ends and what is read next are functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unspool.decode.helpers.helper import Helper, as_shape, check_callable
from unspool.dtypes import as_dtype
from unspool.loops.tensors import as_tensor
from unspool.structure import Structure


class InferenceHelper(Helper):
    """Reads its own samples, whatever they are, until a function says that a row is finished.

    Args:
        sample_fn: `sample_fn(outputs)` returns the samples, `[batch] + sample_shape`.
        sample_shape: the shape of one row's sample; `[]` for an id.
        sample_dtype: the dtype of the samples.
        start_inputs: what the first step reads, `[batch, ...]`.
        end_fn: `end_fn(samples)` returns a bool for each row: whether it ends there.
        next_inputs_fn: makes inputs of samples; by default they are read as they are.

    Raises:
        TypeError: if one of the functions cannot be called.
        ValueError: if `start_inputs` has no batch.

    >>> helper = InferenceHelper(
    ...     sample_fn=lambda outputs: outputs > 0,  # every label on its own
    ...     sample_shape=[3],
    ...     sample_dtype=torch.bool,
    ...     start_inputs=torch.zeros(2, 3),
    ...     end_fn=lambda samples: samples[:, 2],
    ...     next_inputs_fn=lambda samples: samples.float(),
    ... )
    >>> outputs = torch.tensor([[-1.0, 1.0, -1.0], [1.0, 1.0, 1.0]])
    >>> samples = helper.sample(0, outputs, state=())
    >>> helper.next_inputs(0, outputs, (), samples)[:2]
    (tensor([False,  True]), tensor([[0., 1., 0.],
            [1., 1., 1.]]))
    """

    def __init__(
        self,
        sample_fn: Callable[[Any], Any],
        sample_shape: Any,
        sample_dtype: Any,
        start_inputs: Any,
        end_fn: Callable[[Any], Any],
        next_inputs_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        self._sample_fn = check_callable("sample_fn", sample_fn)
        self._end_fn = check_callable("end_fn", end_fn)
        self._next_inputs_fn = None if next_inputs_fn is None else check_callable("next_inputs_fn", next_inputs_fn)
        self._sample_shape = as_shape("sample_shape", sample_shape)
        self._sample_dtype = as_dtype(sample_dtype, "sample_dtype")
        self._start_inputs = as_tensor(start_inputs, "start_inputs")
        if self._start_inputs.dim() == 0:
            raise ValueError("start_inputs must have a row for each row of the batch, but is a scalar")

    @property
    def batch_size(self) -> int:
        """How many rows `start_inputs` has."""
        return len(self._start_inputs)

    @property
    def sample_ids_shape(self) -> torch.Size:
        """The shape that was given."""
        return self._sample_shape

    @property
    def sample_ids_dtype(self) -> torch.dtype:
        """The dtype that was given."""
        return self._sample_dtype

    def initialize(self) -> tuple[Tensor, Tensor]:
        """The start inputs; no row is finished."""
        finished = torch.zeros(self.batch_size, dtype=torch.bool, device=self._start_inputs.device)
        return finished, self._start_inputs

    def sample(self, time: int, outputs: Structure, state: Structure) -> Tensor:
        """What `sample_fn` makes of the outputs."""
        return self._sample_fn(outputs)

    def next_inputs(
        self, time: int, outputs: Structure, state: Structure, sample_ids: Tensor
    ) -> tuple[Any, Any, Structure]:
        """The samples, or what `next_inputs_fn` makes of them."""
        inputs = sample_ids if self._next_inputs_fn is None else self._next_inputs_fn(sample_ids)
        return self._end_fn(sample_ids), inputs, state
