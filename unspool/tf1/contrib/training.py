"""`tf.contrib.training`: hyperparameters, and batches of similar lengths by queues."""

from __future__ import annotations

from typing import Any

from unspool.tf1.contrib.hparams import HParams
from unspool.tf1.namespace import missing
from unspool.tf1.queues.buckets import bucket, bucket_by_sequence_length

__all__ = ["HParams", "bucket", "bucket_by_sequence_length"]


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.training", name, globals())
