"""Mistakes by name: each builds a graph and returns what to fetch, with what to feed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Mistake = Callable[[Any], Any]
MISTAKES: dict[str, Mistake] = {}


def mistake(function: Mistake) -> Mistake:
    """Notes a mistake by its name."""
    MISTAKES[function.__name__] = function
    return function
