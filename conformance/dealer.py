"""Random choices that leave nothing out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def _anything(option: Any) -> bool:
    return True


class Dealer:
    """Deals options like cards: every option of a deck comes up once before any of them comes up again.

    >>> dealer = Dealer(seed=0)
    >>> sorted(dealer.deal("dtype", ["float32", "float64"]) for _ in range(4))
    ['float32', 'float32', 'float64', 'float64']
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self._decks: dict[str, list[Any]] = {}

    def deal(self, deck: str, options: Sequence[Any], fits: Callable[[Any], bool] = _anything) -> Any:
        """The next card of a deck that fits; those that do not fit stay for later."""
        cards = self._decks.setdefault(deck, [])
        if not any(map(fits, cards)):
            cards.extend(options[k] for k in self.rng.permutation(len(options)))
        for k, card in enumerate(cards):
            if fits(card):
                return cards.pop(k)
        raise ValueError(f"no option of {deck} fits: {options}")

    def one_in(self, n: int, what: str) -> bool:
        """True once in n times."""
        return self.deal(what, [True] + [False] * (n - 1))

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return int(self.rng.integers(low, high + 1))
