"""How a beam search compares sequences of different lengths: the penalties of Wu et al. (2016), arXiv:1609.08144."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unspool.structure import Structure, children, is_leaf

_ATTENTION_FIELDS = ("cell_state", "attention", "time", "alignments", "alignment_history", "attention_state")


@dataclass(frozen=True)
class Penalties:
    """`score = log_prob / ((5 + length) / 6) ** length_weight + coverage_weight * coverage`.

    >>> Penalties(length_weight=1.0).divided(torch.tensor([-2.0, -2.0]), torch.tensor([1, 7]))
    tensor([-2., -1.])
    """

    length_weight: float = 0.0
    coverage_weight: float = 0.0

    def divided(self, log_probs: Tensor, lengths: Tensor) -> Tensor:
        """`log_probs` divided by the length penalty of `lengths`, which is larger for longer sequences."""
        if self.length_weight == 0:
            return log_probs
        return log_probs / ((5 + lengths.to(log_probs.dtype)) / 6) ** self.length_weight

    def coverage(self, attended: Structure) -> Tensor | float:
        """What is added to the score of sequences that have `attended`, `[..., memory]`, to each part of the memory."""
        return 0.0 if self.coverage_weight == 0 else self.coverage_weight * coverage(attended)


def coverage(attended: Tensor) -> Tensor:
    """`sum(log(min(attended, 1)))` over the memory. What was never attended to, padding above all, does not count.

    >>> coverage(torch.tensor([[1.5, 1.0, 0.0], [0.5, 0.5, 0.0]]))
    tensor([ 0.0000, -1.3863])
    """
    return torch.where(attended == 0, 1, attended).clamp(max=1).log().sum(-1)


def attention_probs(cell_state: Structure) -> Tensor | None:
    """The alignments in the state of a cell with attention, their mean if there are several; None if there are none."""
    found = [alignments for state in _attention_states(cell_state) for alignments in _alignments(state)]
    if len(found) < 2:
        return found[0] if found else None
    return torch.stack(found).mean(0)


def _attention_states(state: Structure) -> Iterator[Any]:
    if all(hasattr(state, field) for field in _ATTENTION_FIELDS):
        yield state
    elif not is_leaf(state):
        for child in children(state).values():
            yield from _attention_states(child)


def _alignments(state: Any) -> list[Tensor]:
    several: Any = state.alignments
    if isinstance(several, Tensor):
        return [several]
    # Each mechanism counts as much as another: their mean is one distribution over the memory they share.
    return [torch.stack(list(several)).mean(0)] if len(several) > 1 else list(several)
