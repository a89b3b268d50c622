"""`tf.keras.layers`, for graphs: layers that are called with tensors. There are no models, and nothing to fit."""

from __future__ import annotations

from typing import Any

from unspool.tf1 import named_initializers
from unspool.tf1.keras import activations
from unspool.tf1.keras.recurrent import GRU, LSTM, SimpleRNN
from unspool.tf1.layers.base import Layer
from unspool.tf1.layers.core import Dense as PlainDense
from unspool.tf1.layers.core import Dropout, Flatten
from unspool.tf1.namespace import missing
from unspool.tf1.ops.classes import embedding_lookup
from unspool.tf1.ops.math import cast

__all__ = ["GRU", "LSTM", "Dense", "Dropout", "Embedding", "Flatten", "Layer", "SimpleRNN"]


class Dense(PlainDense):
    """`tf.layers.Dense`, whose activation and initialisers may be names.

    >>> from unspool import tf1 as tf
    >>> tf.keras.layers.Dense(4, activation="relu")(tf.zeros([2, 3])).shape
    TensorShape([2, 4])
    """

    def __init__(self, units: int, activation: Any = None, *args: Any, **kwargs: Any) -> None:
        found = None if activation is None else activations.get(activation)
        named = {key: initializer(each) if key.endswith("_initializer") else each for key, each in kwargs.items()}
        super().__init__(units, found, *args, **named)


class Embedding(Layer):
    """Rows of a table, by their numbers.

    Args:
        input_dim: how many rows there are.
        output_dim: how wide they are.
        embeddings_initializer: their first values; uniform between -0.05 and 0.05 by default.
        embeddings_regularizer: a function of the table whose result is added to the regularisation losses.
        mask_zero: not supported: give recurrent layers, or `tf.nn.dynamic_rnn`, the lengths.
        input_length: accepted.
        more: see `tf.layers.Layer`.

    >>> from unspool import tf1 as tf
    >>> tf.keras.layers.Embedding(7, 3)(tf.placeholder(tf.int32, [None, 5])).shape
    TensorShape([None, 5, 3])
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        mask_zero: bool = False,
        input_length: int | None = None,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        if mask_zero:
            raise NotImplementedError("mask_zero is not supported: use tf.nn.dynamic_rnn with sequence_length")
        self.input_dim, self.output_dim = int(input_dim), int(output_dim)
        self.embeddings_initializer = initializer(embeddings_initializer)
        self.embeddings_regularizer = embeddings_regularizer
        self.embeddings: Any = None

    def build(self, input_shape: Any) -> None:
        """Makes the table."""
        self.embeddings = self.add_variable(
            "embeddings",
            [self.input_dim, self.output_dim],
            initializer=self.embeddings_initializer,
            regularizer=self.embeddings_regularizer,
        )
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The rows."""
        numbers = inputs if inputs.dtype.is_integer else cast(inputs, "int32")
        return embedding_lookup(self.embeddings, numbers)


def initializer(given: Any) -> Any:
    """An initialiser by its name, such as "glorot_uniform"; another object as it is."""
    if not isinstance(given, str):
        return given
    if given == "uniform":
        return named_initializers.random_uniform(-0.05, 0.05)
    found = getattr(named_initializers, {"normal": "random_normal"}.get(given, given))
    return found()


def __getattr__(name: str) -> Any:
    raise missing("tf.keras.layers", name, __all__)
