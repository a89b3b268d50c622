"""`tf.contrib.data`: functions for `Dataset.apply`, and datasets by their older names."""

from __future__ import annotations

from typing import Any

from unspool.tf1.data.dataset import Dataset as Dataset
from unspool.tf1.data.dataset import TextLineDataset as TextLineDataset
from unspool.tf1.data.experimental import batch_and_drop_remainder as batch_and_drop_remainder
from unspool.tf1.data.experimental import bucket_by_sequence_length as bucket_by_sequence_length
from unspool.tf1.data.experimental import enumerate_dataset as enumerate_dataset
from unspool.tf1.data.experimental import group_by_window as group_by_window
from unspool.tf1.data.experimental import map_and_batch as map_and_batch
from unspool.tf1.data.experimental import shuffle_and_repeat as shuffle_and_repeat
from unspool.tf1.data.experimental import unbatch as unbatch
from unspool.tf1.data.iterators import Iterator as Iterator
from unspool.tf1.namespace import missing


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.data", name, globals())
