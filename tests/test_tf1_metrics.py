"""Metrics over several batches have TensorFlow's values and variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests import tf1_metrics, tf1_recorded
from unspool import tf1 as tf


@pytest.mark.parametrize("case", tf1_metrics.ALL, ids=lambda case: case.__name__)
def test_it_is_that_of_tensorflow(case: Callable[[Any], dict[str, Any]]) -> None:
    tf1_recorded.check("metrics", case.__name__, case(tf))


def test_it_is_in_the_collections_that_it_is_told() -> None:
    value, update = tf.metrics.recall([True], [True], metrics_collections="values", updates_collections=["a", "b"])
    assert tf.get_collection("values") == [value]
    assert tf.get_collection("a") == tf.get_collection("b") == [update]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(curve="ROCK"), "curve must be either ROC or PR"),
        (dict(summation_method="x"), "Invalid summation_method"),
    ],
)
def test_what_auc_does_not_know(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tf.metrics.auc([True], [0.5], **options)


def test_labels_and_predictions_must_have_one_shape() -> None:
    with pytest.raises(ValueError, match=r"Shapes \(3,\) and \(2,\) are incompatible"):
        tf.metrics.precision([True, False], [True, False, True])
