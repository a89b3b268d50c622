"""What all attention mechanisms share: the memory of a batch, its lengths, and one look at it."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from unspool.cells.building import Buildable
from unspool.cells.layer import check_dtype, check_units
from unspool.cells.like import ensure_built_for, snake_case
from unspool.decode.attention.dense import Dense
from unspool.dtypes import as_dtype
from unspool.loops.lengths import as_lengths
from unspool.loops.tensors import as_tensor
from unspool.structure import describe
from unspool.tracers import has_values, static_shape

ROW_BUFFERS = ("values", "keys", "mask")
"""What a mechanism keeps of the memory of a batch, each with one row per row of the batch."""


class AttentionMechanism(Buildable):
    """A way to look at a memory: `alignments, next_state = mechanism(query, state)`.

        score      = self.score(query)                       # one number for each place of the memory
        score      = where(place < length, score, score_mask_value)
        alignments = self.probabilities(score, state)        # how much of each place is looked at

    The memory changes from batch to batch, and the mechanism, whose weights are trained, stays: `setup_memory` gives it
    the memory of the next batch. What is computed from the memory is kept in three buffers, which are no part of a
    `state_dict` and are not copied or pickled with the mechanism:

        values = memory, zero past its lengths               # [batch, places, depth]
        keys   = memory_layer(values)                        # [batch, places, num_units]
        mask   = place < length                              # [batch, places], None without lengths

    A mechanism of one's own defines `score(query)`, and `build` if it has weights.

    Args:
        num_units: the width N of the keys.
        memory: `[batch, places, depth]`, most often the outputs of an encoder; None to give it later.
        memory_sequence_length: the length of each row of the memory, ints in [1, places]; None for full length.
        probability_fn: takes the scores `[batch, places]` to the alignments; softmax by default.
        score_mask_value: the score of places past the length; minus infinity by default.
        dtype: the dtype of the weights; by default that of the memory.
        name: the name above its variables in TensorFlow; by default its class in snake case.

    >>> class Last(AttentionMechanism):
    ...     def score(self, query):
    ...         return torch.arange(self.keys.shape[1]) + 0 * self.keys.sum(-1)
    >>> mechanism = Last(4, torch.randn(2, 3, 5), [3, 1], probability_fn=lambda score: score.softmax(-1).round())
    >>> mechanism(torch.zeros(2, 4), mechanism.initial_state(2, torch.float32))[0].detach()
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """

    values: Tensor
    keys: Tensor
    mask: Tensor | None
    memory_layer: Dense
    query_layer: Any

    def __init__(
        self,
        num_units: int,
        memory: Any = None,
        memory_sequence_length: Any = None,
        probability_fn: Callable[[Tensor], Tensor] | None = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(trainable=True, weight_dtype=None if dtype is None else as_dtype(dtype))
        if probability_fn is not None and not callable(probability_fn):
            raise TypeError(f"probability_fn must be callable, but got {probability_fn!r}")
        self.num_units = check_units("num_units", num_units)
        self.probability_fn = probability_fn
        self.score_mask_value = score_mask_value
        self.dtype = self.weight_dtype
        self.name = name or snake_case(type(self).__name__)
        self.memory_layer = Dense(self.num_units, self.weight_dtype)
        self.query_layer = None
        for buffer in ROW_BUFFERS:
            self.register_buffer(buffer, None, persistent=False)
        if memory is not None:
            self.setup_memory(memory, memory_sequence_length)
        elif memory_sequence_length is not None:
            raise ValueError("memory_sequence_length is given without a memory: give both, or both to setup_memory")

    # -- the memory --------------------------------------------------------------------------------------------------

    def setup_memory(self, memory: Any, memory_sequence_length: Any = None) -> None:
        """Takes the memory of the next batch, in the place of any other.

        What stands past a row's length is never seen, NaN included. Gradients flow back into `memory` and the memory
        layer; so, as with any graph of autograd, a memory is set up anew for each backward pass, and after the weights
        have changed, or were loaded.

        Lengths on a GPU are clamped to [1, places] and not checked, since a look at them would wait for it.

        Args:
            memory: `[batch, places, depth]`.
            memory_sequence_length: the length of each row, ints in [1, places]; None for full length.

        Raises:
            TypeError: if `memory` is not floating point or not of the weights' dtype, or a length is no int.
            ValueError: if `memory` is not `[batch, places, depth]`, has another depth than the one before, or a length
                does not fit it.
        """
        memory = as_tensor(memory, "memory")
        if not memory.is_floating_point():
            raise TypeError(f"{self.name}: memory must be floating point, but is {memory.dtype}")
        if memory.dim() != 3:
            raise ValueError(f"{self.name}: memory must be [batch, places, depth], but has shape {list(memory.shape)}")
        batch_size, places, depth = static_shape(memory)
        if places == 0:
            raise ValueError(f"{self.name}: memory has shape {list(memory.shape)}: there is no place to look at")
        lengths = None
        if memory_sequence_length is not None:
            lengths = _memory_lengths(memory_sequence_length, batch_size, places).to(memory.device)
        if self.memory_layer.input_size not in (None, depth):
            known = self.memory_layer.input_size
            raise ValueError(f"{self.name}: memory has depth {depth}, but the mechanism was built for {known}")
        ensure_built_for(self.memory_layer, depth, dtype=memory.dtype, device=memory.device)
        check_dtype(f"{self.name}: memory is", memory, self.memory_layer.kernel)
        mask = None
        if lengths is not None:
            mask = torch.arange(places, device=memory.device) < lengths[:, None]
            memory = torch.where(mask[:, :, None], memory, memory.new_zeros(()))
        # Not by assignment: a memory that is a parameter, a learned one, would become the mechanism's own.
        self._buffers.update(values=memory, keys=self.memory_layer(memory), mask=mask)

    def has_memory(self) -> bool:
        """Whether there is a memory to look at."""
        return self._buffers["values"] is not None

    def check_memory(self) -> None:
        """Raises `ValueError` if there is no memory to look at."""
        if not self.has_memory():
            raise ValueError(f"{self.name} has no memory: call setup_memory(memory, memory_sequence_length) first")

    @property
    def row_buffers(self) -> list[str]:
        """The buffers that have one row per row of the batch, by name."""
        return [name for name in ROW_BUFFERS if self._buffers[name] is not None]

    @property
    def batch_size(self) -> int:
        """The rows of the memory."""
        self.check_memory()
        return static_shape(self.values)[0]

    @property
    def alignments_size(self) -> int:
        """The places of the memory; -1, an unknown size, while there is none."""
        return static_shape(self.values)[1] if self.has_memory() else -1

    @property
    def memory_depth(self) -> int:
        """The depth of the memory; -1, an unknown size, before the first one."""
        depth = self.memory_layer.input_size
        return -1 if depth is None else depth

    # -- one look ----------------------------------------------------------------------------------------------------

    def __call__(self, query: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One look, building the mechanism first if it is new."""
        self.check_query(query)
        ensure_built_for(self, query.shape[1], dtype=query.dtype, device=query.device)
        return super().__call__(query, state)

    def forward(self, query: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The alignments `[batch, places]` for `query [batch, depth]`, and the next state, which they are as well."""
        score = self.score(query)
        mask = self.mask
        if mask is not None:
            masked = -math.inf if self.score_mask_value is None else self.score_mask_value
            score = torch.where(mask, score, score.new_full((), masked))
        alignments = self.probabilities(score, state)
        return alignments, alignments

    def score(self, query: Tensor) -> Tensor:
        """How well each place of the memory fits `query`: `[batch, places]`."""
        raise NotImplementedError(f"{type(self).__name__} must define score(query)")

    def probabilities(self, score: Tensor, state: Tensor) -> Tensor:
        """The alignments for such scores."""
        return torch.softmax(score, -1) if self.probability_fn is None else self.probability_fn(score)

    def check_query(self, query: Any) -> None:
        """Raises unless there is a memory and `query` is a matrix with a row for each of the memory's."""
        self.check_memory()
        if not isinstance(query, Tensor):
            raise TypeError(f"{self.name}: query must be one tensor, but is {describe(query)}")
        if query.dim() != 2:
            raise ValueError(f"{self.name}: query must be [batch, depth], but has shape {list(query.shape)}")
        if static_shape(query)[0] != static_shape(self.values)[0]:
            raise ValueError(
                f"{self.name}: Non-matching batch sizes: the memory has {self.values.shape[0]} rows, but the query "
                f"has {query.shape[0]}; call setup_memory for each batch, and for beams give it tile_batch(memory, "
                "beam_width)"
            )
        check_dtype(f"{self.name}: query is", query, self.memory_layer.kernel)

    # -- states ------------------------------------------------------------------------------------------------------

    @property
    def state_size(self) -> int:
        """The size of the state: what was looked at last."""
        return self.alignments_size

    def initial_alignments(self, batch_size: int, dtype: Any) -> Tensor:
        """The alignments before the first step: zeros."""
        self.check_memory()
        return torch.zeros(batch_size, self.alignments_size, dtype=as_dtype(dtype), device=self.values.device)

    def initial_state(self, batch_size: int, dtype: Any) -> Tensor:
        """The state before the first step: the initial alignments."""
        return self.initial_alignments(batch_size, dtype)

    # -- names, configuration, copies --------------------------------------------------------------------------------

    def variables(self) -> Iterator[tuple[str, Tensor]]:
        """The weights by TensorFlow's names: the memory layer in the scope around the mechanism, the others in its own.

        >>> from unspool.decode import BahdanauAttention
        >>> [name for name, _ in BahdanauAttention(4).variables()]
        ['memory_layer/kernel', 'bahdanau_attention/query_layer/kernel', 'bahdanau_attention/attention_v']
        """
        yield "memory_layer/kernel", self.memory_layer.kernel
        if self.query_layer is not None:
            yield f"{self.name}/query_layer/kernel", self.query_layer.kernel
        for name, weight in self.named_parameters(recurse=False):
            yield f"{self.name}/{name}", weight

    def get_config(self) -> dict[str, Any]:
        """The arguments that make another mechanism like this one, without its weights and its memory."""
        arguments = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in arguments if name not in ("memory", "memory_sequence_length")}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> AttentionMechanism:
        """A new mechanism from what `get_config` returned."""
        return cls(**config)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_buffers": {**self._buffers, **dict.fromkeys(ROW_BUFFERS)}}

    def __deepcopy__(self, memo: dict[int, Any]) -> AttentionMechanism:
        # The memory has a history that cannot be copied. Whoever says what is to stand for its tensors gets it.
        known = all(buffer is None or id(buffer) in memo for buffer in self._buffers.values())
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__setstate__(copy.deepcopy(self.__dict__ if known else self.__getstate__(), memo))
        return copied

    def extra_repr(self) -> str:
        """Its width, for `print`."""
        return f"num_units={self.num_units}"


def _memory_lengths(memory_sequence_length: Any, batch_size: int, places: int) -> Tensor:
    """The lengths of a memory as an int64 vector, each in [1, places]."""
    lengths = as_lengths(memory_sequence_length, "memory_sequence_length")
    (found,) = static_shape(lengths)
    if found != batch_size:
        raise ValueError(f"memory_sequence_length has {found} entries, but memory has a batch of {batch_size}")
    if lengths.device.type != "cpu" or not has_values(lengths):
        return lengths.clamp(1, places)
    wrong = ((lengths < 1) | (lengths > places)).nonzero()
    if len(wrong):
        row = int(wrong[0])
        length = int(lengths[row])
        bound = "must be greater than zero" if length < 1 else f"memory has only {places} places"
        raise ValueError(f"memory_sequence_length[{row}] is {length}, but {bound}")
    return lengths
