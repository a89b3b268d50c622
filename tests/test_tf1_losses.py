"""Losses against TensorFlow's numbers and gradients, and what they say of wrong arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests import tf1_losses, tf1_recorded
from unspool import tf1 as tf
from unspool.tf1 import losses


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("case", tf1_losses.ALL, ids=lambda case: case.__name__)
def test_values_and_gradients_are_tensorflow_s_for_all_weights_and_reductions(case: Callable[..., Any]) -> None:
    tf1_recorded.check("losses", case.__name__, case(tf))


def test_no_element_that_counts_makes_a_loss_of_zero() -> None:
    loss = losses.mean_squared_error([1.0, 2.0], [3.0, 4.0], weights=[0.0, 0.0])
    assert tf.Session().run(loss) == 0


def test_weights_have_gradients_too() -> None:
    weight = tf.placeholder(tf.float32, [2])
    slope = tf.gradients(losses.absolute_difference([0.0, 0.0], [2.0, 6.0], weight), weight)[0]
    assert tf.Session().run(slope, {weight: [1.0, 1.0]}).tolist() == [1.0, 3.0]


def test_labels_of_whole_numbers_are_taken() -> None:
    assert tf.Session().run(losses.mean_squared_error([1, 2], tf.constant([1.0, 4.0]))) == 2


def test_losses_stay_out_of_the_list_if_asked() -> None:
    losses.mean_squared_error([1.0], [2.0], loss_collection=None)
    assert losses.get_losses() == []


def test_losses_are_listed_by_scope() -> None:
    first = losses.mean_squared_error([1.0], [2.0], scope="first")
    losses.mean_squared_error([1.0], [2.0], scope="second")
    assert losses.get_losses("first") == [first]


def test_no_regularization_is_a_loss_of_zero() -> None:
    assert tf.Session().run(losses.get_regularization_loss()) == 0


@pytest.mark.parametrize("weights", [np.ones(3), np.ones((2, 3)), np.ones((4, 3, 1))], ids=["row", "size", "rank"])
def test_weights_that_do_not_fit_are_an_error(weights: Any) -> None:
    with pytest.raises(ValueError, match=r"weights can not be broadcast to values.*\(4, 3\)"):
        losses.compute_weighted_loss(tf.zeros([4, 3]), weights)


def test_labels_of_another_shape_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"Shapes \(3,\) and \(2,\) are incompatible: predictions and labels"):
        losses.mean_squared_error(tf.zeros([2]), tf.zeros([3]))


@pytest.mark.parametrize("arguments", [(None, [1.0]), ([1.0], None)], ids=["labels", "predictions"])
def test_none_is_an_error_that_names_the_argument(arguments: Any, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id
    with pytest.raises(ValueError, match=f"{name} must not be None"):
        losses.mean_squared_error(*arguments)


def test_a_reduction_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="Invalid ReductionKey average"):
        losses.mean_squared_error([1.0], [2.0], reduction="average")


def test_cosine_distance_needs_an_axis() -> None:
    with pytest.raises(ValueError, match="You must specify 'axis'"):
        losses.cosine_distance([[1.0]], [[1.0]])
