"""`tf.keras.activations`: activations by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unspool.tf1.namespace import missing
from unspool.tf1.ops.array import identity
from unspool.tf1.ops.math import clip_by_value, exp, sigmoid, tanh
from unspool.tf1.ops.nn import elu, relu, selu, softmax, softplus, softsign

__all__ = [
    "elu",
    "exponential",
    "get",
    "hard_sigmoid",
    "linear",
    "relu",
    "selu",
    "sigmoid",
    "softmax",
    "softplus",
    "softsign",
    "tanh",
]

linear, exponential = identity, exp


def hard_sigmoid(x: Any) -> Any:
    """`0.2 * x + 0.5`, between 0 and 1: Keras' own sigmoid, of gates by default.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.keras.activations.hard_sigmoid(tf.constant([-9.0, 1.0])))
    array([0. , 0.7], dtype=float32)
    """
    return clip_by_value(0.2 * x + 0.5, 0.0, 1.0)


def get(identifier: Callable[[Any], Any] | str | None) -> Callable[[Any], Any]:
    """The function that a name means; a function itself, and for None the one that changes nothing.

    Raises:
        ValueError: if it is neither.
    """
    if identifier is None:
        return linear
    if callable(identifier):
        return identifier
    if identifier not in __all__ or identifier == "get":
        raise ValueError(f"Unknown activation function: {identifier}")
    return globals()[identifier]


def __getattr__(name: str) -> Any:
    raise missing("tf.keras.activations", name, __all__)
