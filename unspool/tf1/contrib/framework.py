"""`tf.contrib.framework`: nested structures."""

from __future__ import annotations

from typing import Any

from unspool.tf1.internals import nest
from unspool.tf1.namespace import missing

__all__ = ["nest"]


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.framework", name, __all__)
