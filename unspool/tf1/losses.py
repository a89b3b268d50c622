"""`tf.losses`: losses with weights, as one number, and the list of all that a graph has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from unspool.tf1.dtypes import float32
from unspool.tf1.gradients import stop_gradient
from unspool.tf1.graph import get_default_graph
from unspool.tf1.namespace import missing
from unspool.tf1.operations import apply, as_tensor, constant
from unspool.tf1.ops.array import expand_dims, squeeze
from unspool.tf1.ops.math import add, add_n, cast, multiply, reduce_sum, subtract
from unspool.tf1.ops.nn import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
)
from unspool.tf1.scopes import name_scope
from unspool.tf1.shapes import described, fit
from unspool.tf1.tensor import Tensor
from unspool.tf1.variables import GraphKeys
from unspool.tf1.weighting import check_weights

__all__ = [
    "Reduction",
    "absolute_difference",
    "add_loss",
    "compute_weighted_loss",
    "cosine_distance",
    "get_losses",
    "get_regularization_loss",
    "get_regularization_losses",
    "get_total_loss",
    "hinge_loss",
    "huber_loss",
    "log_loss",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]


class Reduction:
    """How the losses of elements become one number."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """All of them."""
        return cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE, cls.SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def validate(cls, key: str) -> None:
        """Raises `ValueError` if it is none of them."""
        if key not in cls.all():
            raise ValueError(f"Invalid ReductionKey {key}; there are {', '.join(cls.all())}")


# -- the list --------------------------------------------------------------------------------------------------------


def add_loss(loss: Any, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    """Adds a loss to the list of the graph."""
    if loss_collection:
        get_default_graph().add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Any]:
    """The losses of the graph; with a scope, those of such names."""
    return get_default_graph().get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """What regularisers have added."""
    return get_default_graph().get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> Tensor:
    """The sum of what regularisers have added; 0 if there is nothing."""
    found = get_regularization_losses(scope)
    return add_n(found, name=name) if found else constant(0.0)


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """The sum of all losses, those of regularisers included.

    >>> from unspool import tf1 as tf
    >>> with tf.Graph().as_default():
    ...     first = tf.losses.mean_squared_error([1.0], [3.0])
    ...     second = tf.losses.absolute_difference([1.0], [3.0])
    ...     tf.Session().run(tf.losses.get_total_loss())
    np.float32(6.0)
    """
    found = get_losses(scope)
    if add_regularization_losses:
        found = found + get_regularization_losses(scope)
    return add_n(found, name=name)


# -- weights ---------------------------------------------------------------------------------------------------------


def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """The losses of elements times weights, as one number, which is added to the losses of the graph.

    Args:
        losses: a loss for each element.
        weights: a number, or a tensor with as many axes as `losses`, of the same sizes or 1.
        scope: a name for the operations.
        loss_collection: the list that it is added to; None for none.
        reduction: how it becomes one number: the sum, over the number of elements whose weight is not 0 by default.

    Raises:
        ValueError: if the weights do not fit, or there is no such reduction.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.losses.compute_weighted_loss([1.0, 5.0, 3.0], [1.0, 0.0, 1.0]))
    np.float32(2.0)
    """
    Reduction.validate(reduction)
    with name_scope(scope, "weighted_loss"):
        given = as_tensor(losses)
        weight = as_tensor(weights)
        weight = cast(weight, float32) if not weight.dtype.is_floating else weight
        check_weights(weight.dims, given.dims)

        def compute(each: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            check_weights(tuple(weight.shape), tuple(each.shape))
            return _reduced(each, weight, reduction).to(each.dtype)

        dims = given.dims if reduction == Reduction.NONE else ()
        made = apply("weighted_loss", compute, given, weight, name="value", outputs=[(given.dtype, dims)])
        add_loss(made, loss_collection)
        return made


def _reduced(losses: torch.Tensor, weights: torch.Tensor, reduction: str) -> torch.Tensor:
    wide, weight = losses.float(), weights.float()  # as in TensorFlow, float64 too
    weighted = wide * weight
    if reduction == Reduction.NONE:
        return weighted
    total = weighted.sum()
    if reduction == Reduction.SUM:
        return total
    if reduction == Reduction.SUM_OVER_BATCH_SIZE:
        return _over(total, torch.tensor(float(losses.numel()), device=losses.device))
    spread = weight.expand(losses.shape)
    return _over(total, spread.sum() if reduction == Reduction.MEAN else (spread != 0).sum().float())


def _over(total: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """The quotient, 0 where divided by 0."""
    return torch.where(count == 0, torch.zeros_like(total), total / torch.where(count == 0, 1, count))


# -- losses ----------------------------------------------------------------------------------------------------------


def _pair(
    labels: Any, predictions: Any, what: str = "predictions", label: str = "labels", dtype: Any = float32
) -> tuple[Tensor, Tensor]:
    """Labels and predictions of one dtype, float32 as in TensorFlow if it is not None, and of one shape."""
    if labels is None:
        raise ValueError(f"{label} must not be None.")
    if predictions is None:
        raise ValueError(f"{what} must not be None.")
    found = as_tensor(predictions)
    found = found if dtype is None else cast(found, dtype)
    wanted = cast(as_tensor(labels), found.dtype)
    if not fit(found.dims, wanted.dims):
        raise ValueError(
            f"Shapes {described(found.dims)} and {described(wanted.dims)} are incompatible: {what} and {label} must "
            "have one shape"
        )
    return wanted, found


def _elementwise(
    kind: str, compute: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], labels: Tensor, predictions: Tensor
) -> Tensor:
    dims = predictions.dims if labels.dims is None else labels.dims
    return apply(kind, compute, labels, predictions, outputs=[(predictions.dtype, dims)])


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """`(predictions - labels) ** 2`, weighted; see `compute_weighted_loss`.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.losses.mean_squared_error([1.0, 2.0], [1.0, 4.0]))
    np.float32(2.0)
    """
    with name_scope(scope, "mean_squared_error") as scope:
        wanted, found = _pair(labels, predictions)
        losses = _elementwise("SquaredDifference", lambda y, p: (p - y).square(), wanted, found)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def absolute_difference(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """`abs(predictions - labels)`, weighted; see `compute_weighted_loss`."""
    with name_scope(scope, "absolute_difference") as scope:
        wanted, found = _pair(labels, predictions)
        losses = _elementwise("Abs", lambda y, p: (p - y).abs(), wanted, found)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def huber_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    delta: float = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Half the squared error where it is within `delta`, and a line beyond, weighted; see `compute_weighted_loss`."""

    def compute(y: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        error = (p - y).abs()
        near = error.clamp(max=delta)
        return 0.5 * near * near + delta * (error - near)

    with name_scope(scope, "huber_loss") as scope:
        wanted, found = _pair(labels, predictions)
        losses = _elementwise("Huber", compute, wanted, found)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def log_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """The cross entropy of truths and probabilities, weighted; see `compute_weighted_loss`."""

    def compute(y: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        return -y * torch.log(p + epsilon) - (1 - y) * torch.log(1 - p + epsilon)

    with name_scope(scope, "log_loss") as scope:
        wanted, found = _pair(labels, predictions)
        return compute_weighted_loss(
            _elementwise("LogLoss", compute, wanted, found), weights, scope, loss_collection, reduction
        )


def hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """`max(0, 1 - side * logits)`, where the side is 1 for a label of 1 and -1 for one of 0, weighted."""
    with name_scope(scope, "hinge_loss") as scope:
        wanted, found = _pair(labels, logits, "logits")
        losses = _elementwise("Hinge", lambda y, x: torch.relu(1 - (2 * y - 1) * x), wanted, found)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
    dim: int | None = None,
) -> Tensor:
    """One less the sum of products along an axis, of vectors that have norm 1 already, weighted."""
    chosen = dim if axis is None else axis
    if chosen is None:
        raise ValueError("You must specify 'axis'.")
    with name_scope(scope, "cosine_distance_loss") as scope:
        wanted, found = _pair(labels, predictions)
        losses = subtract(1.0, reduce_sum(multiply(found, wanted), axis=chosen, keepdims=True))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def sigmoid_cross_entropy(
    multi_class_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """The cross entropy of truths and `sigmoid(logits)`, weighted.

    Args:
        multi_class_labels: 0 or 1 for each element.
        logits: of the same shape.
        weights: see `compute_weighted_loss`.
        label_smoothing: by how much labels are pulled towards a half.
        scope: a name for the operations.
        loss_collection: the list that it is added to.
        reduction: how it becomes one number.
    """
    with name_scope(scope, "sigmoid_cross_entropy_loss") as scope:
        wanted, found = _pair(multi_class_labels, logits, "logits", "multi_class_labels", None)
        if label_smoothing > 0:
            wanted = add(multiply(wanted, 1 - label_smoothing), 0.5 * label_smoothing)
        losses = sigmoid_cross_entropy_with_logits(labels=wanted, logits=found)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """The cross entropy of probabilities and `softmax(logits)`, weighted.

    Args:
        onehot_labels: probabilities of the classes, held constant.
        logits: of the same shape.
        weights: see `compute_weighted_loss`.
        label_smoothing: by how much labels are pulled towards equal probabilities.
        scope: a name for the operations.
        loss_collection: the list that it is added to.
        reduction: how it becomes one number.
    """
    with name_scope(scope, "softmax_cross_entropy_loss") as scope:
        wanted, found = _pair(onehot_labels, logits, "logits", "onehot_labels", None)
        if label_smoothing > 0:
            wanted = _elementwise(
                "Smoothed",
                lambda _, y: y * (1 - label_smoothing) + label_smoothing / y.shape[1],
                wanted,
                wanted,
            )
        losses = softmax_cross_entropy_with_logits_v2(labels=stop_gradient(wanted), logits=found)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Minus the log-probability of each label, which is the number of a class, weighted.

    Args:
        labels: ints `[...]`, or `[..., 1]`.
        logits: `[..., classes]`.
        weights: see `compute_weighted_loss`.
        scope: a name for the operations.
        loss_collection: the list that it is added to.
        reduction: how it becomes one number.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.losses.sparse_softmax_cross_entropy(labels=[[1]], logits=[[0.0, 0.0]]))
    np.float32(0.6931472)
    """
    if labels is None:
        raise ValueError("labels must not be None.")
    if logits is None:
        raise ValueError("logits must not be None.")
    with name_scope(scope, "sparse_softmax_cross_entropy_loss") as scope:
        wanted, found, weight = as_tensor(labels), as_tensor(logits), as_tensor(weights)
        if wanted.dims and found.dims and len(wanted.dims) == len(found.dims) and wanted.dims[-1] == 1:
            wanted = squeeze(wanted, [-1])
        losses = sparse_softmax_cross_entropy_with_logits(labels=wanted, logits=found)
        if weight.dims and losses.dims is not None:
            more = len(weight.dims) - len(losses.dims)
            weight = squeeze(weight, [-1]) if more == 1 else expand_dims(weight, -1) if more == -1 else weight
        return compute_weighted_loss(losses, weight, scope, loss_collection, reduction)


def __getattr__(name: str) -> Any:
    raise missing("tf.losses", name, globals())
