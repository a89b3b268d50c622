"""What a program hands to whoever runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Generator = np.random.Generator


@dataclass(frozen=True)
class Program:
    """A graph that was built, and how to run it.

    `placeholders` are the tensors to feed, `feeds` draws values for them, under the same names. `fetches` holds
    what to compute, `"loss"` among it; a value may be a tuple, such as the state of an LSTM. `train` is the operation
    of one training step.

    `by_hand(variables, feeds)` computes the same fetches with NumPy. Variables are named as TensorFlow names them,
    without the `:0`.

    `use(session, feeds)` is what the program does with its graph besides, once it was trained: what it returns is
    compared too.
    """

    placeholders: dict[str, Any]
    feeds: Callable[[Generator], Arrays]
    fetches: dict[str, Any]
    train: Any
    by_hand: Callable[[Arrays, Arrays], dict[str, Any]]
    use: Callable[[Any, Arrays], dict[str, Any]] | None = None


Build = Callable[[Any], Program]
"""Builds a program in the default graph of `tf`: `unspool.tf1`, or `tensorflow.compat.v1`."""


def normal(rng: Generator, *shape: int) -> np.ndarray:
    """Normal float32 numbers."""
    return rng.normal(size=shape).astype(np.float32)
