"""The older dense layers, dropout, flattening and embeddings of `tf.contrib.layers`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from unspool.flags import checks_flags
from unspool.tf1.contrib.arg_scope import add_arg_scope
from unspool.tf1.contrib.layers.collecting import collect, finished
from unspool.tf1.contrib.layers.initializers import xavier_initializer
from unspool.tf1.dtypes import float32
from unspool.tf1.graph import get_default_graph
from unspool.tf1.initializers import zeros_initializer
from unspool.tf1.layers.core import Dense, Dropout, Flatten
from unspool.tf1.ops.creation import one_hot
from unspool.tf1.ops.math import subtract
from unspool.tf1.ops.nn import elu as _elu
from unspool.tf1.ops.nn import embedding_lookup
from unspool.tf1.ops.nn import relu as _relu
from unspool.tf1.ops.nn import relu6 as _relu6
from unspool.tf1.ops.nn import softmax as _softmax
from unspool.tf1.scopes import get_variable, variable_scope
from unspool.tf1.tensor import Operators


class _FullyConnected(Dense):
    """A dense layer by its older names."""

    kernel_name, bias_name = "weights", "biases"


@add_arg_scope
@checks_flags
def fully_connected(
    inputs: Any,
    num_outputs: int,
    activation_fn: Callable[[Any], Any] | None = _relu,
    normalizer_fn: Callable[..., Any] | None = None,
    normalizer_params: dict[str, Any] | None = None,
    weights_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = zeros_initializer,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """`activation_fn(inputs @ weights + biases)`; the activation is ReLU by default.

    Args:
        inputs: a tensor; its last axis is multiplied.
        num_outputs: how many outputs there are.
        activation_fn: a function of the sum; None for the sum itself.
        normalizer_fn: a function of the product in the place of the biases, such as `batch_norm`.
        normalizer_params: its other arguments.
        weights_initializer: by default Xavier's.
        weights_regularizer: a function of the weights whose result is added to the regularisation losses.
        biases_initializer: None for no biases.
        biases_regularizer: the same for the biases.
        reuse: whether the variables must be there already.
        variables_collections: lists to add the variables to, or a dict of such for "weights" and "biases".
        outputs_collections: lists to add the output to.
        trainable: whether optimisers change the variables by default.
        scope: of the variables; by default "fully_connected", made unique.

    >>> from unspool import tf1 as tf
    >>> with tf.Graph().as_default():
    ...     made = tf.contrib.layers.fully_connected(tf.placeholder(tf.float32, [None, 3]), 4)
    ...     [variable.name for variable in tf.global_variables()]
    ['fully_connected/weights:0', 'fully_connected/biases:0']
    """
    with variable_scope(scope, "fully_connected", [inputs], reuse=reuse) as entered:
        layer = _FullyConnected(
            num_outputs,
            use_bias=normalizer_fn is None and biases_initializer is not None,
            kernel_initializer=weights_initializer or xavier_initializer(),
            bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer,
            trainable=trainable,
            name=entered.name,
            _scope=entered,
            _reuse=reuse,
        )
        made = layer(inputs)
        collect(layer.kernel, "weights", variables_collections)
        if layer.bias is not None:
            collect(layer.bias, "biases", variables_collections)
        return finished(made, normalizer_fn, normalizer_params, activation_fn, outputs_collections)


linear = partial(fully_connected, activation_fn=None)
"""`fully_connected` without an activation."""
relu, relu6, elu = (partial(fully_connected, activation_fn=each) for each in (_relu, _relu6, _elu))


@add_arg_scope
def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: str | None = None,
    seed: int | None = None,
) -> Any:
    """Drops elements at random while training, and divides what is kept by `keep_prob`."""
    rate = subtract(1.0, keep_prob) if isinstance(keep_prob, Operators) else 1 - keep_prob
    made = Dropout(rate, noise_shape, seed, scope or "Dropout")(inputs, training=is_training)
    get_default_graph().add_to_collections(outputs_collections or (), made)
    return made


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: str | None = None) -> Any:
    """All axes but the first as one."""
    made = Flatten(name=scope or "Flatten")(inputs)
    get_default_graph().add_to_collections(outputs_collections or (), made)
    return made


@checks_flags
def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Any:
    """The rows of a new table at numbers `[batch, time]`.

    Args:
        ids: ints in [0, vocab_size).
        vocab_size: how many rows the table has.
        embed_dim: how many columns.
        unique: accepted.
        initializer: of the table.
        regularizer: of the table.
        trainable: whether optimisers change it by default.
        scope: of the table, "embeddings"; by default "EmbedSequence", made unique.
        reuse: whether the table must be there already.
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(
            "Must specify vocab size and embedding dimension when not reusing. Got "
            f"vocab_size={vocab_size} and embed_dim={embed_dim}"
        )
    with variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = None if vocab_size is None or embed_dim is None else [vocab_size, embed_dim]
        table = get_variable("embeddings", shape, None, initializer, regularizer, trainable)
        collect(table, "embeddings", None)
        return embedding_lookup(table, ids)


def embedding_lookup_unique(params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None) -> Any:
    """`tf.nn.embedding_lookup`, which TensorFlow lets read every row once, however often it is asked for."""
    return embedding_lookup(params, ids, partition_strategy, name)


@add_arg_scope
def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Any:
    """Rows with one number for the class of each label, and another for the rest."""
    made = one_hot(labels, num_classes, on_value=on_value, off_value=off_value, dtype=float32)
    get_default_graph().add_to_collections(outputs_collections or (), made)
    return made


def softmax(logits: Any, scope: str | None = None) -> Any:
    """Probabilities along the last axis."""
    return _softmax(logits, name=scope)
