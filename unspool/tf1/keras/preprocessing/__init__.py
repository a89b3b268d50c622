"""`tf.keras.preprocessing`: sequences as arrays."""

from __future__ import annotations

from typing import Any

from unspool.tf1.keras.preprocessing import sequence
from unspool.tf1.namespace import missing

__all__ = ["sequence"]


def __getattr__(name: str) -> Any:
    raise missing("tf.keras.preprocessing", name, __all__)
