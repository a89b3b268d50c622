"""`tf.keras`, as far as programs with graphs and sessions use it: layers that are called with tensors, and arrays."""

from __future__ import annotations

from typing import Any

from unspool.tf1.keras import activations, layers, preprocessing, utils
from unspool.tf1.namespace import missing

__all__ = ["activations", "layers", "preprocessing", "utils"]


def __getattr__(name: str) -> Any:
    raise missing("tf.keras", name, __all__)
