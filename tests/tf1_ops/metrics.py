"""Metrics after each of two batches, with weights of every form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1_ops.call import Call, floats, truths

CALLS: dict[str, Call] = {}

WEIGHTS = {
    "a scalar": np.float32(0.5),
    "each": floats(4, 3, low=0.0),
    "rows": floats(4, 1, low=0.0),
    "rows without an axis": floats(4, low=0.0),
    "one axis more": floats(4, 3, 1, low=0.0),
    "too many rows": floats(5, 3, low=0.0),
    "too many axes": floats(4, 3, 2, low=0.0),
}
_LABELS, _FOUND, _TRUE, _TAKEN = floats(4, 3), floats(4, 3, seed=1), truths(4, 3), truths(4, 3, seed=1)


def _add(name: str, function: Callable[..., Any], *values: np.ndarray) -> None:
    CALLS[name] = Call(function, values, (values,))


def _both(made: Any) -> list[Any]:
    value, update = made
    return [update, value]


for _form, _weights in WEIGHTS.items():
    _add(f"mean weighted by {_form}", lambda tf, x, w: _both(tf.metrics.mean(x, w)), _LABELS, _weights)
    for _name, _given in [
        ("accuracy", (_TRUE, _TAKEN)),
        ("mean_squared_error", (_LABELS, _FOUND)),
        ("true_positives", (_TRUE, _TAKEN)),
        ("precision", (_TRUE, _TAKEN)),
        ("auc", (_TRUE, np.abs(_FOUND) / 2)),
    ]:
        _call = lambda tf, y, x, w, name=_name: _both(getattr(tf.metrics, name)(y, x, w))  # noqa: E731
        _add(f"{_name} weighted by {_form}", _call, *_given, _weights)
for _name in ["accuracy", "mean_absolute_error", "false_negatives"]:
    _call = lambda tf, y, x, name=_name: _both(getattr(tf.metrics, name)(y, x))  # noqa: E731
    _add(f"{_name} of a column", _call, _LABELS[:, :1], _LABELS[:, 0])
    _add(f"{_name} of another shape", _call, _LABELS, _FOUND[:, :2])
_add("auc of no probabilities", lambda tf, y, x: _both(tf.metrics.auc(y, x)), _TRUE.astype(np.int32), 3 * _FOUND)
_relative = lambda tf, y, x, n: _both(tf.metrics.mean_relative_error(y, x, n))  # noqa: E731
_add("mean_relative_error", _relative, _LABELS, _FOUND, np.abs(_FOUND))
_add("mean_relative_error of one row of labels", _relative, _LABELS[:1], _FOUND, np.abs(_FOUND))
