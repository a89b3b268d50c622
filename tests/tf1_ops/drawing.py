"""What the files of drawn calls share: shapes, numbers and places drawn at random, now and then wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.tf1_ops.call import Call

Generator = np.random.Generator
Draw = Callable[[Generator], Call]


def flag(rng: Generator) -> bool:
    return bool(rng.integers(2))


def seldom(rng: Generator) -> bool:
    """Whether something is to be wrong, or out of the ordinary."""
    return bool(rng.random() < 0.12)


def one_of(rng: Generator, choices: Sequence[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def sizes(rng: Generator, least: int = 0, most: int = 3) -> tuple[int, ...]:
    """A shape of so many axes; seldom one of them is empty."""
    found = [int(each) for each in rng.integers(1, 5, rng.integers(least, most + 1))]
    if found and rng.random() < 0.06:
        found[int(rng.integers(len(found)))] = 0
    return tuple(found)


def floats(rng: Generator, shape: Sequence[int]) -> np.ndarray:
    return np.asarray(rng.normal(size=tuple(shape))).astype(np.float32)


def numbers(rng: Generator, shape: Sequence[int], dtypes: str = "ffffdil") -> np.ndarray:
    """Fractions or whole numbers, mostly float32; small ones, so that whole numbers come twice."""
    kind = one_of(rng, dtypes)
    if kind in "fd":
        return np.asarray(rng.normal(size=tuple(shape))).astype(kind)
    return np.asarray(rng.integers(-4, 5, tuple(shape))).astype({"i": np.int32, "l": np.int64}[kind])


def axis_of(rng: Generator, rank: int) -> int:
    """An axis, counted from either end; seldom one that is not there."""
    if seldom(rng) or not rank:
        return one_of(rng, [rank, -rank - 1])
    return int(rng.integers(-rank, rank))


def places(rng: Generator, shape: Sequence[int], size: int) -> np.ndarray:
    """Indices below a size; seldom one that is not."""
    found = np.asarray(rng.integers(0, max(size, 1), tuple(shape))).astype(one_of(rng, [np.int32, np.int64]))
    if found.size and seldom(rng):
        found.reshape(-1)[int(rng.integers(found.size))] = one_of(rng, [size, -1])
    return found


def another(rng: Generator, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape; seldom another."""
    if not seldom(rng):
        return tuple(shape)
    changed = [*shape] if flag(rng) else [*shape, 2]
    if changed:
        changed[int(rng.integers(len(changed)))] += 1
    return tuple(changed)
