"""Checks of what cells of the gallery are made with."""

from __future__ import annotations

from typing import Any

from unspool.cells.layer import check_units


def check_sizes(input_size: Any, num_units: Any) -> tuple[int, int]:
    """The widths of inputs and state as ints; raises unless both are positive whole numbers."""
    return check_units("input_size", input_size), check_units("num_units", num_units)


def check_between(name: str, value: float, low: float, high: float) -> float:
    """`value` as a float; raises `ValueError` unless it lies in [low, high].

    >>> check_between("zoneout", 1.5, 0, 1)
    Traceback (most recent call last):
    ValueError: zoneout is 1.5, but must be in [0, 1]
    """
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}, but must be in [{low}, {high}]")
    return float(value)


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
