"""The best sequences of a beam search, with their scores."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unspool.decode.beam_step import BeamSearchDecoderState, exists
from unspool.decode.penalties import Penalties
from unspool.decode.tiling import take_beams


class NBest(NamedTuple):
    """The N best sequences of each row, best first: `predicted_ids[row, n, :lengths[row, n]]` has the score
    `scores[row, n]`.

    A row that has fewer than N sequences has the score -inf and the length 0 for the others.

    >>> ids, scores = torch.tensor([[[4, 1], [1, 1]]]), torch.tensor([[-0.5, -1.5]])
    >>> best = NBest(ids, scores, log_probs=scores, lengths=torch.tensor([[2, 1]]), beams=torch.tensor([[1, 0]]))
    >>> best.predicted_ids[0, 1, : best.lengths[0, 1]]
    tensor([1])
    """

    predicted_ids: Tensor
    """The tokens, `[batch, n, time]`; past the end of a sequence, the end token."""
    scores: Tensor
    """`log_probs` under the penalties, `[batch, n]`."""
    log_probs: Tensor
    """The log-probability of each sequence, `[batch, n]`."""
    lengths: Tensor
    """How many tokens it has, the end token included, `[batch, n]`."""
    beams: Tensor
    """Which beam of the final state it is, `[batch, n]`."""


def n_best(
    predicted_ids: Tensor, state: BeamSearchDecoderState, count: int, end_token: int, penalties: Penalties
) -> NBest:
    """The `count` best sequences of each row, from the ids of all, `[time, batch, beam]`, and the final state."""
    is_sequence = exists(state.log_probs)
    log_probs = torch.where(is_sequence, state.log_probs, float("-inf"))
    scores = penalties.divided(log_probs, state.lengths) + penalties.coverage(state.accumulated_attention_probs)
    # A step scores an end token without its length and a running beam without its coverage, so the order may change.
    beams = scores.sort(dim=1, descending=True, stable=True).indices[:, :count]
    lengths = torch.where(is_sequence, state.lengths, 0)
    ids = torch.where(is_sequence.unsqueeze(2), predicted_ids.permute(1, 2, 0), end_token)
    ids, scores, log_probs, lengths = (take_beams(leaf, beams) for leaf in (ids, scores, log_probs, lengths))
    return NBest(ids, scores, log_probs, lengths, beams)
