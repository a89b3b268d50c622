"""`tf.layers`: layers as functions, and as objects that can be called again."""

from __future__ import annotations

from typing import Any

from unspool.tf1.layers.base import Layer
from unspool.tf1.layers.core import Dense, Dropout, Flatten, dense, dropout, flatten
from unspool.tf1.layers.normalization import BatchNormalization, batch_normalization
from unspool.tf1.namespace import missing

__all__ = [
    "BatchNormalization",
    "Dense",
    "Dropout",
    "Flatten",
    "Layer",
    "batch_normalization",
    "dense",
    "dropout",
    "flatten",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.layers", name, globals())
