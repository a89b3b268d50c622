"""Losses with drawn weights and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1_ops.call import Call
from tests.tf1_ops.drawing import Draw, Generator, another, floats, one_of, seldom

REDUCTIONS = ["none", "weighted_sum", "weighted_mean", "weighted_sum_over_batch_size"]
REDUCTIONS += ["weighted_sum_by_nonzero_weights"]
DIFFERENCES = ["absolute_difference", "mean_squared_error", "huber_loss"]


def _sizes(rng: Generator, most: int = 3) -> tuple[int, ...]:
    return tuple(int(each) for each in rng.integers(1, 5, rng.integers(1, most)))


def _weights(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    """One for all, one for each, or one for each row; some of them zero."""
    wanted = one_of(rng, [(), shape, (*shape[:1], *[1] * (len(shape) - 1))])
    values = rng.uniform(0, 2, another(rng, wanted))
    return np.asarray(np.where(rng.random(values.shape) < 0.3, 0, values)).astype(np.float32)


def _of(name: str, rng: Generator, labels: np.ndarray, found: np.ndarray, shape: Any, **how: Any) -> Call:
    """A call with the weights of losses that have a shape."""
    reduction = one_of(rng, REDUCTIONS) if not seldom(rng) else "sum"

    def call(tf: Any, y: Any, x: Any, w: Any) -> Any:
        return getattr(tf.losses, name)(y, x, weights=w, reduction=reduction, **how)

    return Call(call, (labels, found, _weights(rng, tuple(shape))))


def _difference(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        shape = _sizes(rng)
        how = {"delta": float(rng.uniform(0.2, 2.0))} if name == "huber_loss" else {}
        return _of(name, rng, floats(rng, shape), floats(rng, another(rng, shape)), shape, **how)

    return draw


def _log(rng: Generator) -> Call:
    shape = _sizes(rng)
    labels, found = (np.asarray(rng.uniform(0.05, 0.95, each)).astype(np.float32) for each in (shape, shape))
    return _of("log_loss", rng, labels, found, shape, epsilon=one_of(rng, [1e-7, 1e-3]))


def _hinge(rng: Generator) -> Call:
    shape = _sizes(rng)
    labels = np.asarray(rng.integers(0, 2, shape)).astype(np.float32)
    return _of("hinge_loss", rng, labels, floats(rng, another(rng, shape)), shape)


def _cosine(rng: Generator) -> Call:
    shape = (*_sizes(rng, 2), int(rng.integers(1, 5)))
    axis = int(rng.integers(0, len(shape)))
    rest = [1 if place == axis else size for place, size in enumerate(shape)]
    return _of("cosine_distance", rng, floats(rng, shape), floats(rng, shape), rest, axis=axis)


def _sigmoid(rng: Generator) -> Call:
    shape = _sizes(rng)
    labels = np.asarray(rng.integers(0, 2, shape)).astype(one_of(rng, [np.float32, np.int32]))
    how = {"label_smoothing": one_of(rng, [0, 0.2])}
    return _of("sigmoid_cross_entropy", rng, labels, floats(rng, another(rng, shape)), shape, **how)


def _softmax(rng: Generator) -> Call:
    shape = (int(rng.integers(1, 5)), int(rng.integers(2, 5)))
    labels = np.eye(shape[1], dtype=np.float32)[rng.integers(0, shape[1], shape[0])]
    how = {"label_smoothing": one_of(rng, [0, 0.2])}
    return _of("softmax_cross_entropy", rng, labels, floats(rng, another(rng, shape)), shape[:1], **how)


def _sparse(rng: Generator) -> Call:
    shape = (int(rng.integers(1, 5)), int(rng.integers(2, 5)))
    labels = rng.integers(0, shape[1], shape[0]).astype(one_of(rng, [np.int32, np.int64]))
    return _of("sparse_softmax_cross_entropy", rng, labels, floats(rng, shape), shape[:1])


def _weighted(rng: Generator) -> Call:
    losses, reduction = floats(rng, _sizes(rng)), one_of(rng, REDUCTIONS)

    def call(tf: Any, x: Any, w: Any) -> Any:
        made = tf.losses.compute_weighted_loss(x, w, reduction=reduction)
        return [made, *([] if reduction == "none" else [tf.losses.get_total_loss()])]

    return Call(call, (losses, _weights(rng, losses.shape)))


DRAWN: dict[str, Draw] = {
    **{f"losses.{name}": _difference(name) for name in DIFFERENCES},
    "losses.log_loss": _log,
    "losses.hinge_loss": _hinge,
    "losses.cosine_distance": _cosine,
    "losses.sigmoid_cross_entropy": _sigmoid,
    "losses.softmax_cross_entropy": _softmax,
    "losses.sparse_softmax_cross_entropy": _sparse,
    "losses.compute_weighted_loss": _weighted,
}
"""By the operation's name: what draws a call of it."""
