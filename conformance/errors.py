"""How far one tensor is from another."""

from __future__ import annotations

import numpy as np


def relative_error(name: str, found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest element of what was expected (to 1 if that is all zero).

    The loss alone is measured against at least 1: its terms cancel, so that how small it comes out says nothing of how
    exactly it was summed.
    """
    largest = float(np.abs(expected).max(initial=0.0))
    scale = max(1.0, largest) if name == "loss" else largest or 1.0
    return float(np.abs(found - expected).max(initial=0.0)) / scale
