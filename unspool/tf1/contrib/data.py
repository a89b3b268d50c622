"""`tf.contrib.data`: functions for `Dataset.apply`, and datasets by their older names."""

from __future__ import annotations

from typing import Any

from unspool.tf1.data.dataset import Dataset
from unspool.tf1.data.experimental import (
    batch_and_drop_remainder,
    bucket_by_sequence_length,
    enumerate_dataset,
    group_by_window,
    map_and_batch,
    shuffle_and_repeat,
    unbatch,
)
from unspool.tf1.data.files import TextLineDataset, TFRecordDataset
from unspool.tf1.data.iterators import Iterator
from unspool.tf1.namespace import missing

__all__ = [
    "Dataset",
    "Iterator",
    "TFRecordDataset",
    "TextLineDataset",
    "batch_and_drop_remainder",
    "bucket_by_sequence_length",
    "enumerate_dataset",
    "group_by_window",
    "map_and_batch",
    "shuffle_and_repeat",
    "unbatch",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.data", name, globals())
