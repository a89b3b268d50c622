"""What the cells of the gallery share: checks of their arguments, and a fill where a paper leaves one open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from unspool.cells.layer import glorot_uniform


def check_above(name: str, value: Any, bound: float = 0.0) -> float:
    """`value` as a float; raises `ValueError` unless it is a number greater than `bound`."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number greater than {bound:g}, but is {value!r}") from None
    if not number > bound:
        raise ValueError(f"{name} must be greater than {bound:g}, but is {number:g}")
    return number


def check_between(name: str, value: Any, low: float, high: float) -> float:
    """`value` as a float; raises `ValueError` unless it is a number from `low` to `high`."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}, but is {value!r}") from None
    if not low <= number <= high:
        raise ValueError(f"{name} must be from {low:g} to {high:g}, but is {number:g}")
    return number


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """`value` if it is one of `choices`; a `ValueError` that lists them otherwise."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, but is {value!r}")
    return value


def glorot(*layers: nn.Linear) -> None:
    """Fills weights by Glorot's uniform and biases with zeros."""
    for layer in layers:
        glorot_uniform(layer.weight)
        if layer.bias is not None:  # pyright: ignore[reportUnnecessaryComparison]: torch's annotation forgets bias=False
            nn.init.zeros_(layer.bias)
