"""`optimize_loss`: a loss, an optimiser and what is done to gradients in between, as one training operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unspool.tf1 import summary
from unspool.tf1.contrib.framework import assert_global_step, assert_scalar
from unspool.tf1.dtypes import float32
from unspool.tf1.graph import get_default_graph
from unspool.tf1.indexed_slices import IndexedSlices
from unspool.tf1.initializers import constant_initializer, zeros_initializer
from unspool.tf1.operations import as_tensor
from unspool.tf1.ops.array import identity
from unspool.tf1.ops.creation import ones_like
from unspool.tf1.ops.math import cast, clip_by_global_norm, exp, global_norm, log, maximum, minimum, sqrt, square
from unspool.tf1.ops.random import truncated_normal
from unspool.tf1.ops.slicing import where
from unspool.tf1.scopes import get_variable, variable_scope
from unspool.tf1.tensor import Operators
from unspool.tf1.train.adaptive import AdagradOptimizer, AdamOptimizer, FtrlOptimizer, RMSPropOptimizer
from unspool.tf1.train.descent import GradientDescentOptimizer, MomentumOptimizer
from unspool.tf1.train.optimizer import Optimizer
from unspool.tf1.train.step import get_global_step
from unspool.tf1.variables import GraphKeys, trainable_variables

Pairs = list[tuple[Any, Any]]

OPTIMIZER_CLS_NAMES: dict[str, Callable[..., Optimizer]] = {
    "Adagrad": AdagradOptimizer,
    "Adam": AdamOptimizer,
    "Ftrl": FtrlOptimizer,
    "Momentum": lambda learning_rate: MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": RMSPropOptimizer,
    "SGD": GradientDescentOptimizer,
}
"""What `optimize_loss` knows by name."""

OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm"]
"""What `optimize_loss` may write down."""


def optimize_loss(
    loss: Any,
    global_step: Any,
    learning_rate: Any,
    optimizer: Any,
    gradient_noise_scale: float | None = None,
    gradient_multipliers: Mapping[Any, float] | None = None,
    clip_gradients: Any = None,
    learning_rate_decay_fn: Callable[[Any, Any], Any] | None = None,
    update_ops: Sequence[Any] | None = None,
    variables: Sequence[Any] | None = None,
    name: str | None = None,
    summaries: Sequence[str] | None = None,
    colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> Any:
    """The loss, as a tensor that trains when it is run.

    Args:
        loss: a scalar.
        global_step: a variable that is counted up; the graph's own if None, and none if it has none.
        learning_rate: a float, which becomes a variable "learning_rate"; a scalar tensor; or None.
        optimizer: the name of one; a class, or a function of the rate (of nothing without one); or an optimiser.
        gradient_noise_scale: how much noise of a truncated normal is added to gradients.
        gradient_multipliers: factors for the gradients of variables, by variable or by name.
        clip_gradients: the largest norm of all gradients together, a float; or a function of pairs of gradient and
            variable that returns others, such as that of `adaptive_clipping_fn`.
        learning_rate_decay_fn: a function of the rate and the step.
        update_ops: operations that run first; those of `tf.GraphKeys.UPDATE_OPS` by default.
        variables: those to train; all that are trainable by default.
        name: of the scope, "OptimizeLoss" by default.
        summaries: what is written down, of `OPTIMIZER_SUMMARIES`; loss, rate and norm by default.
        colocate_gradients_with_ops: accepted.
        increment_global_step: whether the step is counted up.

    Raises:
        ValueError: for a loss that is no scalar, a rate that is no float or scalar tensor, an unknown optimiser, way to
            clip or summary, or a rate that decays without a step.

    >>> from unspool import tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     weight = tf.get_variable("weight", initializer=2.0)
    ...     train = tf.contrib.layers.optimize_loss(weight * weight, None, 0.25, "SGD")
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(train), session.run(weight)
    (np.float32(4.0), np.float32(1.0))
    """
    loss = assert_scalar(loss)
    step = get_global_step() if global_step is None else global_step
    if global_step is not None:
        assert_global_step(global_step)
    graph = get_default_graph()
    with variable_scope(name, "OptimizeLoss", [loss]):
        first = list(dict.fromkeys(graph.get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else update_ops))
        if first:
            with graph.control_dependencies(first):
                loss = identity(loss)
        rate = _rate(learning_rate)
        shown = ["loss", "learning_rate", "global_gradient_norm"] if summaries is None else list(summaries)
        for each in shown:
            if each not in OPTIMIZER_SUMMARIES:
                known = ", ".join(OPTIMIZER_SUMMARIES)
                raise ValueError(f"Summaries should be one of [{known}], you provided {each}.")
        if learning_rate is not None and learning_rate_decay_fn is not None:
            if step is None:
                raise ValueError("global_step is required for learning_rate_decay_fn.")
            rate = learning_rate_decay_fn(rate, step)
            if "learning_rate" in shown:
                summary.scalar("learning_rate", rate)
        chosen = _optimizer(optimizer, rate)
        pairs = chosen.compute_gradients(loss, trainable_variables() if variables is None else variables)
        pairs = _changed(pairs, gradient_noise_scale, gradient_multipliers)
        if "global_gradient_norm" in shown or "gradient_norm" in shown:
            summary.scalar("global_norm/gradient_norm", _norm(pairs))
        pairs = _clipped(pairs, clip_gradients)
        if "loss" in shown:
            summary.scalar("loss", loss)
        _summarize_gradients(pairs, shown, clip_gradients is not None)
        update = chosen.apply_gradients(pairs, global_step=step if increment_global_step else None, name="train")
        with graph.control_dependencies([update]):
            return identity(loss)


def _rate(learning_rate: Any) -> Any:
    if learning_rate is None:
        return None
    if isinstance(learning_rate, Operators) and as_tensor(learning_rate).dims == ():
        return learning_rate
    if not isinstance(learning_rate, float):
        kind = type(learning_rate)
        raise ValueError(f"Learning rate should be 0d Tensor or float. Got {learning_rate} of type {kind}")
    if learning_rate < 0.0:
        raise ValueError(f"Invalid learning_rate {learning_rate}.")
    return get_variable("learning_rate", [], trainable=False, initializer=constant_initializer(learning_rate))


def _optimizer(optimizer: Any, rate: Any) -> Optimizer:
    named = isinstance(optimizer, str)
    if named or (isinstance(optimizer, type) and issubclass(optimizer, Optimizer)):
        if rate is None:
            kind = "string" if named else "class"
            raise ValueError(f"Learning rate is None, but should be specified if optimizer is {kind} ({optimizer}).")
        if named and optimizer not in OPTIMIZER_CLS_NAMES:
            known = ", ".join(OPTIMIZER_CLS_NAMES)
            raise ValueError(f"Optimizer name should be one of [{known}], you provided {optimizer}.")
        kind: Any = OPTIMIZER_CLS_NAMES[optimizer] if named else optimizer
        return kind(learning_rate=rate)
    if isinstance(optimizer, Optimizer):
        return optimizer
    if not callable(optimizer):
        raise ValueError(
            "Unrecognized optimizer: should be string, subclass of Optimizer, instance of subclass of Optimizer or "
            f"function with one argument. Got {optimizer}."
        )
    made = optimizer() if rate is None else optimizer(rate)
    if not isinstance(made, Optimizer):
        raise ValueError(f"Unrecognized optimizer: function should return subclass of Optimizer. Got {made}.")
    return made


def _changed(pairs: Pairs, noise: float | None, multipliers: Mapping[Any, float] | None) -> Pairs:
    """Gradients with noise, and multiplied."""
    if noise is not None:
        pairs = [(_noisy(gradient, noise), variable) for gradient, variable in pairs]
    if multipliers is None:
        return pairs
    found = [(gradient, variable, _multiplier(multipliers, variable)) for gradient, variable in pairs]
    pairs = [(_scaled(gradient, factor), variable) for gradient, variable, factor in found]
    if not pairs:
        raise ValueError("Empty list of (gradient, var) pairs encountered: see gradient_multipliers")
    return pairs


def _multiplier(multipliers: Mapping[Any, float], variable: Any) -> Any:
    if variable in multipliers:
        return as_tensor(multipliers[variable], float32)
    return as_tensor(multipliers[variable.name], float32) if variable.name in multipliers else None


def _noisy(gradient: Any, scale: float) -> Any:
    if gradient is None:
        return None
    shape = gradient.dense_shape if isinstance(gradient, IndexedSlices) else gradient.shape
    return as_tensor(gradient) + truncated_normal(shape) * scale


def _scaled(gradient: Any, factor: Any) -> Any:
    if gradient is None or factor is None:
        return gradient
    if isinstance(gradient, IndexedSlices):
        return IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor


def _clipped(pairs: Pairs, clip: Any) -> Pairs:
    if clip is None:
        return pairs
    if isinstance(clip, float):
        shorter, _ = clip_by_global_norm([gradient for gradient, _ in pairs], clip)
        return [(gradient, variable) for gradient, (_, variable) in zip(shorter, pairs, strict=True)]
    if not callable(clip):
        raise ValueError(f"Unknown type {type(clip)} for clip_gradients")
    made: Any = clip(pairs)
    return list(made)


def _norm(pairs: Pairs) -> Any:
    return global_norm([gradient for gradient, _ in pairs])


def _summarize_gradients(pairs: Pairs, shown: Sequence[str], clipped: bool) -> None:
    for gradient, variable in pairs:
        values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
        if values is None:
            continue
        name = variable.name.replace(":", "_")
        if "gradients" in shown:
            summary.histogram(f"gradients/{name}", values)
        if "gradient_norm" in shown:
            summary.scalar(f"gradient_norm/{name}", global_norm([values]))
    if clipped and ("global_gradient_norm" in shown or "gradient_norm" in shown):
        summary.scalar("global_norm/clipped_gradient_norm", _norm(pairs))


def adaptive_clipping_fn(
    std_factor: float = 2.0,
    decay: float = 0.95,
    static_max_norm: float | None = None,
    global_step: Any = None,
    report_summary: bool = False,
    epsilon: float = 1e-8,
    name: str | None = None,
) -> Callable[[Pairs], Pairs]:
    """For `clip_gradients`: clips where the norm is far above what it was (Chorowski et al., 2014).

    The mean and the deviation of the logarithm of the norm are averaged over the steps, in two variables. Where the
    norm is above `exp(mean + std_factor * deviation)`, gradients are made as long as `exp(mean)`.

    Args:
        std_factor: how many deviations are allowed.
        decay: how much of the averages stays.
        static_max_norm: a largest norm beside.
        global_step: for averages that begin quicker.
        report_summary: whether the largest norm is written down.
        epsilon: added to norms and variances.
        name: of the scope of the variables, "AdaptiveMaxNorm" by default.
    """

    def clip(pairs: Pairs) -> Pairs:
        norm = _norm(pairs)
        with variable_scope(name, "AdaptiveMaxNorm", [norm]):
            logarithm, kept = log(norm + epsilon), decay
            if global_step is not None:
                count = cast(global_step, float32)
                kept = minimum(as_tensor(decay), count / (count + 1.0))
            mean = _averaged("mean", logarithm, kept)
            spread = _averaged("sq_mean", square(logarithm), kept) - square(mean)
            largest = exp(mean + std_factor * sqrt(maximum(as_tensor(epsilon), spread)))
        if report_summary:
            summary.scalar("global_norm/adaptive_max_gradient_norm", largest)
        factor = where(norm < largest, ones_like(norm), exp(mean) / norm)
        if static_max_norm is not None:
            factor = minimum(static_max_norm / norm, factor)
        return [(_scaled(gradient, factor), variable) for gradient, variable in pairs]

    return clip


def _averaged(name: str, value: Any, decay: Any) -> Any:
    """A moving average of a scalar, after the value was taken in."""
    average = get_variable(name, [], value.dtype, zeros_initializer(), trainable=False)
    return average.assign_sub((average - value) * (1.0 - decay))
