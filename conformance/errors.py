"""How far one tensor is from another."""

from __future__ import annotations

import numpy as np

SMALLEST = 0.01
"""Smaller tensors are measured against this: they are what is left of larger terms, with those terms' rounding."""


def relative_error(name: str, found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest element of what was expected, or to SMALLEST.

    The loss alone is measured against at least 1: it sums up everything, and its terms cancel.
    """
    largest = float(np.abs(expected).max(initial=0.0))
    scale = max(largest, 1.0 if name == "loss" else SMALLEST)
    return float(np.abs(found - expected).max(initial=0.0)) / scale
