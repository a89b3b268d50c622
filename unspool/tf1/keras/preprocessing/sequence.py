"""`tf.keras.preprocessing.sequence`: sequences of several lengths as one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unspool.tf1.namespace import missing

__all__ = ["pad_sequences"]


def pad_sequences(
    sequences: Sequence[Any],
    maxlen: int | None = None,
    dtype: Any = "int32",
    padding: str = "pre",
    truncating: str = "pre",
    value: Any = 0.0,
) -> np.ndarray[Any, Any]:
    """Sequences of several lengths as one array, filled up or cut to one length.

    Args:
        sequences: the sequences.
        maxlen: the length; that of the longest by default.
        dtype: of the array.
        padding: where it is filled up, "pre" before a sequence or "post" after it.
        truncating: where a sequence is cut, at its start or its end.
        value: what it is filled up with.

    Raises:
        ValueError: if these are no sequences, or their elements have several shapes, or for another word.

    >>> pad_sequences([[1], [1, 2, 3]])
    array([[0, 0, 1],
           [1, 2, 3]], dtype=int32)
    """
    if not hasattr(sequences, "__len__"):
        raise ValueError("`sequences` must be iterable.")
    for each in sequences:
        if not hasattr(each, "__len__"):
            raise ValueError(f"`sequences` must be a list of iterables. Found non-iterable: {each}")
    for name, given in (("Truncating", truncating), ("Padding", padding)):
        if given not in ("pre", "post"):
            raise ValueError(f'{name} type "{given}" not understood')
    length = int(np.max([len(each) for each in sequences])) if maxlen is None else maxlen
    element = next((np.asarray(each).shape[1:] for each in sequences if len(each)), ())
    made = np.full((len(sequences), length, *element), value, dtype=dtype)
    for place, each in enumerate(sequences):
        if not len(each):
            continue
        kept = np.asarray(each[-length:] if truncating == "pre" else each[:length], dtype=dtype)
        if kept.shape[1:] != element:
            raise ValueError(
                f"Shape of sample {kept.shape[1:]} of sequence at position {place} is different from expected shape "
                f"{element}"
            )
        where = slice(length - len(kept), None) if padding == "pre" else slice(len(kept))
        made[place, where] = kept
    return made


def __getattr__(name: str) -> Any:
    raise missing("tf.keras.preprocessing.sequence", name, __all__)
