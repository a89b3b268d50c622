"""`tf.random`: random numbers, by their shorter names."""

from __future__ import annotations

from typing import Any

from unspool.tf1.namespace import missing
from unspool.tf1.ops.random import multinomial, truncated_normal
from unspool.tf1.ops.random import random_normal as normal
from unspool.tf1.ops.random import random_shuffle as shuffle
from unspool.tf1.ops.random import random_uniform as uniform
from unspool.tf1.seeds import set_random_seed

__all__ = [
    "multinomial",
    "normal",
    "set_random_seed",
    "shuffle",
    "truncated_normal",
    "uniform",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.random", name, __all__)
