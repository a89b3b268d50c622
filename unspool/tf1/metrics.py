"""`tf.metrics`: averages over many runs, kept in local variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from unspool.tf1.dtypes import bool_, float32
from unspool.tf1.graph import get_default_graph
from unspool.tf1.namespace import missing
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.array import identity
from unspool.tf1.ops.math import abs_, add, cast, div_no_nan, equal, logical_and, multiply, sqrt, square, subtract
from unspool.tf1.ops.reductions import reduce_sum
from unspool.tf1.scopes import variable_scope
from unspool.tf1.tensor import Tensor
from unspool.tf1.variables import GraphKeys, Variable
from unspool.tf1.weighting import paired, ranked, spread

if TYPE_CHECKING:
    from unspool.tf1.session import Run

__all__ = [
    "accuracy",
    "auc",
    "false_negatives",
    "false_positives",
    "mean",
    "mean_absolute_error",
    "mean_relative_error",
    "mean_squared_error",
    "precision",
    "recall",
    "root_mean_squared_error",
    "true_negatives",
    "true_positives",
]


def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The mean of all values so far, and a tensor that counts another batch and is the mean then.

    `tf.local_variables_initializer()` begins again.

    Args:
        values: a tensor of any shape.
        weights: how much each counts; a tensor that can be stretched to the values.
        metrics_collections: lists to add the mean to.
        updates_collections: lists to add the update to.
        name: of the scope of its variables; "mean" by default.

    >>> from unspool import tf1 as tf
    >>> x = tf.placeholder(tf.float32, [None])
    >>> value, update = tf.metrics.mean(x)
    >>> with tf.Session() as session:
    ...     session.run(tf.local_variables_initializer())
    ...     print(session.run(update, {x: [1.0, 2.0]}), session.run(update, {x: [6.0]}), session.run(value))
    1.5 3.0 3.0
    """
    with variable_scope(name, "mean"):
        total, count = _metric_variable("total"), _metric_variable("count")
        given = cast(as_tensor(values), float32)
        inputs = [given] if weights is None else [given, spread(weights, given)]

        def update(run: Run, batch: torch.Tensor, *weight: torch.Tensor) -> torch.Tensor:
            counted = weight[0] if weight else torch.ones_like(batch)
            totals, counts = run.state.value_of(total), run.state.value_of(count)
            with torch.no_grad():
                totals.add_((batch * counted).sum())
                counts.add_(counted.sum())
                return torch.where(counts == 0, torch.zeros_like(totals), totals / counts)

        value = div_no_nan(total, count, name="value")
        updated = apply(
            "update_op", update, *inputs, outputs=[(float32, ())], takes_run=True, effect=True, name="update_op"
        )
    return _collected(value, updated, metrics_collections, updates_collections)


# -- errors ----------------------------------------------------------------------------------------------------------


def _named(call: Callable[..., Any], name: str, what: str) -> Callable[..., Any]:
    """A function with a name and a docstring."""
    call.__name__ = call.__qualname__ = name
    call.__doc__ = what
    return call


