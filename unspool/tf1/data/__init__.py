"""`tf.data`: input pipelines. Elements are made when a run asks for them, one by one."""

from __future__ import annotations

from typing import Any

from unspool.tf1.data import experimental as experimental
from unspool.tf1.data.dataset import Dataset
from unspool.tf1.data.files import TextLineDataset, TFRecordDataset
from unspool.tf1.data.iterators import Iterator
from unspool.tf1.data.stages import Options
from unspool.tf1.namespace import missing

__all__ = [
    "Dataset",
    "Iterator",
    "Options",
    "TFRecordDataset",
    "TextLineDataset",
    "experimental",
    "get_output_shapes",
    "get_output_types",
    "make_initializable_iterator",
    "make_one_shot_iterator",
]


def make_one_shot_iterator(dataset: Dataset) -> Iterator:
    """`dataset.make_one_shot_iterator()`."""
    return dataset.make_one_shot_iterator()


def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> Iterator:
    """`dataset.make_initializable_iterator()`."""
    return dataset.make_initializable_iterator(shared_name)


def get_output_types(dataset_or_iterator: Any) -> Any:
    """The dtypes of an element, in its structure."""
    return dataset_or_iterator.output_types


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """The shapes of an element, in its structure."""
    return dataset_or_iterator.output_shapes


def __getattr__(name: str) -> Any:
    raise missing("tf.data", name, globals())
