"""`tf.data.experimental`, which was `tf.contrib.data`: functions for `Dataset.apply`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unspool.structure import unflatten_as
from unspool.tf1.data.batching import Grouped
from unspool.tf1.data.dataset import Dataset
from unspool.tf1.data.elements import leaves_up_to
from unspool.tf1.dtypes import int64
from unspool.tf1.graph_functions import control_dependencies
from unspool.tf1.namespace import missing
from unspool.tf1.operations import as_tensor, constant
from unspool.tf1.ops.array import gather, identity
from unspool.tf1.ops.checks import assert_less
from unspool.tf1.ops.math import cast, less_equal
from unspool.tf1.ops.reductions import reduce_sum
from unspool.tf1.shapes import TensorShape

__all__ = [
    "AUTOTUNE",
    "batch_and_drop_remainder",
    "bucket_by_sequence_length",
    "enumerate_dataset",
    "group_by_window",
    "map_and_batch",
    "prefetch_to_device",
    "shuffle_and_repeat",
    "unbatch",
]

AUTOTUNE = -1
"""A number of parallel calls that TensorFlow would choose."""

Transformation = Callable[[Dataset], Dataset]


def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[[Any, Dataset], Dataset],
    window_size: Any = None,
    window_size_func: Callable[[Any], Any] | None = None,
) -> Transformation:
    """Collects elements with the same key, and makes a dataset of each so many.

    Args:
        key_func: takes an element to its key, of int64.
        reduce_func: takes a key and a dataset of elements to a dataset, whose elements come next.
        window_size: how many elements are collected.
        window_size_func: takes a key to that number; instead of `window_size`.

    Raises:
        ValueError: if neither or both of the last are given, or the key is not of int64.
    """
    if (window_size is None) == (window_size_func is None):
        raise ValueError("Must pass either window_size or window_size_func.")
    size = window_size_func or (lambda _: constant(window_size, int64))
    return lambda dataset: Dataset(Grouped(dataset.stage, key_func, reduce_func, lambda key: _as_int64(size(key))))


def _as_int64(value: Any) -> Any:
    return cast(value, int64)


def bucket_by_sequence_length(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: Any = None,
    padding_values: Any = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
) -> Transformation:
    """Batches of elements of similar length, padded to the longest of the batch.

    Args:
        element_length_func: takes an element to its length, of int32.
        bucket_boundaries: the least lengths of the buckets after the first, rising.
        bucket_batch_sizes: how many elements are a batch in each bucket, one number more than there are boundaries.
        padded_shapes: see `Dataset.padded_batch`; those of the dataset by default.
        padding_values: see there.
        pad_to_bucket_boundary: whether unknown sizes are filled up to the largest length of the bucket, which must have
            one.
        no_padding: whether elements of a bucket have one shape already.
        drop_remainder: whether last batches of fewer elements are left out.

    Raises:
        ValueError: if the numbers of boundaries and batch sizes do not fit.

    >>> from unspool import tf1 as tf
    >>> words = tf.data.Dataset.range(1, 7).map(lambda n: tf.fill([n], n))
    >>> buckets = tf.data.experimental.bucket_by_sequence_length(tf.size, [3], [2, 2])
    >>> element = words.apply(buckets).make_one_shot_iterator().get_next()
    >>> with tf.Session() as session:
    ...     print(session.run(element).tolist(), session.run(element).tolist())
    [[1, 0], [2, 2]] [[3, 3, 3, 0], [4, 4, 4, 4]]
    """
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError(
            "len(bucket_batch_sizes) must equal len(bucket_boundaries) + 1, but there are "
            f"{len(bucket_batch_sizes)} and {len(bucket_boundaries)}"
        )
    boundaries, sizes = np.array(bucket_boundaries, np.int64), np.array(bucket_batch_sizes, np.int64)

    def bucket(*parts: Any) -> Any:
        length = cast(element_length_func(*parts), int64)
        return reduce_sum(cast(less_equal(constant(boundaries), length), int64))  # how many it reaches

    def batched(number: Any, window: Dataset) -> Dataset:
        size = gather(constant(sizes), number)
        if no_padding:
            return window.batch(size, drop_remainder)
        shapes = window.output_shapes if padded_shapes is None else padded_shapes
        if pad_to_bucket_boundary:
            shapes = _up_to_boundary(window, shapes, number, boundaries)
        return window.padded_batch(size, shapes, padding_values, drop_remainder)

    return group_by_window(bucket, batched, window_size_func=lambda number: gather(constant(sizes), number))


def _up_to_boundary(window: Dataset, shapes: Any, number: Any, boundaries: np.ndarray[Any, Any]) -> Any:
    """Shapes whose unknown sizes are the largest length of a bucket."""
    fine = assert_less(
        number,
        constant(len(boundaries), int64),
        message="When pad_to_bucket_boundary=True, elements must have length < max(bucket_boundaries).",
    )
    with control_dependencies([fine]):
        largest = identity(gather(constant(boundaries), number) - 1)
    leaves = leaves_up_to(window.stage.element, shapes, "padded_shapes", "the elements")
    sizes = [[largest if size is None else size for size in TensorShape(each).as_list()] for each in leaves]
    return unflatten_as(window.stage.element, [as_tensor(each or np.zeros(0, np.int64), int64) for each in sizes])


def batch_and_drop_remainder(batch_size: Any) -> Transformation:
    """`dataset.batch(batch_size, drop_remainder=True)`."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: Any,
    num_parallel_batches: Any = None,
    drop_remainder: Any = False,
    num_parallel_calls: Any = None,
) -> Transformation:
    """`dataset.map(map_func).batch(batch_size, drop_remainder)`; the other arguments are accepted."""
    return lambda dataset: dataset.map(map_func).batch(batch_size, drop_remainder)


def shuffle_and_repeat(buffer_size: Any, count: Any = None, seed: Any = None) -> Transformation:
    """`dataset.shuffle(buffer_size, seed).repeat(count)`."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def enumerate_dataset(start: Any = 0) -> Transformation:
    """`dataset.enumerate(start)`."""
    return lambda dataset: dataset.enumerate(start)


def unbatch() -> Transformation:
    """`dataset.unbatch()`."""
    return Dataset.unbatch


def prefetch_to_device(device: Any, buffer_size: Any = None) -> Transformation:
    """The same dataset: sessions place what they read."""
    return lambda dataset: dataset


def __getattr__(name: str) -> Any:
    raise missing("tf.data.experimental", name, globals())
