"""`tf.contrib`: what recurrent programs use of it."""

from __future__ import annotations

from typing import Any

from unspool.tf1 import seq2seq
from unspool.tf1.contrib import (
    crf,
    cudnn_rnn,
    data,
    distributions,
    framework,
    layers,
    learn,
    legacy_seq2seq,
    lookup,
    losses,
    predictor,
    rnn,
    slim,
    tensorboard,
    training,
)
from unspool.tf1.estimator import early_stopping as estimator
from unspool.tf1.namespace import missing

__all__ = [
    "crf",
    "cudnn_rnn",
    "data",
    "distributions",
    "estimator",
    "framework",
    "layers",
    "learn",
    "legacy_seq2seq",
    "lookup",
    "losses",
    "predictor",
    "rnn",
    "seq2seq",
    "slim",
    "tensorboard",
    "training",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib", name, globals())
