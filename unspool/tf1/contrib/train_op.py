"""Training operations: a loss that trains when it is run, for `tf.contrib.training` and `tf.contrib.slim.learning`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unspool.tf1 import summary
from unspool.tf1.graph import get_default_graph
from unspool.tf1.indexed_slices import IndexedSlices
from unspool.tf1.operations import as_tensor
from unspool.tf1.ops.array import identity
from unspool.tf1.ops.checks import check_numerics as checked
from unspool.tf1.ops.math import clip_by_norm, global_norm
from unspool.tf1.train.step import get_or_create_global_step
from unspool.tf1.variables import GraphKeys, trainable_variables

Pairs = list[tuple[Any, Any]]
_USE_GLOBAL_STEP = 0
"""For `global_step`: the graph's own."""


def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = _USE_GLOBAL_STEP,
    update_ops: Sequence[Any] | None = None,
    variables_to_train: Sequence[Any] | None = None,
    transform_grads_fn: Callable[[Pairs], Pairs] | None = None,
    summarize_gradients: bool = False,
    gate_gradients: Any = None,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    check_numerics: bool = True,
) -> Any:
    """The loss, as a tensor that trains when it is run, after the updates of `tf.GraphKeys.UPDATE_OPS`.

    Args:
        total_loss: the loss.
        optimizer: an optimiser.
        global_step: a variable that is counted up; the graph's own by default, None for none.
        update_ops: operations that run first, in the place of those of the collection.
        variables_to_train: all that are trainable by default.
        transform_grads_fn: a function of pairs of gradient and variable that returns others.
        summarize_gradients: whether gradients and their norms are written down.
        gate_gradients, aggregation_method, colocate_gradients_with_ops: accepted.
        check_numerics: whether a loss that is no number is an error.

    >>> from unspool import tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     weight = tf.get_variable("weight", initializer=2.0)
    ...     train = tf.contrib.training.create_train_op(weight * weight, tf.train.GradientDescentOptimizer(0.25))
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(train), session.run(weight)
    (np.float32(4.0), np.float32(1.0))
    """
    graph, loss = get_default_graph(), as_tensor(total_loss)
    step = get_or_create_global_step() if global_step is _USE_GLOBAL_STEP else global_step
    first = list(dict.fromkeys(graph.get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else update_ops))
    if first:
        with graph.control_dependencies(first):
            loss = identity(loss, name="update_barrier")
    pairs = optimizer.compute_gradients(
        loss, trainable_variables() if variables_to_train is None else variables_to_train
    )
    if transform_grads_fn is not None:
        pairs = transform_grads_fn(pairs)
    if summarize_gradients:
        add_gradients_summaries(pairs)
    update = optimizer.apply_gradients(pairs, global_step=step)
    with graph.name_scope("train_op"):
        if check_numerics:
            loss = checked(loss, "LossTensor is inf or nan")
        with graph.control_dependencies([update]):
            made = identity(loss)
    graph.add_to_collection(GraphKeys.TRAIN_OP, made)
    return made


def create_clipped_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = _USE_GLOBAL_STEP,
    update_ops: Sequence[Any] | None = None,
    variables_to_train: Sequence[Any] | None = None,
    clip_gradient_norm: float = 0,
    summarize_gradients: bool = False,
    gate_gradients: Any = None,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    gradient_multipliers: Mapping[Any, Any] | None = None,
    check_numerics: bool = True,
) -> Any:
    """The training operation of `tf.contrib.slim.learning`: gradients are multiplied, then each is clipped.

    Args:
        clip_gradient_norm: the largest norm of each gradient by itself; none if it is not positive.
        gradient_multipliers: factors for the gradients of variables, by variable or by the name of its operation.
        total_loss, optimizer, global_step, update_ops, variables_to_train, summarize_gradients, gate_gradients,
        aggregation_method, colocate_gradients_with_ops, check_numerics: see `tf.contrib.training.create_train_op`.
    """

    def change(pairs: Pairs) -> Pairs:
        if gradient_multipliers:
            pairs = multiply_gradients(pairs, gradient_multipliers)
        return clip_gradient_norms(pairs, clip_gradient_norm) if clip_gradient_norm > 0 else pairs

    more = dict(summarize_gradients=summarize_gradients, check_numerics=check_numerics)
    return create_train_op(total_loss, optimizer, global_step, update_ops, variables_to_train, change, **more)


def clip_gradient_norms(gradients_to_variables: Pairs, max_norm: float) -> Pairs:
    """Pairs of gradient and variable, with each gradient no longer than `max_norm`."""
    return [
        (None if gradient is None else clip_by_norm(gradient, max_norm), variable)
        for gradient, variable in gradients_to_variables
    ]


def clip_gradient_norms_fn(max_norm: float) -> Callable[[Pairs], Pairs]:
    """`clip_gradient_norms` as a function of pairs alone."""
    return lambda pairs: clip_gradient_norms(pairs, max_norm)


def multiply_gradients(grads_and_vars: Pairs, gradient_multipliers: Mapping[Any, Any]) -> Pairs:
    """Pairs of gradient and variable, with gradients times the factor of their variable.

    Raises:
        ValueError: if there are no pairs, no factors, or a factor for a variable without a gradient.
    """
    if not isinstance(grads_and_vars, list):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError("`grads_and_vars` must be a list.")
    if not gradient_multipliers:
        raise ValueError("`gradient_multipliers` is empty.")
    if not isinstance(gradient_multipliers, dict):
        raise ValueError("`gradient_multipliers` must be a dict.")
    factors: dict[Any, Any] = gradient_multipliers
    made: Pairs = []
    for gradient, variable in grads_and_vars:
        key = variable if variable in factors else variable.op.name
        if key not in factors:
            made.append((gradient, variable))
            continue
        if gradient is None:
            raise ValueError("Requested multiple of `None` gradient.")
        factor = as_tensor(factors[key], gradient.dtype)
        made.append((_multiplied(gradient, factor), variable))
    return made


def add_gradients_summaries(grads_and_vars: Pairs) -> list[Any]:
    """Histograms and norms of gradients, to be written down."""
    made: list[Any] = []
    for gradient, variable in grads_and_vars:
        if gradient is None:
            continue
        values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
        made.append(summary.histogram(f"{variable.op.name}_gradient", values))
        made.append(summary.scalar(f"{variable.op.name}_gradient_norm", global_norm([values])))
    return made


def _multiplied(gradient: Any, factor: Any) -> Any:
    if isinstance(gradient, IndexedSlices):
        return IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor
