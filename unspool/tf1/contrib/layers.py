"""`tf.contrib.layers`: the older layers and regularisers."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch

from unspool.flags import checks_flags
from unspool.tf1.dtypes import float32
from unspool.tf1.graph import get_default_graph
from unspool.tf1.initializers import Initializer, fans, truncated_normal_, zeros_initializer
from unspool.tf1.layers.base import is_true
from unspool.tf1.layers.core import Dense, Dropout, Flatten
from unspool.tf1.layers.normalization import BatchNormalization
from unspool.tf1.namespace import missing
from unspool.tf1.operations import as_tensor
from unspool.tf1.ops.array import identity
from unspool.tf1.ops.math import abs_, add_n, multiply, reduce_sum, subtract
from unspool.tf1.ops.nn import embedding_lookup, l2_loss
from unspool.tf1.ops.nn import relu as _relu
from unspool.tf1.scopes import get_variable, name_scope, variable_scope
from unspool.tf1.tensor import Operators
from unspool.tf1.variables import GraphKeys, Variable

__all__ = [
    "apply_regularization",
    "batch_norm",
    "dropout",
    "embed_sequence",
    "flatten",
    "fully_connected",
    "l1_l2_regularizer",
    "l1_regularizer",
    "l2_regularizer",
    "linear",
    "relu",
    "sum_regularizer",
    "variance_scaling_initializer",
    "xavier_initializer",
    "xavier_initializer_conv2d",
]


# -- how weights begin -----------------------------------------------------------------------------------------------


class variance_scaling_initializer(Initializer):  # noqa: N801 (TensorFlow's name)
    """Random, with a variance of about `factor / n`; a truncated normal has 1.3 times that before it is cut.

    Args:
        factor: 2 for ReLU (He et al., 2015), 1 for tanh.
        mode: "FAN_IN" if n is the number of inputs, "FAN_OUT" of outputs, "FAN_AVG" their mean.
        uniform: whether it is uniform; else a truncated normal.
        seed: makes the draw repeatable.
        dtype: of the values.
    """

    kind = "variance_scaling"

    @checks_flags
    def __init__(
        self,
        factor: float = 2.0,
        mode: str = "FAN_IN",
        uniform: bool = False,
        seed: int | None = None,
        dtype: Any = float32,
    ) -> None:
        super().__init__(dtype, seed)
        if not self.dtype.is_floating:
            raise TypeError(f"Cannot create initializer for non-floating point type {self.dtype!r}.")
        if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
            raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")
        self.factor, self.mode, self.uniform = factor, mode, uniform

    def draw(self, blank: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """Numbers of that variance."""
        fan_in, fan_out = fans(blank.shape)
        count = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2}[self.mode]
        if self.uniform:
            limit = math.sqrt(3 * self.factor / count)
            return blank.uniform_(-limit, limit, generator=generator)
        return truncated_normal_(blank, 0.0, math.sqrt(1.3 * self.factor / count), generator)


@checks_flags
def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: Any = float32) -> Initializer:
    """Random, so that variances stay the same forwards and backwards (Glorot and Bengio, 2010)."""
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer


# -- regularisers ----------------------------------------------------------------------------------------------------


def l1_regularizer(scale: float, scope: str | None = None) -> Callable[[Any], Any]:
    """`scale` times the sum of absolute values, as a function of weights.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.contrib.layers.l1_regularizer(0.5)(tf.constant([1.0, -3.0])))
    np.float32(2.0)
    """
    return _scaled(scale, scope, "l1_regularizer", lambda weights: reduce_sum(abs_(weights)))


def l2_regularizer(scale: float, scope: str | None = None) -> Callable[[Any], Any]:
    """`scale` times half the sum of squares, as a function of weights."""
    return _scaled(scale, scope, "l2_regularizer", l2_loss)


def l1_l2_regularizer(scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None) -> Callable[[Any], Any]:
    """The sum of `l1_regularizer` and `l2_regularizer`."""
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope)


def sum_regularizer(regularizer_list: Sequence[Any], scope: str | None = None) -> Callable[[Any], Any]:
    """The sum of several regularisers; None among them is left out."""
    chosen = [each for each in regularizer_list if each is not None]

    def total(weights: Any) -> Any:
        with name_scope(scope, "sum_regularizer"):
            made = [each for each in (regularizer(weights) for regularizer in chosen) if each is not None]
            return add_n(made) if made else None

    return total


def apply_regularization(regularizer: Callable[[Any], Any], weights_list: Sequence[Any] | None = None) -> Any:
    """The sum of a regulariser of weights, added to the regularisation losses; of the list "weights" if None."""
    graph = get_default_graph()
    chosen = list(weights_list) if weights_list else graph.get_collection("weights")
    if not chosen:
        raise ValueError("No weights to regularize.")
    made = [each for each in map(regularizer, chosen) if each is not None]
    total = add_n(made) if made else as_tensor(0.0)
    graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
    return total


def _scaled(scale: Any, scope: str | None, name: str, measure: Callable[[Any], Any]) -> Callable[[Any], Any]:
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"scale cannot be an integer: {scale}")
    if isinstance(scale, numbers.Real):
        if scale < 0.0:
            raise ValueError(f"Setting a scale less than 0 on a regularizer: {scale}")
        if scale == 0.0:
            return lambda _: None

    def regularize(weights: Any) -> Any:
        with name_scope(scope, name):
            given = as_tensor(weights)
            return multiply(as_tensor(scale, given.dtype), measure(given))

    return regularize


# -- layers ----------------------------------------------------------------------------------------------------------


class _FullyConnected(Dense):
    """A dense layer by its older names."""

    kernel_name, bias_name = "weights", "biases"


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
        _collect(layer.kernel, "weights", variables_collections)
        if layer.bias is not None:
            _collect(layer.bias, "biases", variables_collections)
        if normalizer_fn is not None:
            made = normalizer_fn(made, **(normalizer_params or {}))
        if activation_fn is not None:
            made = activation_fn(made)
    get_default_graph().add_to_collections(outputs_collections or (), made)
    return made


def linear(*args: Any, **kwargs: Any) -> Any:
    """`fully_connected` without an activation."""
    return fully_connected(*args, **{"activation_fn": None, **kwargs})


relu = fully_connected


@checks_flags
def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Callable[[Any], Any] | None = None,
    param_initializers: dict[str, Any] | None = None,
    param_regularizers: dict[str, Any] | None = None,
    updates_collections: Any = GraphKeys.UPDATE_OPS,
    is_training: Any = True,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    fused: bool | None = None,
    scope: Any = None,
) -> Any:
    """Batch normalisation along the last axis; see `tf.layers.BatchNormalization`.

    Args:
        inputs: a tensor.
        decay: how much of the averages stays.
        center: whether there is a beta.
        scale: whether there is a gamma.
        epsilon: added to the variance.
        activation_fn: a function of the result.
        param_initializers: for "beta", "gamma", "moving_mean" and "moving_variance".
        param_regularizers: for "beta" and "gamma".
        updates_collections: lists to add the updates of the averages to; None to make them with the output.
        is_training: a bool, or a scalar bool tensor.
        reuse: whether the variables must be there already.
        variables_collections: lists to add the variables to, or a dict of such.
        outputs_collections: lists to add the output to.
        trainable: whether optimisers change beta and gamma by default.
        fused: see `tf.layers.BatchNormalization`.
        scope: of the variables; by default "BatchNorm", made unique.
    """
    graph = get_default_graph()
    starts, regularizers = param_initializers or {}, param_regularizers or {}
    with variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as entered:
        layer = BatchNormalization(
            -1,
            decay,
            epsilon,
            center,
            scale,
            **{f"{name}_initializer": value for name, value in starts.items()},
            **{f"{name}_regularizer": value for name, value in regularizers.items()},
            trainable=trainable,
            fused=fused,
            name=entered.name,
            _scope=entered,
            _reuse=reuse,
        )
        layer.updates_collection = None
        made = layer(inputs, training=is_training)
        for variable in layer.variables:
            _collect(variable, variable.op.name.rpartition("/")[2], variables_collections)
        if updates_collections is None and is_true(is_training) is not False:
            with graph.control_dependencies(layer.updates):
                made = identity(made)
        else:
            for update in layer.updates:
                graph.add_to_collections(updates_collections or (), update)
        if activation_fn is not None:
            made = activation_fn(made)
    graph.add_to_collections(outputs_collections or (), made)
    return made


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
        _collect(table, "embeddings", None)
        return embedding_lookup(table, ids)


def _collect(variable: Variable, name: str, collections: Any) -> None:
    """Adds a variable to the lists that are asked for, and to that of the model's, once each."""
    asked: Any = collections
    if isinstance(collections, dict):
        asked = cast("dict[str, Any]", collections).get(name)
    keys: list[str] = [GraphKeys.MODEL_VARIABLES, *([asked] if isinstance(asked, str) else asked or ())]
    graph = get_default_graph()
    for key in dict.fromkeys(keys):
        if variable not in graph.get_collection(key):
            graph.add_to_collection(key, variable)


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.layers", name, globals())
