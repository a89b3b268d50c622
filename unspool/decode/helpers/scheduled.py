"""Scheduled sampling: some steps read what is known, some what the model itself came to (Bengio et al., 2015)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unspool.decode.helpers.embedding import Embedding
from unspool.decode.helpers.helper import check_callable, check_logits
from unspool.decode.helpers.training import TrainingHelper, as_time_major
from unspool.decode.sampling import Sampling, Uniform
from unspool.flags import checks_flags
from unspool.loops.tensors import as_tensor
from unspool.step import select_rows
from unspool.structure import Structure, is_leaf
from unspool.tracers import constant, has_values


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Teacher forcing in which a row now and then reads the embedding of an id drawn from its own output.

    Where a row is drawn from, its sample is the id; where it is not, its sample is -1 and the given input is read.

    Args:
        inputs: a tensor `[batch, time, depth]`.
        sequence_length: the length of each row, `[batch]`.
        embedding: a matrix with a row for each id, or a function from ids to inputs, such as `nn.Embedding`.
        sampling_probability: the probability to draw: a number, or one for each row.
        time_major: whether the inputs are `[time, batch, depth]`.
        seed: begins a stream for the ids that are drawn.
        scheduling_seed: begins a stream for when they are.
        generator: draws both, in the place of seeds.

    Raises:
        TypeError, ValueError: as in `TrainingHelper`, and if the probability has a rank above 1 or is not in [0, 1].

    >>> helper = ScheduledEmbeddingTrainingHelper(torch.zeros(2, 5, 4), [5, 3], torch.ones(7, 4), 1.0, seed=0)
    >>> logits = torch.eye(7)[:2] * 100
    >>> ids = helper.sample(0, logits, state=())
    >>> ids, helper.next_inputs(0, logits, (), ids)[1][0]
    (tensor([0, 1], dtype=torch.int32), tensor([1., 1., 1., 1.]))
    """

    @checks_flags
    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        embedding: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        scheduling_seed: int | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(_one_tensor(inputs, "inputs"), sequence_length, time_major)
        self.embedding = Embedding(embedding)
        self._probability = _as_probability(sampling_probability, self.batch_size)
        self._draws = Uniform(seed, generator)
        self._schedule = Uniform(scheduling_seed, generator, seed_name="scheduling_seed")
        self.sampling = Sampling()

    def check_outputs(self, output_size: Structure) -> None:
        """Raises unless the outputs are logits, all with an embedding."""
        self.embedding.check_logits(check_logits(output_size, type(self).__name__))

    def sample(self, time: int, outputs: Tensor, state: Structure) -> Tensor:
        """An id drawn for some rows, -1 for the others."""
        drawn = _drawn(self._probability, self._schedule, self.lengths)
        return torch.where(drawn, self.sampling(outputs, self._draws), -1)

    def next_inputs(
        self, time: int, outputs: Structure, state: Structure, sample_ids: Tensor
    ) -> tuple[Tensor, Structure, Structure]:
        """The embedding of what was drawn, else the given input of the next step."""
        finished, given, state = super().next_inputs(time, outputs, state, sample_ids)
        if time + 1 < self.longest:
            given = select_rows(sample_ids >= 0, self.embedding(sample_ids.clamp(min=0)), given)
        return finished, given, state


