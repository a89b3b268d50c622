"""Conditional random fields by hand: all sequences of tags, one by one."""

from __future__ import annotations

import itertools

import numpy as np


def sequences(length: int, tags: int) -> list[tuple[int, ...]]:
    """All sequences of tags."""
    return list(itertools.product(range(tags), repeat=length))


def score(potentials: np.ndarray, transitions: np.ndarray, chosen: tuple[int, ...]) -> float:
    """The score of a sequence of tags for one row."""
    unary = sum(potentials[t, tag] for t, tag in enumerate(chosen))
    return unary + sum(transitions[a, b] for a, b in itertools.pairwise(chosen))


def log_norm(potentials: np.ndarray, transitions: np.ndarray, length: int, allowed: np.ndarray | None = None) -> float:
    """The logarithm of the summed scores of all sequences of that length, or of those that are allowed."""
    if not length:
        return 0.0
    every = [
        score(potentials, transitions, chosen)
        for chosen in sequences(length, potentials.shape[1])
        if allowed is None or all(allowed[t, tag] for t, tag in enumerate(chosen))
    ]
    return float(np.log(np.exp(every).sum()))


def best(potentials: np.ndarray, transitions: np.ndarray, length: int) -> tuple[tuple[int, ...], float]:
    """The sequence of the highest score, and that."""
    every = {chosen: score(potentials, transitions, chosen) for chosen in sequences(length, potentials.shape[1])}
    found = max(every, key=lambda chosen: every[chosen])
    return found, every[found]
