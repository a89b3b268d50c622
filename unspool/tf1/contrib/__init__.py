"""`tf.contrib`: what recurrent programs use of it."""

from __future__ import annotations

from typing import Any

from unspool.tf1 import seq2seq
from unspool.tf1.contrib import data, framework, layers, learn, lookup, rnn, tensorboard, training
from unspool.tf1.namespace import missing

__all__ = [
    "data",
    "framework",
    "layers",
    "learn",
    "lookup",
    "rnn",
    "seq2seq",
    "tensorboard",
    "training",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib", name, globals())
