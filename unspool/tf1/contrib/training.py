"""`tf.contrib.training`: hyperparameters, training operations, and batches of similar lengths by queues."""

from __future__ import annotations

from typing import Any

from unspool.tf1.contrib.hparams import HParams
from unspool.tf1.contrib.train_op import (
    add_gradients_summaries,
    clip_gradient_norms,
    clip_gradient_norms_fn,
    create_train_op,
    multiply_gradients,
)
from unspool.tf1.namespace import missing
from unspool.tf1.queues.buckets import bucket, bucket_by_sequence_length

__all__ = [
    "HParams",
    "add_gradients_summaries",
    "bucket",
    "bucket_by_sequence_length",
    "clip_gradient_norms",
    "clip_gradient_norms_fn",
    "create_train_op",
    "multiply_gradients",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.training", name, globals())
