"""Additive attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.layer import glorot_uniform
from unspool.cells.like import ensure_built_for
from unspool.decode.attention.dense import Dense
from unspool.decode.attention.mechanism import AttentionMechanism
from unspool.flags import checks_flags


class BahdanauAttention(AttentionMechanism):
    """Additive attention (Bahdanau et al., 2015): `score = sum(attention_v * tanh(keys + query_layer(query)))`.

    Normalised (Salimans and Kingma, 2016), `attention_v` has the length `attention_g`, and there is a bias:

        score = sum(attention_g * attention_v / |attention_v| * tanh(keys + query_layer(query) + attention_b))

    Args:
        num_units: the width N of keys and queries.
        memory: `[batch, places, depth]`; None to give it later, by `setup_memory`.
        memory_sequence_length: the length of each row of the memory, ints in [1, places]; None for full length.
        normalize: whether to normalise.
        probability_fn: takes the scores `[batch, places]` to the alignments; softmax by default.
        score_mask_value: the score of places past the length; minus infinity by default.
        dtype: the dtype of the weights; by default that of the memory.
        name: the name above its variables in TensorFlow.

    Weights: `memory_layer.kernel [D, N]`, `query_layer.kernel [Q, N]`, `attention_v [N]`, and with `normalize`
    `attention_g []` and `attention_b [N]`.

    >>> mechanism = BahdanauAttention(4, memory=torch.randn(2, 3, 5), memory_sequence_length=[3, 1])
    >>> alignments, state = mechanism(torch.randn(2, 6), mechanism.initial_state(2, torch.float32))
    >>> alignments.shape, alignments[1]
    (torch.Size([2, 3]), tensor([1., 0., 0.], grad_fn=<SelectBackward0>))
    """

    attention_v: Tensor
    attention_g: Tensor
    attention_b: Tensor

    @checks_flags
    def __init__(
        self,
        num_units: int,
        memory: Any = None,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: Callable[[Tensor], Tensor] | None = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            num_units, memory, memory_sequence_length, probability_fn, score_mask_value, dtype=dtype, name=name
        )
        self.normalize = normalize
        self.query_layer = Dense(self.num_units, self.weight_dtype)
        self.declare_weights("attention_v", *(("attention_g", "attention_b") if normalize else ()))

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the weights for queries `[batch, input_size]`."""
        ensure_built_for(self.query_layer, input_size, **where)
        self.add_weight("attention_v", (self.num_units,), glorot_uniform, **where)
        if self.normalize:
            length = partial(nn.init.constant_, val=math.sqrt(1 / self.num_units))
            self.add_weight("attention_g", (), length, **where)
            self.add_weight("attention_b", (self.num_units,), nn.init.zeros_, **where)

    def score(self, query: Tensor) -> Tensor:
        """The sum over the units."""
        query, direction = self.query_layer(query), self.attention_v
        if self.normalize:
            direction = self.attention_g * direction * torch.rsqrt(direction.square().sum())
            query = query + self.attention_b
        return (direction * torch.tanh(self.keys + query[:, None])).sum(-1)
