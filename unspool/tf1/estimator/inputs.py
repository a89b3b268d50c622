"""`tf.estimator.inputs`: input functions of NumPy's arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from unspool.tf1.data.dataset import Dataset
from unspool.tf1.namespace import missing

__all__ = ["numpy_input_fn"]


def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], Any]:
    """An input function that gives batches of arrays.

    Args:
        x: an array of features, or a dict of them; all have as many rows.
        y: an array of labels, or a dict of them.
        batch_size: how many rows are a batch.
        num_epochs: how many times each row comes; for ever if None.
        shuffle: whether rows are in a random order; it has to be said.
        queue_capacity: how many rows are drawn from.
        num_threads: accepted.

    Raises:
        ValueError: if `shuffle` is not said, or arrays have different numbers of rows.

    >>> from unspool import tf1 as tf
    >>> read = tf.estimator.inputs.numpy_input_fn({"x": np.arange(3)}, np.arange(3), 2, shuffle=False)
    >>> features, labels = read()
    >>> with tf.Session() as session:
    ...     print(session.run(features), session.run(labels))
    {'x': array([0, 1])} [2]
    """
    if not isinstance(shuffle, bool):
        raise ValueError(f"shuffle must be provided and explicitly set as boolean; got {shuffle}")
    if isinstance(x, Mapping) and not x:
        raise ValueError("x cannot be an empty dict.")
    if isinstance(y, Mapping) and not y:
        raise ValueError("y cannot be empty dict, use None instead.")
    parts = [*_arrays(x), *([] if y is None else _arrays(y))]
    if len({len(each) for each in parts}) > 1:
        raise ValueError(
            f"Length of tensors in x and y is mismatched. All elements in x and y must have the same length, but they "
            f"have {[len(each) for each in parts]}"
        )

    def input_fn() -> Any:
        read = Dataset.from_tensor_slices(x if y is None else (x, y))
        read = read.shuffle(queue_capacity) if shuffle else read
        return read.repeat(num_epochs).batch(batch_size).make_one_shot_iterator().get_next()

    return input_fn


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [np.asarray(each) for each in value.values()]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if not isinstance(value, np.ndarray):
        raise TypeError(f"x must be a dict or array; got {type(value).__name__}")
    return [value]


def __getattr__(name: str) -> Any:
    raise missing("tf.estimator.inputs", name, globals())
