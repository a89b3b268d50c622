"""The step of a beam search that TensorFlow's tests are about: two rows, five tokens."""

from __future__ import annotations

import torch

from unspool.decode import BeamSearchDecoderState
from unspool.decode.penalties import Penalties

BATCH, VOCABULARY, END = 2, 5, 0
PENALTIES = Penalties(length_weight=0.6)


def logits_of(width, likely):
    """Nearly zero, except for those of `likely`: `(row, beam, token)` to a logit."""
    logits = torch.full((BATCH, width, VOCABULARY), 0.0001)
    for place, logit in likely.items():
        logits[place] = logit
    return logits


def state_of(lengths, finished, log_probs=None):
    """A search with these beams; they are equally probable unless `log_probs` says otherwise."""
    lengths, finished = torch.tensor(lengths), torch.tensor(finished)
    if log_probs is None:
        log_probs = torch.log_softmax(torch.ones(lengths.shape), -1)
    return BeamSearchDecoderState(torch.zeros(lengths.shape), log_probs, finished, lengths)
