"""Attention that only ever moves forwards."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from unspool.decode.attention.bahdanau import BahdanauAttention
from unspool.decode.attention.luong import LuongAttention
from unspool.decode.attention.mechanism import AttentionMechanism
from unspool.decode.attention.recurrence import check_mode, monotonic_attention
from unspool.flags import checks_flags


class MonotonicAttention(AttentionMechanism):
    """What makes a mechanism monotonic (Raffel et al., 2017): scores are odds of stopping at a place.

        chosen     = sigmoid(score + attention_score_bias + noise)      # "hard": whether that is above 0
        alignments = monotonic_attention(chosen, previous alignments, mode)

    The noise, normal with deviation `sigmoid_noise`, teaches the scores to be far from 0. Like torch's own dropout it
    is there in training only: in `eval()` mode there is none. To decode with hard choices a model that was trained
    with soft ones, set `mechanism.mode = "hard"`.

    The alignments need not sum to 1: an attention may move off the end of its memory.
    """

    attention_score_bias: Tensor
    _generator: torch.Generator | None

    def begin_monotonic(
        self, sigmoid_noise: float, sigmoid_noise_seed: int | torch.Generator | None, score_bias_init: float, mode: str
    ) -> None:
        """Checks and keeps the arguments that monotonic mechanisms share, and declares their weight."""
        if sigmoid_noise < 0:
            raise ValueError(f"sigmoid_noise must not be negative, but is {sigmoid_noise}")
        self.sigmoid_noise = sigmoid_noise
        self.sigmoid_noise_seed = sigmoid_noise_seed
        self.score_bias_init = score_bias_init
        self.mode = check_mode(mode)
        if sigmoid_noise_seed is None or isinstance(sigmoid_noise_seed, torch.Generator):
            self._generator = sigmoid_noise_seed
        else:
            self._generator = torch.Generator().manual_seed(sigmoid_noise_seed)
        self.declare_weights("attention_score_bias")

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the weights of the mechanism, and the bias of its scores."""
        super().build(input_size, **where)
        self.add_weight("attention_score_bias", (), partial(nn.init.constant_, val=self.score_bias_init), **where)

    def score(self, query: Tensor) -> Tensor:
        """The score of the mechanism, and the bias."""
        return super().score(query) + self.attention_score_bias

    def probabilities(self, score: Tensor, state: Tensor) -> Tensor:
        """Where the attention goes from where it was."""
        if self.training and self.sigmoid_noise > 0:
            score = score + self.sigmoid_noise * self._noise(score)
        chosen = (score > 0).to(score.dtype) if self.mode == "hard" else torch.sigmoid(score)
        return monotonic_attention(chosen, state, self.mode)

    def _noise(self, like: Tensor) -> Tensor:
        if self._generator is None:
            return torch.randn_like(like)
        # A seed draws the same numbers on every device.
        place = self._generator.device
        return torch.randn(like.shape, dtype=like.dtype, device=place, generator=self._generator).to(like.device)

    def initial_alignments(self, batch_size: int, dtype: Any) -> Tensor:
        """The alignments before the first step: all at place 0."""
        alignments = super().initial_alignments(batch_size, dtype)
        alignments[:, 0] = 1
        return alignments


class BahdanauMonotonicAttention(MonotonicAttention, BahdanauAttention):
    """`BahdanauAttention` that only ever moves forwards (Raffel et al., 2017).

        score      = BahdanauAttention's + attention_score_bias
        alignments = monotonic_attention(sigmoid(score), previous alignments, mode)

    Args:
        num_units: the width N of keys and queries.
        memory: `[batch, places, depth]`; None to give it later, by `setup_memory`.
        memory_sequence_length: the length of each row of the memory, ints in [1, places]; None for full length.
        normalize: whether to normalise the scores, as `BahdanauAttention` does.
        score_mask_value: the score of places past the length; minus infinity by default.
        sigmoid_noise: the deviation of what is added to the scores in training, to make the choices sharp.
        sigmoid_noise_seed: a seed or a `torch.Generator` for the noise; None for torch's own.
        score_bias_init: the initial `attention_score_bias`; below 0 lets the attention move faster at first.
        mode: "parallel", "recursive" or "hard"; see `monotonic_attention`. It may be changed.
        dtype: the dtype of the weights; by default that of the memory.
        name: the name above its variables in TensorFlow.

    Weights: those of `BahdanauAttention`, and `attention_score_bias []`.

    >>> mechanism = BahdanauMonotonicAttention(4, memory=torch.randn(2, 3, 5), mode="hard")
    >>> before = mechanism.initial_state(2, torch.float32)
    >>> alignments, _ = mechanism(torch.randn(2, 6), before)
    >>> before[0], bool(((alignments == 0) | (alignments == 1)).all())
    (tensor([1., 0., 0.]), True)
    """

    @checks_flags
    def __init__(
        self,
        num_units: int,
        memory: Any = None,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        score_mask_value: float | None = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | torch.Generator | None = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            num_units, memory, memory_sequence_length, normalize, None, score_mask_value, dtype=dtype, name=name
        )
        self.begin_monotonic(sigmoid_noise, sigmoid_noise_seed, score_bias_init, mode)


class LuongMonotonicAttention(MonotonicAttention, LuongAttention):
    """`LuongAttention` that only ever moves forwards (Raffel et al., 2017).

        score      = LuongAttention's + attention_score_bias
        alignments = monotonic_attention(sigmoid(score), previous alignments, mode)

    Args:
        num_units: the width N of the keys, which must be that of the queries.
        memory: `[batch, places, depth]`; None to give it later, by `setup_memory`.
        memory_sequence_length: the length of each row of the memory, ints in [1, places]; None for full length.
        scale: whether to scale the scores by a weight.
        score_mask_value: the score of places past the length; minus infinity by default.
        sigmoid_noise: the deviation of what is added to the scores in training, to make the choices sharp.
        sigmoid_noise_seed: a seed or a `torch.Generator` for the noise; None for torch's own.
        score_bias_init: the initial `attention_score_bias`; below 0 lets the attention move faster at first.
        mode: "parallel", "recursive" or "hard"; see `monotonic_attention`. It may be changed.
        dtype: the dtype of the weights; by default that of the memory.
        name: the name above its variables in TensorFlow.

    Weights: those of `LuongAttention`, and `attention_score_bias []`.

    >>> mechanism = LuongMonotonicAttention(4, memory=torch.randn(2, 3, 5), mode="recursive")
    >>> alignments, _ = mechanism(torch.zeros(2, 4), mechanism.initial_state(2, torch.float32))
    >>> alignments[0]
    tensor([0.5000, 0.2500, 0.1250], grad_fn=<SelectBackward0>)
    """

    @checks_flags
    def __init__(
        self,
        num_units: int,
        memory: Any = None,
        memory_sequence_length: Any = None,
        scale: bool = False,
        score_mask_value: float | None = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | torch.Generator | None = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            num_units, memory, memory_sequence_length, scale, None, score_mask_value, dtype=dtype, name=name
        )
        self.begin_monotonic(sigmoid_noise, sigmoid_noise_seed, score_bias_init, mode)
