"""Checks of what cells of the gallery are made with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unspool.cells.layer import check_units


def check_sizes(input_size: Any, num_units: Any) -> tuple[int, int]:
    """The widths of inputs and state as ints; raises unless both are positive whole numbers."""
    return check_units("input_size", input_size), check_units("num_units", num_units)


def check_between(name: str, value: Any, low: float, high: float) -> float:
    """`value` as a float; raises `ValueError` unless it is a number from `low` to `high`.

    >>> check_between("zoneout", 1.5, 0, 1)
    Traceback (most recent call last):
    ValueError: zoneout must be from 0 to 1, but is 1.5
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}, but is {value!r}") from None
    if not low <= number <= high:
        raise ValueError(f"{name} must be from {low:g} to {high:g}, but is {number:g}")
    return number


def check_above(name: str, value: Any, bound: float = 0.0) -> float:
    """`value` as a float; raises `ValueError` unless it is a number greater than `bound`."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number greater than {bound:g}, but is {value!r}") from None
    if not number > bound:
        raise ValueError(f"{name} must be greater than {bound:g}, but is {number:g}")
    return number


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """`value` if it is one of `choices`; a `ValueError` that lists them otherwise."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, but is {value!r}")
    return value


def check_divides(name: str, parts: Any, units: int) -> int:
    """`parts` as an int; raises `ValueError` unless `num_units` can be cut into so many equal parts.

    >>> check_divides("heads", 3, 8)
    Traceback (most recent call last):
    ValueError: heads is 3, but must divide num_units, which is 8
    """
    parts = check_units(name, parts)
    if units % parts:
        raise ValueError(f"{name} is {parts}, but must divide num_units, which is {units}")
    return parts