def _averaged(name: str, of: Callable[[Any, Any], Tensor], what: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """A metric that is the mean of a function of labels and predictions."""

    def call(
        labels: Any,
        predictions: Any,
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        made = of(labels, predictions)
        return mean(made, weights, metrics_collections, updates_collections, name or default)

    default = name
    return _named(call, name, what)


def _right(labels: Any, predictions: Any) -> Tensor:
    wanted, found = paired(labels, predictions)
    return equal(cast(found, wanted.dtype), wanted)


def _off(labels: Any, predictions: Any) -> Tensor:
    wanted, found = _floats(labels, predictions)
    return subtract(found, wanted)


accuracy = _averaged("accuracy", _right, "What part of the predictions were the labels so far; see `mean`.")
mean_squared_error = _averaged(
    "mean_squared_error",
    lambda y, p: square(_off(y, p)),
    "The mean of `(predictions - labels) ** 2` so far; see `mean`.",
)
mean_absolute_error = _averaged(
    "mean_absolute_error", lambda y, p: abs_(_off(y, p)), "The mean of `abs(predictions - labels)` so far; see `mean`."
)


def root_mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The root of the mean of `(predictions - labels) ** 2` so far; see `mean`."""
    both = mean_squared_error(labels, predictions, weights, name=name or "root_mean_squared_error")
    return _collected(sqrt(both[0]), sqrt(both[1]), metrics_collections, updates_collections)


def mean_relative_error(
    labels: Any,
    predictions: Any,
    normalizer: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The mean of `abs(predictions - labels) / normalizer` so far, 0 where that divides by 0; see `mean`."""
    wanted, found = _floats(labels, predictions)
    scale, found = _floats(normalizer, found)
    errors = apply("relative_error", _relative, wanted, found, scale, outputs=[(float32, found.dims)])
    return mean(errors, weights, metrics_collections, updates_collections, name or "mean_relative_error")


def _relative(wanted: torch.Tensor, found: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    if not wanted.shape == found.shape == scale.shape:
        sizes = [list(each.shape) for each in (wanted, found, scale)]
        raise ValueError(f"labels, predictions and normalizer must have one shape, but have {sizes}")
    return torch.where(scale == 0, 0.0, (wanted - found).abs() / torch.where(scale == 0, 1.0, scale))


# -- truths ----------------------------------------------------------------------------------------------------------


def _counter(name: str, label: bool, prediction: bool, what: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """A metric that counts where labels and predictions are these."""

    def call(
        labels: Any,
        predictions: Any,
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        with variable_scope(name, default):
            wanted, found = (cast(each, bool_) for each in paired(labels, predictions))
            hits = cast(logical_and(equal(wanted, label), equal(found, prediction)), float32)
            count = _metric_variable("count")
            if weights is not None:
                hits = multiply(hits, ranked(weights, hits))
            update = count.assign_add(reduce_sum(hits))
            return _collected(identity(count), update, metrics_collections, updates_collections)

    default = name
    return _named(call, name, what)


true_positives = _counter("true_positives", True, True, "How many true labels were found so far, weighted.")
true_negatives = _counter("true_negatives", False, False, "How many false labels were found so far, weighted.")
false_positives = _counter("false_positives", False, True, "How many false labels were taken for true so far.")
false_negatives = _counter("false_negatives", True, False, "How many true labels were taken for false so far.")


def _share(name: str, others: Callable[..., Any], what: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """A metric that is the part of true positives among these and others."""

    def call(
        labels: Any,
        predictions: Any,
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        with variable_scope(name, default):
            hits = true_positives(labels, predictions, weights)
            misses = others(labels, predictions, weights)
            value, update = (div_no_nan(a, add(a, b)) for a, b in zip(hits, misses, strict=True))
        return _collected(value, update, metrics_collections, updates_collections)

    default = name
    return _named(call, name, what)


precision = _share(
    "precision",
    false_positives,
    """What part of all that was taken for true is true so far.

    >>> from unspool import tf1 as tf
    >>> value, update = tf.metrics.precision([True, False, True], [True, True, False])
    >>> with tf.Session() as session:
    ...     session.run(tf.local_variables_initializer())
    ...     print(session.run(update))
    0.5
    """,
)
recall = _share("recall", false_negatives, "What part of all that is true was taken for true so far.")


def auc(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Any = None,
) -> tuple[Tensor, Tensor]:
    """The area under the curve of what is found against what is taken for true wrongly, so far.

    Args:
        labels: truths.
        predictions: probabilities, from 0 to 1.
        weights: how much each counts.
        num_thresholds: at how many probabilities the curve is known.
        metrics_collections: lists to add the area to.
        updates_collections: lists to add the update to.
        curve: "ROC", or "PR" for the precision against the recall.
        name: of the scope of its variables; "auc" by default.
        summation_method: "trapezoidal", "minoring" or "majoring": what is between two points of the curve.
        thresholds: the probabilities, if they are not evenly spaced.
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")
    between = {
        "trapezoidal": lambda y: (y[:-1] + y[1:]) / 2,
        "minoring": lambda y: torch.minimum(y[:-1], y[1:]),
        "majoring": lambda y: torch.maximum(y[:-1], y[1:]),
    }
    if summation_method not in between:
        raise ValueError(f"Invalid summation_method: {summation_method}; it must be one of {sorted(between)}")
    inner = [k / (num_thresholds - 1) for k in range(1, num_thresholds - 1)] if thresholds is None else thresholds
    limits = torch.tensor([-1e-7, *inner, 1 + 1e-7])

    def counts(label: torch.Tensor, prediction: torch.Tensor, *weight: torch.Tensor) -> torch.Tensor:
        truth, score = label.reshape(-1).bool(), prediction.reshape(-1)
        if label.dtype != torch.bool and bool(((score < 0) | (score > 1)).any()):  # TensorFlow looks at no others
            raise ValueError("predictions must be in [0, 1]")
        each = (weight[0] if weight else torch.ones_like(prediction)).reshape(-1)
        above = score > limits[:, None]
        return torch.stack([((above == hit) & (truth == true)).float() @ each for hit, true in _OUTCOMES])

    def area(tp: torch.Tensor, fn: torch.Tensor, tn: torch.Tensor, fp: torch.Tensor) -> torch.Tensor:
        small = 1e-6
        found = (tp + small) / (tp + fn + small)
        x, y = (found, (tp + small) / (tp + fp + small)) if curve == "PR" else (fp / (fp + tn + small), found)
        return ((x[:-1] - x[1:]) * between[summation_method](y)).sum()

    with variable_scope(name, "auc"):
        wanted, found = paired(labels, predictions)
        scores = cast(found, float32)
        given = [wanted, scores, *([] if weights is None else [spread(weights, scores)])]
        made = apply("Counts", counts, *given, outputs=[(float32, (4, len(limits)))])
        names = ("true_positives", "false_negatives", "true_negatives", "false_positives")
        kept = [_metric_variable(each, len(limits)) for each in names]
        value = apply("Area", area, *kept, name="value", outputs=[(float32, ())])
        updates = [each.assign_add(made[number]) for number, each in enumerate(kept)]
        update = apply("Area", area, *updates, name="update_op", outputs=[(float32, ())])
    return _collected(value, update, metrics_collections, updates_collections)


_OUTCOMES = ((True, True), (False, True), (False, False), (True, False))
"""Whether it was taken for true, and whether it is, in the order of `auc`'s variables."""


# -- what they share -------------------------------------------------------------------------------------------------


def _floats(labels: Any, predictions: Any) -> tuple[Tensor, Tensor]:
    wanted, found = paired(labels, predictions)
    return cast(wanted, float32), cast(found, float32)


def _collected(value: Tensor, update: Tensor, values: Any, updates: Any) -> tuple[Tensor, Tensor]:
    graph = get_default_graph()
    graph.add_to_collections(values or (), value)
    graph.add_to_collections(updates or (), update)
    return value, update


def _metric_variable(name: str, *sizes: int) -> Variable:
    lists = [GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES]
    return Variable(torch.zeros(sizes).numpy(), trainable=False, collections=lists, name=name)


def __getattr__(name: str) -> Any:
    raise missing("tf.metrics", name, globals())
