"""`tf.estimator.export`: what a program says of a model that is exported; nothing is."""

from __future__ import annotations

from typing import Any, NamedTuple

from unspool.tf1.namespace import missing

__all__ = ["ServingInputReceiver"]


class ServingInputReceiver(NamedTuple):
    """The features of a served model, and the placeholders that they are computed from.

    >>> ServingInputReceiver({"x": 1}, {"example": 2}).receiver_tensors
    {'example': 2}
    """

    features: Any
    receiver_tensors: Any
    receiver_tensors_alternatives: Any = None


def __getattr__(name: str) -> Any:
    raise missing("tf.estimator.export", name, __all__)
