"""One step of beam search: every beam of a row is continued by every token, and the best of these are kept."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unspool.decode.penalties import Penalties, attention_probs
from unspool.decode.tiling import take_beams
from unspool.structure import Structure, map_structure
from unspool.tracers import has_values


class BeamSearchDecoderState(NamedTuple):
    """Where a beam search is: for each row, its beams, best first.

    >>> BeamSearchDecoderState(cell_state=torch.zeros(1, 2, 4), log_probs=torch.tensor([[-1.0, -2.0]]),
    ...                        finished=torch.tensor([[True, False]]), lengths=torch.tensor([[2, 3]])).lengths
    tensor([[2, 3]])
    """

    cell_state: Structure
    """The state of the cell, each tensor `[batch, beam, ...]`."""
    log_probs: Tensor
    """The log-probability of each sequence, `[batch, beam]`: a sum, without any penalty."""
    finished: Tensor
    """Whether it has ended, `[batch, beam]`."""
    lengths: Tensor
    """How many tokens it has, the end token included, `[batch, beam]`, int64."""
    accumulated_attention_probs: Structure = ()
    """What it has attended to, `[batch, beam, memory]`; an empty tuple without a coverage penalty."""


class BeamSearchDecoderOutput(NamedTuple):
    """What one step of a beam search puts out, best first.

    >>> BeamSearchDecoderOutput(scores=torch.tensor([[-0.5]]), predicted_ids=torch.tensor([[7]]),
    ...                         parent_ids=torch.tensor([[0]])).predicted_ids
    tensor([[7]])
    """

    scores: Tensor
    """The score the step chose each beam by, `[batch, beam]`."""
    predicted_ids: Tensor
    """Its token, `[batch, beam]`, int32."""
    parent_ids: Tensor
    """The beam of the step before that it continues, `[batch, beam]`, int32."""


def beam_search_step(
    logits: Tensor, cell_state: Structure, state: BeamSearchDecoderState, end_token: int, penalties: Penalties
) -> tuple[BeamSearchDecoderOutput, BeamSearchDecoderState]:
    """The best continuations of each row's beams, by the rule of TensorFlow.

    A beam that is finished has one continuation, itself. The length that a continuation is scored with does not count
    an end token which it adds, but the length it has from then on does: the score of a beam changes once more at the
    step after it has ended. Coverage counts for beams that were finished before the step.

    Args:
        logits: of the next token, `[batch, beam, vocabulary]`.
        cell_state: the state of the cell after the step, each tensor `[batch, beam, ...]`.
        state: the search before the step.
        end_token: the token that ends a sequence.
        penalties: how sequences are compared.
    """
    width, vocabulary = logits.shape[1:]
    running = ~state.finished
    step_log_probs = torch.log_softmax(logits, -1, dtype=state.log_probs.dtype)
    log_probs = state.log_probs.unsqueeze(2) + mask_finished(step_log_probs, state.finished, end_token)
    attended: Structure = ()
    if penalties.coverage_weight:
        probs = attention_probs(cell_state)
        assert probs is not None  # the decoder does not begin without
        attended = state.accumulated_attention_probs + probs.to(log_probs.dtype) * running.unsqueeze(2)

    scores = log_probs
    if penalties.length_weight:
        scores = penalties.divided(log_probs, (state.lengths + running).unsqueeze(2))
        scores[..., end_token] = penalties.divided(log_probs[..., end_token], state.lengths)
    if penalties.coverage_weight:
        scores = scores + (penalties.coverage(attended) * state.finished).unsqueeze(2)

    chosen = best_candidates(scores.flatten(1), width)
    parents, tokens = chosen // vocabulary, chosen % vocabulary
    was_finished = state.finished.gather(1, parents)
    next_state = BeamSearchDecoderState(
        cell_state=map_structure(lambda leaf: take_beams(leaf, parents), cell_state),
        log_probs=log_probs.flatten(1).gather(1, chosen),
        finished=was_finished | (tokens == end_token),
        lengths=state.lengths.gather(1, parents) + ~was_finished,
        accumulated_attention_probs=map_structure(lambda leaf: take_beams(leaf, parents), attended),
    )
    output = BeamSearchDecoderOutput(scores.flatten(1).gather(1, chosen), tokens.int(), parents.int())
    return output, next_state


def mask_finished(log_probs: Tensor, finished: Tensor, end_token: int) -> Tensor:
    """`log_probs`, but a finished beam goes on with the end token, at no cost, and with nothing else.

    The others have the least finite number: TensorFlow's choice. Where a row has fewer sequences than beams, it makes
    beams that are copies of finished ones; `exists` tells them from sequences.

    >>> mask_finished(torch.tensor([[[-1.0, -2.0], [-1.0, -2.0]]]), torch.tensor([[False, True]]), end_token=1)
    tensor([[[-1.0000e+00, -2.0000e+00],
             [-3.4028e+38,  0.0000e+00]]])
    """
    only_end = log_probs.new_full(log_probs.shape[-1:], torch.finfo(log_probs.dtype).min)
    only_end[end_token] = 0
    return torch.where(finished.unsqueeze(2), only_end, log_probs)


def exists(log_probs: Tensor) -> Tensor:
    """Whether a beam is a sequence, and not there because a row has fewer sequences than beams."""
    return log_probs > torch.finfo(log_probs.dtype).min / 2


def best_candidates(scores: Tensor, count: int) -> Tensor:
    """The indices of the `count` best of each row of `scores`, best first; of equals, those that come first.

    `torch.topk` finds the best values, but which of several equals it names is its own choice.

    >>> best_candidates(torch.tensor([[0.0, 2.0, 1.0, 2.0, 1.0]]), 3)
    tensor([[1, 3, 2]])
    """
    candidates = scores.shape[1]
    best = scores.topk(min(count + 1, candidates))
    least = best.values[:, count - 1, None]
    # Without equals on the border the set is right. A look at it is cheap, except at a GPU that is to run ahead.
    if scores.device.type == "cpu" and has_values(scores) and not bool((best.values[:, count:] == least).any()):
        chosen = best.indices[:, :count].sort(1).values
    else:
        above, level = scores > least, scores == least
        room = count - above.sum(1, keepdim=True)
        taken = above | (level & (level.cumsum(1) <= room))
        backwards = torch.arange(candidates, 0, -1, device=scores.device)
        chosen = torch.where(taken, backwards, 0).topk(count).indices
    order = scores.gather(1, chosen).sort(dim=1, descending=True, stable=True).indices
    return chosen.gather(1, order)
