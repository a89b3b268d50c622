"""Metrics over several drawn batches, with drawn weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1_ops.call import Call
from tests.tf1_ops.drawing import Draw, Generator, another, flag, one_of, seldom, sizes

COUNTS = ["true_positives", "true_negatives", "false_positives", "false_negatives", "precision", "recall"]
ERRORS = ["mean_squared_error", "root_mean_squared_error", "mean_absolute_error"]
TURNS = 3

Batch = tuple[np.ndarray, ...]


def _weights(rng: Generator, shape: tuple[int, ...]) -> list[np.ndarray]:
    """None, one for all, one for each, or one for each row."""
    chosen = one_of(rng, ["none", "one", "each", "each", "rows"])
    if chosen == "none":
        return []
    if chosen == "one":
        wanted: tuple[int, ...] = ()
    else:
        wanted = shape if chosen == "each" else (*shape[:1], *[1] * (len(shape) - 1))
    values = rng.uniform(0, 2, another(rng, wanted))
    return [np.asarray(np.where(rng.random(values.shape) < 0.2, 0, values)).astype(np.float32)]


def _values(rng: Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    if kind == "truths":
        return np.asarray(rng.integers(0, 2, shape)).astype(one_of(rng, [bool, np.int32, np.float32]))
    if kind == "scores":
        return np.asarray(rng.uniform(0, 1, shape)).astype(np.float32)
    if kind == "classes":
        return np.asarray(rng.integers(0, 3, shape)).astype(one_of(rng, [np.int32, np.int64]))
    return np.asarray(rng.normal(size=shape)).astype(np.float32)


def _followed(name: str, *kinds: str) -> Draw:
    """A metric of tensors of these kinds, which have one shape, and of weights."""

    def draw(rng: Generator) -> Call:
        first = sizes(rng, 1, 2)
        other = (*first, 1) if seldom(rng) else another(rng, first)  # one more axis is taken away
        shapes = [first, *[other] * (len(kinds) - 1)]
        how = _options(rng, name)
        batches: list[Batch] = []
        state = rng.bit_generator.state
        for turn in range(TURNS):
            rng.bit_generator.state = state  # for the same shapes and dtypes
            made = [*(_values(rng, kind, shape) for kind, shape in zip(kinds, shapes, strict=True))]
            weights = _weights(rng, first)
            batches.append(tuple(np.roll(each, turn) for each in (*made, *weights)))

        def call(tf: Any, *given: Any) -> Any:
            weights = given[len(kinds)] if len(given) > len(kinds) else None
            value, update = getattr(tf.metrics, name)(*given[: len(kinds)], weights=weights, **how)
            return [value, update, tf.identity(value)]

        return Call(call, batches[0], tuple(batches[1:]))

    return draw


def _options(rng: Generator, name: str) -> dict[str, Any]:
    if name != "auc":
        return {}
    how = dict(
        num_thresholds=int(rng.integers(3, 30)),
        curve=one_of(rng, ["ROC", "PR"]),
        summation_method=one_of(rng, ["trapezoidal", "minoring", "majoring"]),
    )
    return {**how, "thresholds": [0.2, 0.5, 0.7]} if flag(rng) and seldom(rng) else how


DRAWN: dict[str, Draw] = {
    "metrics.mean": _followed("mean", "values"),
    "metrics.accuracy": _followed("accuracy", "classes", "classes"),
    "metrics.auc": _followed("auc", "truths", "scores"),
    "metrics.mean_relative_error": _followed("mean_relative_error", "values", "values", "scores"),
    **{f"metrics.{name}": _followed(name, "truths", "truths") for name in COUNTS},
    **{f"metrics.{name}": _followed(name, "values", "values") for name in ERRORS},
}
"""By the operation's name: what draws a call of it."""
