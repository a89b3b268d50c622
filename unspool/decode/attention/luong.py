"""Multiplicative attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from unspool.decode.attention.mechanism import AttentionMechanism
from unspool.flags import checks_flags


class LuongAttention(AttentionMechanism):
    """Multiplicative attention (Luong et al., 2015): `score = sum(keys * query)`, times `attention_g` if scaled.

    Args:
        num_units: the width N of the keys, which must be that of the queries.
        memory: `[batch, places, depth]`; None to give it later, by `setup_memory`.
        memory_sequence_length: the length of each row of the memory, ints in [1, places]; None for full length.
        scale: whether to scale the scores by a weight.
        probability_fn: takes the scores `[batch, places]` to the alignments; softmax by default.
        score_mask_value: the score of places past the length; minus infinity by default.
        dtype: the dtype of the weights; by default that of the memory.
        name: the name above its variables in TensorFlow.

    Weights: `memory_layer.kernel [D, N]`, and with `scale` `attention_g []`.

    >>> mechanism = LuongAttention(4, memory=torch.randn(2, 3, 5), memory_sequence_length=[3, 1])
    >>> alignments, state = mechanism(torch.randn(2, 4), mechanism.initial_state(2, torch.float32))
    >>> alignments.shape, alignments[1]
    (torch.Size([2, 3]), tensor([1., 0., 0.], grad_fn=<SelectBackward0>))
    """

    attention_g: Tensor

    @checks_flags
    def __init__(
        self,
        num_units: int,
        memory: Any = None,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: Callable[[Tensor], Tensor] | None = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            num_units, memory, memory_sequence_length, probability_fn, score_mask_value, dtype=dtype, name=name
        )
        self.scale = scale
        if scale:
            self.declare_weights("attention_g")

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the weights; queries must have the width of the keys."""
        self._check_depth(input_size)
        if self.scale:
            self.add_weight("attention_g", (), nn.init.ones_, **where)

    def check_query(self, query: Any) -> None:
        """Raises unless `query` is a matrix with a row for each of the memory's, as wide as the keys."""
        super().check_query(query)
        self._check_depth(query.shape[1])

    def _check_depth(self, depth: Any) -> None:
        if depth != self.num_units:
            raise ValueError(
                f"{self.name}: the query has depth {depth}, but the keys have {self.num_units}; num_units must be the "
                "width of the cell's output"
            )

    def score(self, query: Tensor) -> Tensor:
        """The product of query and keys."""
        score = torch.bmm(self.keys, query[:, :, None]).squeeze(-1)
        return self.attention_g * score if self.scale else score
