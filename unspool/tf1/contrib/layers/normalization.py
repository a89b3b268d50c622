"""Normalisation of `tf.contrib.layers`: of a batch, and of a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unspool.flags import checks_flags
from unspool.tf1.contrib.arg_scope import add_arg_scope
from unspool.tf1.contrib.layers.collecting import collect
from unspool.tf1.graph import get_default_graph
from unspool.tf1.initializers import ones_initializer, zeros_initializer
from unspool.tf1.layers.base import is_true
from unspool.tf1.layers.normalization import BatchNormalization
from unspool.tf1.operations import as_tensor
from unspool.tf1.ops.array import identity
from unspool.tf1.ops.nn import batch_normalization, moments
from unspool.tf1.scopes import get_variable, variable_scope
from unspool.tf1.variables import GraphKeys


class _Fused(BatchNormalization):
    """Batch normalisation as `batch_norm` has it of vectors, and of images with updates of its own."""

    beta_first = True
    fused_ranks = (2, 4)


@add_arg_scope
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
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_decay: float = 0.99,
    adjustment: Any = None,
) -> Any:
    """Batch normalisation of each channel; see `tf.layers.BatchNormalization`.

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
        fused: see `tf.layers.BatchNormalization`; of vectors, the averages have `n / (n - 1)` of the variance too.
        data_format: "NCHW" if channels come first.
        scope: of the variables; by default "BatchNorm", made unique.
        batch_weights, zero_debias_moving_mean, renorm, renorm_clipping, renorm_decay, adjustment: not supported.
    """
    if batch_weights is not None or zero_debias_moving_mean or renorm or adjustment is not None:
        raise NotImplementedError("batch_weights, zero_debias_moving_mean, renorm and adjustment are not supported")
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    graph, rank = get_default_graph(), len(as_tensor(inputs).dims or ())
    starts, regularizers = param_initializers or {}, param_regularizers or {}
    fuses = rank == 2 or (rank == 4 and updates_collections != GraphKeys.UPDATE_OPS)
    kind = _Fused if fuses and fused is not False else BatchNormalization
    with variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as entered:
        layer = kind(
            1 if data_format == "NCHW" else -1,
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
            collect(variable, variable.op.name.rpartition("/")[2], variables_collections)
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


@add_arg_scope
@checks_flags
def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Callable[[Any], Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> Any:
    """Rows with mean 0 and variance 1, scaled and shifted (Ba, Kiros & Hinton, 2016).

    Args:
        inputs: a tensor.
        center: whether there is a beta.
        scale: whether there is a gamma.
        activation_fn: a function of the result.
        reuse: whether the variables must be there already.
        variables_collections: lists to add the variables to, or a dict of such.
        outputs_collections: lists to add the output to.
        trainable: whether optimisers change beta and gamma by default.
        begin_norm_axis: the first axis over which there is a mean.
        begin_params_axis: the first axis that beta and gamma have.
        scope: of the variables; by default "LayerNorm", made unique.

    >>> from unspool import tf1 as tf
    >>> with tf.Graph().as_default():
    ...     made = tf.contrib.layers.layer_norm(tf.zeros([2, 3]))
    ...     [variable.name for variable in tf.global_variables()]
    ['LayerNorm/beta:0', 'LayerNorm/gamma:0']
    """
    given = as_tensor(inputs)
    with variable_scope(scope, "LayerNorm", [inputs], reuse=reuse):
        if given.dims is None:
            raise ValueError(f"Inputs {given.name} has undefined rank.")
        rank = len(given.dims)
        first = begin_norm_axis % rank if begin_norm_axis < 0 else begin_norm_axis
        if first >= rank or begin_params_axis >= rank:
            raise ValueError(
                f"begin_params_axis ({begin_params_axis}) and begin_norm_axis ({begin_norm_axis}) must be < "
                f"rank(inputs) ({rank})"
            )
        sizes = given.dims[begin_params_axis:]
        if None in sizes:
            raise ValueError(f"Inputs {given.name}: shape(inputs)[{begin_params_axis}:] is not fully defined: {sizes}")
        both: list[Any] = [None, None]
        starts = (("beta", center, zeros_initializer()), ("gamma", scale, ones_initializer()))
        for place, (name, wanted, start) in enumerate(starts):
            if wanted:
                both[place] = get_variable(name, sizes, given.dtype, start, trainable=trainable)
                collect(both[place], name, variables_collections)
        mean, variance = moments(given, list(range(first, rank)), keep_dims=True)
        epsilon = 1e-3 if given.dtype.name == "float16" else 1e-12
        made = batch_normalization(given, mean, variance, both[0], both[1], epsilon)
        made = made if activation_fn is None else activation_fn(made)
    get_default_graph().add_to_collections(outputs_collections or (), made)
    return made
