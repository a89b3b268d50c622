"""`tf.contrib`: what recurrent programs use of it."""

from __future__ import annotations

from typing import Any

from unspool.tf1 import seq2seq
from unspool.tf1.contrib import data, framework, layers, lookup, rnn
from unspool.tf1.namespace import missing

__all__ = [
    "data",
    "framework",
    "layers",
    "lookup",
    "rnn",
    "seq2seq",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib", name, globals())