class ScheduledOutputTrainingHelper(TrainingHelper):
    """Teacher forcing in which a row now and then reads its own output. Its sample is 1 where it does, else 0.

    Args:
        inputs: a tensor `[batch, time, depth]`.
        sequence_length: the length of each row, `[batch]`.
        sampling_probability: the probability to read the output: a number, or one for each row.
        time_major: whether the inputs are `[time, batch, depth]`.
        seed: begins a stream of draws of the helper's own.
        next_inputs_fn: makes inputs of outputs; by default they are read as they are.
        auxiliary_inputs: a tensor `[batch, time, more]` that is put beside whatever is read, on the last axis.
        generator: what draws, in the place of a seed.

    Raises:
        TypeError, ValueError: as in `TrainingHelper`, and if the probability has a rank above 1 or is not in [0, 1],
            or the auxiliary inputs do not have the steps and rows of the inputs.

    >>> helper = ScheduledOutputTrainingHelper(torch.zeros(2, 5, 4), [5, 3], 1.0)
    >>> outputs = torch.ones(2, 4)
    >>> ids = helper.sample(0, outputs, state=())
    >>> ids, helper.next_inputs(0, outputs, (), ids)[1][0]
    (tensor([1, 1], dtype=torch.int32), tensor([1., 1., 1., 1.]))
    """

    @checks_flags
    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        next_inputs_fn: Callable[[Any], Any] | None = None,
        auxiliary_inputs: Any = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        given = as_time_major(_one_tensor(inputs, "inputs"), "inputs", time_major)
        self._depth = tuple(given.shape[2:])
        self._beside: tuple[Tensor, ...] | None = None
        if auxiliary_inputs is not None:
            beside = as_time_major(_one_tensor(auxiliary_inputs, "auxiliary_inputs"), "auxiliary_inputs", time_major)
            if beside.dim() < 3 or beside.shape[:-1] != given.shape[:-1]:
                raise ValueError(
                    f"auxiliary_inputs must have the shape of the inputs but for the last axis, time-major "
                    f"{list(given.shape)}, but have {list(beside.shape)}"
                )
            given, self._beside = torch.cat([given, beside], -1), beside.unbind(0)
        super().__init__(given, sequence_length, time_major=True)
        self._next_inputs_fn = None if next_inputs_fn is None else check_callable("next_inputs_fn", next_inputs_fn)
        self._probability = _as_probability(sampling_probability, self.batch_size)
        self._schedule = Uniform(seed, generator)

    def check_outputs(self, output_size: Structure) -> None:
        """Raises unless the outputs can be read as inputs, where no function makes inputs of them."""
        if self._next_inputs_fn is None:
            shape = check_logits(output_size, type(self).__name__)
            if (shape,) != self._depth:
                raise ValueError(
                    f"the output has width {shape}, but the inputs have {list(self._depth)}: a next_inputs_fn can make "
                    "inputs of it"
                )

    def sample(self, time: int, outputs: Tensor, state: Structure) -> Tensor:
        """1 for the rows that will read their output, 0 for the others."""
        return _drawn(self._probability, self._schedule, self.lengths).int()

    def next_inputs(
        self, time: int, outputs: Structure, state: Structure, sample_ids: Tensor
    ) -> tuple[Tensor, Structure, Structure]:
        """What was put out, else the given input of the next step; either beside the auxiliary inputs."""
        finished, given, state = super().next_inputs(time, outputs, state, sample_ids)
        if time + 1 < self.longest:
            own = outputs if self._next_inputs_fn is None else self._next_inputs_fn(outputs)
            if self._beside is not None:
                own = torch.cat([own, self._beside[time + 1]], -1)
            given = select_rows(sample_ids.bool(), own, given)
        return finished, given, state


def _drawn(probability: Tensor, uniform: Uniform, rows: Tensor) -> Tensor:
    # A number in [0, 1) is below 0 never and below 1 always.
    return uniform(len(rows), rows) < probability.to(rows.device)


def _as_probability(probability: Any, batch_size: int) -> Tensor:
    name = "sampling_probability"
    tensor = constant(probability) if type(probability) in (list, tuple) else as_tensor(probability, name)
    if tensor.dim() > 1 or (tensor.dim() and len(tensor) != batch_size):
        shape = list(tensor.shape)
        raise ValueError(
            f"{name} must be a scalar or a vector with one entry for each of {batch_size} rows, not {shape}"
        )
    if tensor.device.type == "cpu" and has_values(tensor) and not bool(((tensor >= 0) & (tensor <= 1)).all()):
        raise ValueError(f"{name} must be between 0 and 1, but is {tensor.tolist()}")
    return tensor.double() if tensor.dtype != torch.float32 else tensor


def _one_tensor(value: Any, name: str) -> Tensor:
    if not is_leaf(value):
        raise TypeError(f"{name} must be one tensor, but is a structure of several: {type(value).__name__}")
    return as_tensor(value, name)
