"""Draws from a categorical distribution: by temperature, among the likeliest, from a generator."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Uniform:
    """Numbers drawn uniformly from [0, 1): by torch's own generator, a given one, or one that a seed begins.

    >>> one, other = Uniform(seed=1), Uniform(generator=torch.Generator().manual_seed(1))
    >>> like = torch.zeros(3)
    >>> torch.equal(one(2, like), other(2, like))
    True
    """

    def __init__(self, seed: Any = None, generator: torch.Generator | None = None, *, seed_name: str = "seed") -> None:
        if generator is not None and not isinstance(generator, torch.Generator):  # pyright: ignore
            raise TypeError(f"generator must be a torch.Generator, but is {generator!r}")
        if seed is not None and generator is not None:
            raise ValueError(f"{seed_name} and generator exclude each other: both say what is drawn")
        if seed is not None:
            try:
                generator = torch.Generator().manual_seed(operator.index(seed))
            except TypeError:
                raise TypeError(f"{seed_name} must be an int, but is {seed!r}") from None
        self._generator = generator

    def __call__(self, count: int, like: Tensor) -> Tensor:
        """`count` numbers, where `like` is. A generator draws where it is itself: the same numbers for any device."""
        dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
        if self._generator is None:
            return torch.rand(count, dtype=dtype, device=like.device)
        drawn = torch.rand(count, dtype=dtype, device=self._generator.device, generator=self._generator)
        return drawn.to(like.device)


class Sampling:
    """How an id is drawn from logits: from the softmax of `logits / temperature`, among the likeliest ids alone.

    Args:
        temperature: above 0; None is 1.
        top_k: only that many of the likeliest ids are drawn.
        top_p: of these, only the likeliest that together have this probability, at least one ("nucleus sampling",
            Holtzman et al., 2019).

    >>> sampling = Sampling(top_k=1)
    >>> sampling(torch.tensor([[0.0, 2.0, 1.0]]), Uniform(seed=0))
    tensor([1], dtype=torch.int32)
    """

    def __init__(self, temperature: Any = None, top_k: int | None = None, top_p: float | None = None) -> None:
        self.temperature = None if temperature is None else _as_number(temperature, "softmax_temperature")
        self.top_p = None if top_p is None else _as_number(top_p, "top_p")
        try:
            self.top_k = None if top_k is None else operator.index(top_k)
        except TypeError:
            raise TypeError(f"top_k must be an int, but is {top_k!r}") from None
        if self.temperature is not None and not self.temperature > 0:
            hint = "; for the likeliest id there is GreedyEmbeddingHelper"
            raise ValueError(f"softmax_temperature must be above 0, but is {self.temperature}{hint}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, but is {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, but is {self.top_p}")

    @torch.no_grad()
    def __call__(self, logits: Tensor, uniform: Callable[[int, Tensor], Tensor]) -> Tensor:
        """An id for each row of `logits [batch, ids]`, int32; `uniform` draws a number for each."""
        probabilities, ids = self.probabilities(logits)
        chosen = choose(probabilities, uniform(len(logits), probabilities))
        return (chosen if ids is None else ids.gather(-1, chosen[:, None])[:, 0]).int()

    def probabilities(self, logits: Tensor) -> tuple[Tensor, Tensor | None]:
        """What is drawn with which probability, up to a factor: of `ids`, or of all in order where that is None.

        An id that is excluded has probability 0 or is not among them.
        """
        if self.temperature is not None:
            logits = logits / self.temperature
        # Half precision holds too few numbers to add up many probabilities.
        logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
        ids = None
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            logits, ids = logits.topk(self.top_k)
        if self.top_p is None or self.top_p == 1:
            return logits.softmax(-1), ids
        if ids is None:
            logits, ids = logits.sort(-1, descending=True)
        probabilities = logits.softmax(-1)
        likelier = probabilities.cumsum(-1) - probabilities  # than each, all together
        return probabilities.masked_fill(likelier >= self.top_p, 0), ids


def choose(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """For each row, the index at which the sum of `probabilities [batch, n]` passes the row's number in [0, 1).

    It needs one number a row, where a race of all `n` needs as many as there are. The probabilities need not add up to
    1. An index of probability 0 is never chosen.

    >>> choose(torch.tensor([[0.5, 0.0, 0.5]] * 3), torch.tensor([0.0, 0.5, 0.9]))
    tensor([0, 2, 2])
    """
    return first_passed(probabilities.cumsum(-1), probabilities, uniform)


def first_passed(sums: Tensor, probabilities: Tensor, uniform: Tensor) -> Tensor:
    """`choose`, with the sums up to each index given."""
    # On a GPU, sums are added in another order for each index: they may rise, by rounding, where nothing is added.
    passed = (sums > uniform[:, None] * sums[:, -1:]) & (probabilities > 0)
    # A number next to 1 may be rounded to 1 and be passed by none.
    return torch.where(passed.any(-1), passed.int().argmax(-1), probabilities.argmax(-1))


def _as_number(value: Any, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be a number, but is {value!r}") from None
