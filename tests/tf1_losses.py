"""Losses, written for TensorFlow 1: the tests run them here, `conformance/tf1_training.py` on TensorFlow.

Each takes the module that it calls `tf`, and returns arrays by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_RNG = np.random.RandomState(5)
SCORES = _RNG.normal(size=(4, 3)).astype("float32")
OTHERS = _RNG.normal(size=(4, 3)).astype("float32")
CHANCES = _RNG.uniform(0.05, 0.95, (4, 3)).astype("float32")
TRUTHS = _RNG.randint(0, 2, (4, 3)).astype("float32")
CLASSES = _RNG.randint(0, 3, 4)
ONE_HOT = np.eye(3, dtype="float32")[CLASSES]
WEIGHTS = {
    "one": 1.0,
    "number": 0.3,
    "zero": 0.0,
    "rows": np.array([[1.0], [0.0], [0.5], [2.0]], "float32"),
    "columns": np.array([[0.0, 1.0, 3.0]], "float32"),
    "all": _RNG.randint(0, 3, (4, 3)).astype("float32"),
}
REDUCTIONS = [
    "NONE",
    "SUM",
    "MEAN",
    "SUM_OVER_BATCH_SIZE",
    "SUM_BY_NONZERO_WEIGHTS",
]

Loss = Callable[..., Any]


def _weighted(tf: Any, loss: Loss, *given: Any, weights: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A loss and its gradient with all weights and reductions."""
    x = tf.placeholder(tf.float32, given[-1].shape)
    made: dict[str, Any] = {}
    for name, weight in (WEIGHTS if weights is None else weights).items():
        for reduction in REDUCTIONS:
            value = loss(*given[:-1], x, weights=weight, reduction=getattr(tf.losses.Reduction, reduction), **more)
            made[f"{name}_{reduction}"] = value
            made[f"{name}_{reduction}_slope"] = tf.gradients(value, x)[0]
    assert len(tf.losses.get_losses()) == len(made) / 2
    with tf.Session() as session:
        return session.run(made, {x: given[-1]})


def mean_squared_error(tf: Any) -> dict[str, Any]:
    return _weighted(tf, tf.losses.mean_squared_error, OTHERS, SCORES)


def absolute_difference(tf: Any) -> dict[str, Any]:
    return _weighted(tf, tf.losses.absolute_difference, OTHERS, SCORES)


def huber_loss(tf: Any) -> dict[str, Any]:
    return _weighted(tf, tf.losses.huber_loss, OTHERS, SCORES, delta=0.7)


def log_loss(tf: Any) -> dict[str, Any]:
    return _weighted(tf, tf.losses.log_loss, TRUTHS, CHANCES)


def hinge_loss(tf: Any) -> dict[str, Any]:
    return _weighted(tf, tf.losses.hinge_loss, TRUTHS, SCORES)


def cosine_distance(tf: Any) -> dict[str, Any]:
    weights = {"one": 1.0, "rows": WEIGHTS["rows"]}
    return _weighted(tf, tf.losses.cosine_distance, OTHERS, SCORES, axis=1, weights=weights)


def sigmoid_cross_entropy(tf: Any) -> dict[str, Any]:
    return _weighted(tf, tf.losses.sigmoid_cross_entropy, TRUTHS, SCORES, label_smoothing=0.2)


def softmax_cross_entropy(tf: Any) -> dict[str, Any]:
    weights = {"one": 1.0, "rows": np.array([1.0, 0.0, 0.5, 2.0], "float32")}
    return _weighted(tf, tf.losses.softmax_cross_entropy, ONE_HOT, SCORES, weights=weights, label_smoothing=0.1)


def sparse_softmax_cross_entropy(tf: Any) -> dict[str, Any]:
    weights = {"one": 1.0, "rows": np.array([1.0, 0.0, 0.5, 2.0], "float32"), "columns": WEIGHTS["rows"]}
    return _weighted(tf, tf.losses.sparse_softmax_cross_entropy, CLASSES, SCORES, weights=weights)


def sparse_labels_in_columns(tf: Any) -> dict[str, Any]:
    return _weighted(tf, tf.losses.sparse_softmax_cross_entropy, CLASSES[:, None], SCORES, weights={"one": 1.0})


def lists(tf: Any) -> dict[str, Any]:
    """What the graph lists, and the totals."""
    tf.losses.mean_squared_error(OTHERS, SCORES, scope="first")
    tf.losses.huber_loss(OTHERS, SCORES, loss_collection=None)
    tf.losses.add_loss(tf.constant(2.0, name="second"))
    tf.get_variable("weight", [2], initializer=tf.ones_initializer(), regularizer=lambda w: tf.reduce_sum(w) * 3.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        totals = session.run(
            [
                tf.losses.get_total_loss(),
                tf.losses.get_total_loss(add_regularization_losses=False),
                tf.losses.get_regularization_loss(),
            ]
        )
    return {"names": np.array([loss.name for loss in tf.losses.get_losses()]), "totals": np.array(totals)}


ALL = [
    mean_squared_error,
    absolute_difference,
    huber_loss,
    log_loss,
    hinge_loss,
    cosine_distance,
    sigmoid_cross_entropy,
    softmax_cross_entropy,
    sparse_softmax_cross_entropy,
    sparse_labels_in_columns,
    lists,
]
