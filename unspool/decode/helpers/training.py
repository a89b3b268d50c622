"""Teacher forcing: the inputs of every step are known."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from torch import Tensor

from unspool.decode.helpers.helper import Helper, check_logits
from unspool.flags import checks_flags
from unspool.loops.lengths import as_lengths, check_lengths_fit, check_one_length_a_row
from unspool.loops.tensors import as_tensor
from unspool.step import attach, gradient_sources
from unspool.structure import Structure, flatten, map_structure, unflatten_as
from unspool.tracers import has_values, static_shape


class TrainingHelper(Helper):
    """Reads given inputs, whatever is sampled; a row is finished at its length.

    `dynamic_decode` with it is `dynamic_rnn` with lengths. The samples are the argmax of the outputs.

    Args:
        inputs: a tensor `[batch, time, ...]`, or a nested structure of these.
        sequence_length: the length of each row, `[batch]`.
        time_major: whether the inputs are `[time, batch, ...]`.

    Raises:
        TypeError: if the lengths are no ints.
        ValueError: if the inputs have no time or no batch, or the lengths are no vector or do not fit them.

    >>> import torch
    >>> helper = TrainingHelper(torch.randn(3, 6, 4), sequence_length=[5, 0, 2])
    >>> finished, inputs = helper.initialize()
    >>> finished, inputs.shape
    (tensor([False,  True, False]), torch.Size([3, 4]))
    """

    @checks_flags
    def __init__(self, inputs: Structure, sequence_length: Any, time_major: bool = False) -> None:
        self.inputs = as_time_major(inputs, "inputs", time_major)
        leaves = flatten(self.inputs)
        if not leaves:
            raise ValueError(f"inputs is empty: {inputs!r} has no tensor to read")
        for axis, what in enumerate(["Time steps is not the same", "Batch_size is not the same"]):
            found = [static_shape(leaf)[axis] for leaf in leaves]
            if any(each != found[0] for each in found):
                raise ValueError(f"{what} for all the tensors of inputs: {found}")
        steps, self._batch_size = static_shape(leaves[0])[:2]
        lengths = as_lengths(sequence_length)
        check_one_length_a_row(lengths, self._batch_size)
        check_lengths_fit(lengths, steps)
        self.lengths = lengths.to(leaves[0].device).clamp(0, steps)
        self._steps_given = steps
        numbers = type(sequence_length) in (list, tuple) and not any(isinstance(n, Tensor) for n in sequence_length)
        # Numbers are the same whatever a tracer replaces; tensors are looked at when a decode begins.
        self._longest = max([0, *map(int, sequence_length)]) if numbers else None

    @property
    def batch_size(self) -> int:
        """How many rows the inputs have."""
        return self._batch_size

    def check_outputs(self, output_size: Structure) -> None:
        """Raises unless the outputs are logits."""
        check_logits(output_size, type(self).__name__)

    def initialize(self) -> tuple[Tensor, Structure]:
        """The first inputs; rows of length 0 are finished."""
        return self.lengths <= 0, self._at(0)

    def sample(self, time: int, outputs: Tensor, state: Structure) -> Tensor:
        """The id with the largest logit."""
        return outputs.argmax(-1).int()

    def next_inputs(
        self, time: int, outputs: Structure, state: Structure, sample_ids: Tensor
    ) -> tuple[Tensor, Structure, Structure]:
        """The inputs of the next step, zeros once all rows are finished."""
        return self.lengths <= time + 1, self._at(time + 1), state

    @cached_property
    def _steps(self) -> list[Structure]:
        # unbind, not indexing: its backward is one stack, where indexing fills a gradient of all steps at each.
        columns = [leaf.unbind(0) for leaf in flatten(self.inputs)]
        return [unflatten_as(self.inputs, now) for now in zip(*columns, strict=True)]

    def _at(self, time: int) -> Structure:
        if time < self.longest:
            return self._steps[time]
        zeros = map_structure(lambda leaf: leaf.new_zeros(leaf.shape[1:]), self.inputs)
        # Without a single step, nothing else is left for gradients of zero to come back by.
        return attach(zeros, gradient_sources(None, self.inputs)) if self.longest == 0 else zeros

    @property
    def bound(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The length of the longest row; None while nobody may look at the lengths."""
        if self._longest is None and self._batch_size and has_values(self.lengths):
            self._longest = int(self.lengths.max())
        return self._longest if self._batch_size else 0

    @property
    def longest(self) -> int:
        """The length of the longest row, or the most that it could be."""
        bound = self.bound
        return self._steps_given if bound is None else bound


def as_time_major(structure: Structure, name: str, time_major: bool) -> Structure:
    """`structure` as tensors `[time, batch, ...]`."""

    def turned(leaf: Any) -> Tensor:
        tensor = as_tensor(leaf, name)
        if tensor.dim() < 2:
            axes = "[time, batch, ...]" if time_major else "[batch, time, ...]"
            raise ValueError(f"{name} must have rank at least 2, {axes}, but got shape {list(tensor.shape)}")
        return tensor if time_major else tensor.transpose(0, 1)

    return map_structure(turned, structure)
