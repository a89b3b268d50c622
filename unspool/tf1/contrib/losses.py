"""`tf.contrib.losses`: the older losses, which take what was predicted first."""

from __future__ import annotations

from typing import Any

from unspool.tf1 import losses
from unspool.tf1.losses import add_loss, get_losses, get_regularization_losses
from unspool.tf1.namespace import missing
from unspool.tf1.variables import GraphKeys

__all__ = [
    "absolute_difference",
    "add_loss",
    "compute_weighted_loss",
    "cosine_distance",
    "get_losses",
    "get_regularization_losses",
    "get_total_loss",
    "hinge_loss",
    "log_loss",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]


def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss") -> Any:
    """The sum of the losses that were made, with those of regularisers unless asked otherwise."""
    return losses.get_total_loss(add_regularization_losses, name)


def compute_weighted_loss(losses_: Any, weights: Any = 1.0, scope: str | None = None) -> Any:
    """The mean of losses, each times its weight, over those whose weight is not zero."""
    return losses.compute_weighted_loss(losses_, weights, scope, GraphKeys.LOSSES)


def absolute_difference(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> Any:
    """The mean of absolute differences."""
    return losses.absolute_difference(labels, predictions, weights, scope)


def mean_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> Any:
    """The mean of squared differences.

    >>> from unspool import tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     session.run(tf.contrib.losses.mean_squared_error([1.0, 2.0], [1.0, 4.0]))
    np.float32(2.0)
    """
    return losses.mean_squared_error(labels, predictions, weights, scope)


def log_loss(
    predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7, scope: str | None = None
) -> Any:
    """The mean of the cross entropies of truths and probabilities."""
    return losses.log_loss(labels, predictions, weights, epsilon, scope)


def hinge_loss(logits: Any, labels: Any = None, scope: str | None = None) -> Any:
    """The mean of `max(0, 1 - label * logit)`, with labels of 0 and 1 taken as -1 and 1."""
    return losses.hinge_loss(labels, logits, scope=scope)


def cosine_distance(
    predictions: Any,
    labels: Any = None,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: str | None = None,
    dim: int | None = None,
) -> Any:
    """The mean of `1 - cos` of rows that are one long."""
    return losses.cosine_distance(labels, predictions, axis if dim is None else dim, weights, scope)


def sigmoid_cross_entropy(
    logits: Any, multi_class_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None
) -> Any:
    """The mean of the cross entropies of truths and logits."""
    return losses.sigmoid_cross_entropy(multi_class_labels, logits, weights, label_smoothing, scope)


def softmax_cross_entropy(
    logits: Any, onehot_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None
) -> Any:
    """The mean of the cross entropies of rows of probabilities and logits."""
    return losses.softmax_cross_entropy(onehot_labels, logits, weights, label_smoothing, scope)


def sparse_softmax_cross_entropy(logits: Any, labels: Any, weights: Any = 1.0, scope: str | None = None) -> Any:
    """The mean of the cross entropies of classes and rows of logits."""
    return losses.sparse_softmax_cross_entropy(labels, logits, weights, scope)


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.losses", name, __all__)
