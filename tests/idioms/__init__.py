"""Steps as people write them, one idiom each: the table that says what the engine plans.

Each entry is a step of a small cell, `step(cell, x, h) -> new h`, or a cell of its own where more is needed.
"""

from __future__ import annotations

from tests.idioms import attributes, axes, branches, images, layers, objects, operations, randomness
from tests.idioms.table import IDIOMS, REFUSED, Idiom

__all__ = [
    "IDIOMS",
    "REFUSED",
    "Idiom",
    "attributes",
    "axes",
    "branches",
    "images",
    "layers",
    "objects",
    "operations",
    "randomness",
]
