"""`tf.keras.utils`: what programs use of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from unspool.tf1.namespace import missing

__all__ = ["to_categorical"]


def to_categorical(y: Any, num_classes: int | None = None, dtype: Any = "float32") -> np.ndarray[Any, Any]:
    """A row of zeros with a one at its place, for each class.

    Args:
        y: the classes, whole numbers; an axis of one at the end is left out.
        num_classes: how many there are; one more than the largest by default.
        dtype: of the result.

    >>> to_categorical([0, 2])
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    classes = np.array(y, dtype="int64")
    if classes.ndim > 1 and classes.shape[-1] == 1:
        classes = classes[..., 0]
    return np.eye(num_classes or int(classes.max()) + 1, dtype=dtype)[classes]


def __getattr__(name: str) -> Any:
    raise missing("tf.keras.utils", name, __all__)
