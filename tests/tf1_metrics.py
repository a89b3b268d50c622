"""Metrics over two batches, as both libraries compute them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Arrays = dict[str, Any]
rng = np.random.default_rng(0)
BATCHES = [
    dict(
        truths=rng.integers(0, 2, 9).astype(bool),
        guesses=rng.integers(0, 2, 9).astype(bool),
        scores=rng.uniform(size=9).astype(np.float32),
        values=rng.normal(size=9).astype(np.float32),
        weights=rng.uniform(size=9).astype(np.float32),
    )
    for _ in range(2)
]
COUNTS = ["true_positives", "true_negatives", "false_positives", "false_negatives", "precision", "recall"]
ERRORS = ["mean_squared_error", "root_mean_squared_error", "mean_absolute_error"]


def followed(tf: Any, build: Callable[..., Any]) -> Arrays:
    """The value and the update of a metric after each of two batches, and the names of its variables."""
    kinds = dict(truths=tf.bool, guesses=tf.bool, scores=tf.float32, values=tf.float32, weights=tf.float32)
    fed = {name: tf.placeholder(kind, [None], name=name) for name, kind in kinds.items()}
    value, update = build(**fed)
    found: Arrays = {"names": np.array([each.name for each in tf.local_variables()])}
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        found["before"] = session.run(value)
        for number, batch in enumerate(BATCHES):
            feed = {fed[name]: batch[name] for name in fed}
            found[f"update {number}"] = session.run(update, feed)
            found[f"value {number}"] = session.run(value)
    return found


def _case(name: str, build: Callable[..., Any]) -> Callable[[Any], Arrays]:
    def case(tf: Any) -> Arrays:
        return followed(tf, lambda **fed: build(tf, **fed))

    case.__name__ = name
    return case


def _counting(name: str, weighted: bool) -> Callable[..., Any]:
    return lambda tf, truths, guesses, weights, **_: getattr(tf.metrics, name)(
        truths, guesses, weights if weighted else None
    )


def _error(name: str, weighted: bool) -> Callable[..., Any]:
    return lambda tf, values, scores, weights, **_: getattr(tf.metrics, name)(
        values, scores, weights if weighted else None
    )


def _auc(**options: Any) -> Callable[..., Any]:
    return lambda tf, truths, scores, weights, **_: tf.metrics.auc(truths, scores, weights, **options)


ALL: list[Callable[[Any], Arrays]] = [
    *(_case(name, _counting(name, False)) for name in COUNTS),
    *(_case(f"{name}_weighted", _counting(name, True)) for name in COUNTS),
    *(_case(name, _error(name, False)) for name in ERRORS),
    *(_case(f"{name}_weighted", _error(name, True)) for name in ERRORS),
    _case("relative", lambda tf, values, scores, **_: tf.metrics.mean_relative_error(values, scores, scores)),
    _case("auc", lambda tf, truths, scores, **_: tf.metrics.auc(truths, scores)),
    _case("auc_weighted", _auc()),
    _case("auc_of_few_thresholds", _auc(num_thresholds=5, name="area")),
    _case("auc_of_precision", _auc(curve="PR", summation_method="trapezoidal")),
    _case("auc_minoring", _auc(summation_method="minoring")),
    _case("auc_majoring", _auc(summation_method="majoring")),
]
